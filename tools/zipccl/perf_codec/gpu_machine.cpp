// SPDX-License-Identifier: Apache-2.0
//
// Asks CUDA and the system about the GPU.

#include "perf_codec/gpu_machine.hpp"

#include <cuda_runtime_api.h>

#include <fstream>
#include <sstream>
#include <utility>

#include "perf_codec/cuda.hpp"

namespace zipccl::tools::perf_codec {
namespace {

std::string versionText(int version) {
  return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}

/// `NVRM version: NVIDIA UNIX x86_64 Kernel Module  580.159.04  ...`: the first word of digits and
/// dots.
std::string readDriverVersion() {
  std::ifstream file("/proc/driver/nvidia/version");
  std::string line;
  std::getline(file, line);
  std::istringstream words(line);
  for (std::string word; words >> word;) {
    if (word.find('.') != std::string::npos &&
        word.find_first_not_of("0123456789.") == std::string::npos) {
      return word;
    }
  }
  return "";
}

}  // namespace

GpuSearch findGpu() {
  int count = 0;
  const cudaError_t status = cudaGetDeviceCount(&count);
  if (status != cudaSuccess || count == 0) {
    static_cast<void>(cudaGetLastError());
    return {std::nullopt, status != cudaSuccess ? cudaGetErrorString(status) : "no CUDA device"};
  }
  GpuMachine machine;
  int device = 0;
  check(cudaGetDevice(&device), "asking for the device");
  cudaDeviceProp properties{};
  check(cudaGetDeviceProperties(&properties, device), "asking about the device");
  machine.name = properties.name;
  machine.computeCapability =
      std::to_string(properties.major) + "." + std::to_string(properties.minor);
  machine.multiprocessors = properties.multiProcessorCount;
  machine.memoryBytes = properties.totalGlobalMem;
  machine.cacheBytes = static_cast<std::uint64_t>(properties.l2CacheSize);
  int version = 0;
  check(cudaDriverGetVersion(&version), "asking for the driver's version");
  machine.cudaDriver = versionText(version);
  check(cudaRuntimeGetVersion(&version), "asking for the runtime's version");
  machine.cudaRuntime = versionText(version);
  machine.driver = readDriverVersion();
  return {std::move(machine), ""};
}

GpuMachine thisGpuMachine() {
  GpuSearch search = findGpu();
  if (!search.machine) throw Failure("no GPU: " + search.whyNot);
  return *std::move(search.machine);
}

}  // namespace zipccl::tools::perf_codec
