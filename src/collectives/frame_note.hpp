// SPDX-License-Identifier: Apache-2.0
//
// What the collectives write into a frame's application words (docs/format.md section 3), and the
// seal that protects the header. Decisions of later calls rest on these words and on the header's
// sizes, so a header that was damaged on its way must not be believed by one rank alone.
//
//   word 0   tiles whose low halves are stored (fp32)
//   word 1   number of the call on its communicator
//   word 2   number of the chunk in its call
//   word 3   seal: a hash of the header's 128 bytes with this word zero

#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "zipccl/codec.hpp"

namespace zipccl::collectives {

struct FrameNote {
  std::uint64_t lowTiles = 0;
  std::uint64_t call = 0;
  std::uint64_t chunk = 0;

  friend bool operator==(const FrameNote&, const FrameNote&) = default;
};

/// Writes `note` and the seal into the header at the start of `frame`, which an encoder has
/// finished.
void sealHeader(std::span<std::byte> frame, const FrameNote& note);

/// Whether the header at the start of `frame` is, bit for bit, one that sealHeader left.
[[nodiscard]] bool isSealIntact(std::span<const std::byte> frame) noexcept;

/// The note among the application words of a header.
[[nodiscard]] FrameNote readNote(const codec::ApplicationWords& words) noexcept;

}  // namespace zipccl::collectives
