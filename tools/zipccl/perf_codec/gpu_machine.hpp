// SPDX-License-Identifier: Apache-2.0
//
// What a figure must say of the GPU that it was measured on. Every build has this; builds without
// CUDA find no GPU.

#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace zipccl::tools::perf_codec {

struct GpuMachine {
  std::string name;
  std::string computeCapability;  ///< such as "9.0"
  int multiprocessors = 0;
  std::uint64_t memoryBytes = 0;
  std::uint64_t cacheBytes = 0;  ///< L2
  std::string driver;            ///< of the kernel module; empty where the system does not say
  std::string cudaDriver;        ///< the CUDA version that the driver has, such as "13.0"
  std::string cudaRuntime;
};

/// The current device, or why there is none.
struct GpuSearch {
  std::optional<GpuMachine> machine;
  std::string whyNot;  ///< one line, empty when there is one
};

/// Starts CUDA where the build has it; nothing else does before a measurement. Throws Failure when
/// there is a device that does not answer.
[[nodiscard]] GpuSearch findGpu();

/// The current device. Throws Failure when there is none.
[[nodiscard]] GpuMachine thisGpuMachine();

}  // namespace zipccl::tools::perf_codec
