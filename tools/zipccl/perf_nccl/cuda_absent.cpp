// SPDX-License-Identifier: Apache-2.0
//
// What stands for GPUs in builds without CUDA.

#include "perf_nccl/nccl_device.hpp"
#include "support/failure.hpp"

namespace zipccl::tools::perf_nccl {

NcclDevices findCudaDevices() {
  throw Failure("this build has no GPU code, so it can make no calls over NCCL");
}

std::unique_ptr<NcclDevice> openCudaDevice(int /*number*/) {
  throw Failure("this build has no GPU code, so it can make no calls over NCCL");
}

}  // namespace zipccl::tools::perf_nccl
