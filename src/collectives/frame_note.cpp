// SPDX-License-Identifier: Apache-2.0
//
// The note and the seal of a header.

#include "collectives/frame_note.hpp"

#include <array>
#include <cstring>

#include "base/error.hpp"
#include "base/random.hpp"
#include "codec/layout.hpp"

namespace zipccl::collectives {
namespace {

using HeaderWords = std::array<std::uint64_t, codec::kHeaderBytes / sizeof(std::uint64_t)>;

constexpr std::size_t kNoteAt = offsetof(codec::HeaderBytes, application) / sizeof(std::uint64_t);
constexpr std::size_t kSealAt = kNoteAt + 3;

HeaderWords load(std::span<const std::byte> frame) noexcept {
  HeaderWords words;
  std::memcpy(words.data(), frame.data(), sizeof(words));
  return words;
}

std::uint64_t sealOf(HeaderWords words) noexcept {
  words[kSealAt] = 0;
  std::uint64_t hash = 0;
  for (const std::uint64_t word : words) {
    std::uint64_t state = hash ^ word;
    hash = splitMix64(state);
  }
  return hash;
}

}  // namespace

void sealHeader(std::span<std::byte> frame, const FrameNote& note) {
  expects(frame.size() >= codec::kHeaderBytes, "a frame of ", frame.size(), " bytes has no header");
  HeaderWords words = load(frame);
  words[kNoteAt] = note.lowTiles;
  words[kNoteAt + 1] = note.call;
  words[kNoteAt + 2] = note.chunk;
  words[kSealAt] = sealOf(words);
  std::memcpy(frame.data(), words.data(), sizeof(words));
}

bool isSealIntact(std::span<const std::byte> frame) noexcept {
  if (frame.size() < codec::kHeaderBytes) return false;
  const HeaderWords words = load(frame);
  return words[kSealAt] == sealOf(words);
}

FrameNote readNote(const codec::ApplicationWords& words) noexcept {
  return {.lowTiles = words[0], .call = words[1], .chunk = words[2]};
}

}  // namespace zipccl::collectives
