// SPDX-License-Identifier: Apache-2.0
//
// What a figure must say of the machine that it was measured on, and of the time.

#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace zipccl::tools::perf {

struct Machine {
  std::string cpuModel;                      ///< "unknown" where the system does not say
  int cores = 0;                             ///< that this process may use
  std::vector<std::string> instructionSets;  ///< for vectors, those that the machine has
  std::string system;                        ///< name and release of the kernel
  std::string hostName;
};

[[nodiscard]] Machine thisMachine();

/// What the machine has; the largest number where the system does not say.
[[nodiscard]] std::uint64_t physicalMemoryBytes();

/// UTC, ISO 8601.
[[nodiscard]] std::string utcNow();

}  // namespace zipccl::tools::perf
