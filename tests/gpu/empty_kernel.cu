// SPDX-License-Identifier: Apache-2.0
//
// A kernel that does nothing.

#include "gpu/empty_kernel.hpp"

namespace zipccl::gpu::testing {
namespace {

__global__ void emptyKernel() {}

}  // namespace

cudaError_t launchEmptyKernel(cudaStream_t stream) {
  emptyKernel<<<1, 32, 0, stream>>>();
  return cudaGetLastError();
}

}  // namespace zipccl::gpu::testing
