// SPDX-License-Identifier: Apache-2.0
//
// The scratch memory of a communicator.

#include "collectives/scratch.hpp"

#include "base/error.hpp"

namespace zipccl::collectives {

std::span<std::byte> Scratch::reserve(std::uint64_t bytes) {
  expects(bytes <= maxBytes_, ErrorCode::kInternalError, "a call wants ", bytes,
          " bytes of scratch, the bound is ", maxBytes_);
  if (bytes > heldBytes_) {
    // Freed first: old and new block together could exceed the bound.
    drop();
    memory_ = codec_.allocate(bytes);
    heldBytes_ = bytes;
  }
  return {memory_, heldBytes_};
}

void Scratch::drop() noexcept {
  if (memory_ != nullptr && !transport_.mayStillTouchBuffers()) {
    codec_.release(memory_, heldBytes_);
  }
  memory_ = nullptr;
  heldBytes_ = 0;
}

}  // namespace zipccl::collectives
