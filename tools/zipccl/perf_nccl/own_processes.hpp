// SPDX-License-Identifier: Apache-2.0
//
// A launcher for the ranks of one host: this program once more for each, as torchrun would start
// it.

#pragma once

#include <optional>
#include <string>
#include <vector>

#include "support/failure.hpp"

namespace zipccl::tools::perf_nccl {

/// What NCCL is told for the host of a rank (`NCCL_HOSTID`) where ranks share devices, since it
/// refuses two ranks of one host on one device: the ranks that have a device each are one host.
/// Absent where there are devices for all.
[[nodiscard]] std::optional<std::string> ownHostId(int rank, int ranks, int devices);

/// Whether ownHostId() gave that.
[[nodiscard]] bool isOwnHostId(const char* hostId);

/// Starts `arguments` so often and waits for all; when one ends badly, it ends the others. Returns
/// the status of the first that ended badly. Throws Failure. Where there are fewer devices, ranks
/// share them.
[[nodiscard]] ExitStatus runProcesses(const std::vector<std::string>& arguments, int count,
                                      int devices);

}  // namespace zipccl::tools::perf_nccl
