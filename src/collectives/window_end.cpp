// SPDX-License-Identifier: Apache-2.0
//
// The host's end of a dynamic window.

#include "collectives/window_end.hpp"

#include <cstring>

#include "base/error.hpp"
#include "base/shared_word.hpp"

namespace zipccl::collectives {

using codec::kPieceBytes;
using codec::kWindowPieces;

bool WindowEnd::take(std::vector<std::byte>& into, std::uint64_t bytes) {
  invariant(into.size() <= bytes && (into.size() == bytes || into.size() % kPieceBytes == 0),
            "a part is taken by whole pieces");
  into.reserve(bytes);
  while (into.size() < bytes && taken_ < loadAcquire(window_.exported)) {
    const std::byte* const piece = window_.out[taken_ % kWindowPieces];
    into.insert(into.end(), piece, piece + codec::pieceBytesAt(bytes, into.size()));
    storeRelease(window_.taken, ++taken_);
  }
  return into.size() == bytes;
}

bool WindowEnd::give(std::span<const std::byte> part, std::uint64_t& givenBytes) noexcept {
  while (givenBytes < part.size() && codec::hasPlace(given_, loadAcquire(window_.imported))) {
    const std::uint64_t bytes = codec::pieceBytesAt(part.size(), givenBytes);
    std::memcpy(window_.in[given_ % kWindowPieces], part.data() + givenBytes, bytes);
    givenBytes += bytes;
    storeRelease(window_.given, ++given_);
  }
  return givenBytes == part.size();
}

void WindowEnd::abort() noexcept { storeRelease(window_.isAborted, 1); }

bool WindowEnd::hasPassed(const codec::GateSlot& slot, std::uint64_t number) noexcept {
  return loadAcquire(slot.number) >= number;
}

}  // namespace zipccl::collectives
