// SPDX-License-Identifier: Apache-2.0
//
// Turns a failed CUDA call into the library's exception.

#pragma once

#include <cuda_runtime_api.h>

#include "base/error.hpp"

namespace zipccl::gpu {

/// Throws Error(kUnhandledCudaError) that names `what` and CUDA's text unless `status` is success.
inline void check(cudaError_t status, const char* what,
                  SourceLocation where = SourceLocation::current()) {
  if (status != cudaSuccess) {
    throw Error(ErrorCode::kUnhandledCudaError,
                concat(what, ": ", cudaGetErrorString(status), " (", cudaGetErrorName(status), ")"),
                where);
  }
}

}  // namespace zipccl::gpu
