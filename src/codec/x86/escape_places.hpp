// SPDX-License-Identifier: Apache-2.0
//
// From the escape masks of a tile's lanes to a list of places in the order of escapes
// (docs/format.md section 6), for implementations that work on vectors of lanes. Few lanes hold
// more than two escapes, so a fixed number is written for each two lanes without a branch, and the
// next two lanes overwrite what was too much.

#pragma once

#include <array>
#include <cstdint>

#include "codec/layout.hpp"
#include "codec/tile_codec.hpp"
#include "codec/x86/target.hpp"

ZIPCCL_BEGIN_AVX2

namespace zipccl::codec {

/// Byte offsets of upper halves from the start of a tile.
using EscapePlace = std::uint16_t;

inline constexpr std::uint32_t kEscapesAtOnce = 4;
inline constexpr std::uint32_t kMaskWords = kLanes / 2;

/// Masks of two lanes each, the lower lane in the low half; bit 16h + w of a lane's mask is slot
/// 2w + h.
struct alignas(64) EscapeMasks {
  std::uint64_t words[kMaskWords];
};

/// Room for the places of a tile whose escapes are at most kMaxEscapes.
struct EscapePlaces {
  EscapePlace at[kMaxEscapes + kEscapesAtOnce];
};

/// Byte offset of the upper half that a bit of the first mask word stands for; the last entry is
/// that of no bit.
template <Datatype kDatatype>
inline constexpr auto kPlaceOfMaskBit = [] {
  constexpr std::uint32_t kElementBytes = elementFormat(kDatatype).elementBytes;
  std::array<EscapePlace, 65> places{};
  for (std::uint32_t bit = 0; bit < 64; ++bit) {
    const std::uint32_t element = elementOfSlot(kDatatype, bit / 32, slotOfMaskBit(bit % 32));
    places[bit] = static_cast<EscapePlace>(element * kElementBytes + kElementBytes - 2);
  }
  return places;
}();

/// What the byte offset grows by from one mask word to the next.
inline constexpr std::uint32_t kPlaceStride = 2 * 16;
static_assert(elementOfSlot(Datatype::kBfloat16, 2, 0) * 2 == kPlaceStride);
static_assert(elementOfSlot(Datatype::kFloat32, 2, 0) * 4 == kPlaceStride);

inline std::uint32_t countEscapes(const EscapeMasks& masks) noexcept {
  std::uint64_t count = 0;
  for (const std::uint64_t word : masks.words) {
    count += static_cast<std::uint64_t>(_mm_popcnt_u64(word));
  }
  return static_cast<std::uint32_t>(count);
}

/// Lists the places of all escapes; countEscapes(masks) must be at most kMaxEscapes.
template <Datatype kDatatype>
inline void listEscapes(const EscapeMasks& masks, EscapePlaces& places) noexcept {
  const EscapePlace* const placeOfBit = kPlaceOfMaskBit<kDatatype>.data();
  EscapePlace* to = places.at;
  std::uint32_t wordAt = 0;
  for (std::uint64_t word : masks.words) {
    const auto count = static_cast<std::uint32_t>(_mm_popcnt_u64(word));
    for (std::uint32_t i = 0; i < kEscapesAtOnce; ++i) {
      to[i] = static_cast<EscapePlace>(placeOfBit[_tzcnt_u64(word)] + wordAt);
      word = _blsr_u64(word);
    }
    for (std::uint32_t i = kEscapesAtOnce; i < count; ++i) {
      to[i] = static_cast<EscapePlace>(placeOfBit[_tzcnt_u64(word)] + wordAt);
      word = _blsr_u64(word);
    }
    to += count;
    wordAt += kPlaceStride;
  }
}

}  // namespace zipccl::codec

ZIPCCL_END_TARGET
