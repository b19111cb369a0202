// SPDX-License-Identifier: Apache-2.0
//
// The scratch memory of a communicator: one block that grows to what calls need and never beyond
// the agreed bound, so that repeated calls allocate nothing.

#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "collectives/frame_codec.hpp"
#include "transport/transport.hpp"

namespace zipccl::collectives {

class Scratch {
 public:
  /// `codec` provides the memory, `transport` moves what stands in it; both must outlive this.
  Scratch(FrameCodec& codec, const transport::Transport& transport, std::uint64_t maxBytes) noexcept
      : codec_(codec), transport_(transport), maxBytes_(maxBytes) {}
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  ~Scratch() { drop(); }

  /// A block of at least `bytes`, aligned to 128. Earlier spans and their contents are lost when it
  /// has to grow. Throws Error(kInternalError) above the bound, which planning has to prevent.
  [[nodiscard]] std::span<std::byte> reserve(std::uint64_t bytes);

  [[nodiscard]] std::uint64_t heldBytes() const noexcept { return heldBytes_; }

 private:
  /// Gives the block back, or leaks it where the transport may still touch it.
  void drop() noexcept;

  FrameCodec& codec_;
  const transport::Transport& transport_;
  std::uint64_t maxBytes_;
  std::byte* memory_ = nullptr;
  std::uint64_t heldBytes_ = 0;
};

}  // namespace zipccl::collectives
