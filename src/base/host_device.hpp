// SPDX-License-Identifier: Apache-2.0
//
// ZIPCCL_HOST_DEVICE marks a function that kernels call as well as host code, in a header that a
// compiler without CUDA reads too.

#pragma once

#if defined(__CUDACC__)
#define ZIPCCL_HOST_DEVICE __host__ __device__
#else
#define ZIPCCL_HOST_DEVICE
#endif
