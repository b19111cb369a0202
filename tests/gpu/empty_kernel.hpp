// SPDX-License-Identifier: Apache-2.0
//
// The least that a launch can be, to hold short kernels against.

#pragma once

#include <cuda_runtime_api.h>

namespace zipccl::gpu::testing {

[[nodiscard]] cudaError_t launchEmptyKernel(cudaStream_t stream);

}  // namespace zipccl::gpu::testing
