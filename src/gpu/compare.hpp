// SPDX-License-Identifier: Apache-2.0
//
// Whether two buffers hold the same bytes.

#pragma once

#include <cstdint>

#include "zipccl/gpu_codec.hpp"

namespace zipccl::gpu {

/// Leaves in `*verdict`, which is 0, what verdictOf() of base/verdict.hpp makes of the first of
/// `bytes` bytes that differs, and 0 where none does. Ordered on `stream`. The buffers may stand
/// anywhere; where both do at the same place modulo 16, this takes the time of reading them.
/// `verdict` may be memory that host and device share. Throws Error(kUnhandledCudaError).
void compareBytes(const void* expected, const void* found, std::uint64_t bytes,
                  std::uint64_t* verdict, StreamHandle stream);

}  // namespace zipccl::gpu
