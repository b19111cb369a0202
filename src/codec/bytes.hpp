// SPDX-License-Identifier: Apache-2.0
//
// Words in byte buffers of any alignment. Frames are little-endian (docs/format.md), and so is
// every machine that the project builds for.

#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace zipccl::codec {

static_assert(std::endian::native == std::endian::little);

template <typename Word>
[[nodiscard]] Word loadWord(const std::byte* at) noexcept {
  Word word;
  std::memcpy(&word, at, sizeof word);
  return word;
}

template <typename Word>
void storeWord(std::byte* at, Word word) noexcept {
  std::memcpy(at, &word, sizeof word);
}

}  // namespace zipccl::codec
