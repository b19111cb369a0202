// SPDX-License-Identifier: Apache-2.0
//
// Work on the headers of many frames at once: notes and seals for frames that were encoded.

#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "codec/layout.hpp"
#include "zipccl/gpu_codec.hpp"

namespace zipccl::gpu {

/// A header to be noted on and sealed.
struct SealItem {
  std::byte* frame = nullptr;
  std::uint64_t tileCount = 0;  ///< tiles of which those with low halves are counted
  std::uint64_t call = 0;
  std::uint64_t chunk = 0;
};

/// Writes the application words of headers that encode() has finished: the count of tiles with low
/// halves, call, chunk, seal. Ordered on `stream`. Throws Error(kUnhandledCudaError).
void sealHeaders(std::span<const SealItem> items, StreamHandle stream);

}  // namespace zipccl::gpu
