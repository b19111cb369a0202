// SPDX-License-Identifier: Apache-2.0
//
// The note and the seal of a header.

#include "collectives/frame_note.hpp"

#include <array>
#include <cstring>

#include "base/error.hpp"
#include "codec/layout.hpp"
#include "codec/seal.hpp"

namespace zipccl::collectives {
namespace {

using HeaderWords = std::array<std::uint64_t, codec::kHeaderWords>;

HeaderWords load(std::span<const std::byte> frame) noexcept {
  HeaderWords words;
  std::memcpy(words.data(), frame.data(), sizeof(words));
  return words;
}

}  // namespace

void sealHeader(std::span<std::byte> frame, const FrameNote& note) {
  expects(frame.size() >= codec::kHeaderBytes, "a frame of ", frame.size(), " bytes has no header");
  HeaderWords words = load(frame);
  words[codec::kApplicationWord] = note.lowTiles;
  words[codec::kApplicationWord + 1] = note.call;
  words[codec::kApplicationWord + 2] = note.chunk;
  words[codec::kSealWord] = codec::sealOf(words.data());
  std::memcpy(frame.data(), words.data(), sizeof(words));
}

bool isSealIntact(std::span<const std::byte> frame) noexcept {
  if (frame.size() < codec::kHeaderBytes) return false;
  const HeaderWords words = load(frame);
  return words[codec::kSealWord] == codec::sealOf(words.data());
}

FrameNote readNote(const codec::ApplicationWords& words) noexcept {
  return {.lowTiles = words[0], .call = words[1], .chunk = words[2]};
}

}  // namespace zipccl::collectives
