// SPDX-License-Identifier: Apache-2.0
//
// The bit arithmetic of one lane of a tile (docs/format.md section 6), in a form that host and
// device compilers share: pair words to codes, codes to code words, code words to escape masks and
// back. "Pair" values hold one 16-bit field for the even slot (low half) and one for the odd slot.

#pragma once

#include <cstdint>

#include "base/host_device.hpp"
#include "codec/layout.hpp"

namespace zipccl::codec {

inline constexpr std::uint32_t kPairOnes = 0x00010001U;
inline constexpr std::uint32_t kPairEscape = kEscapeCode * kPairOnes;
/// Bits 3j, j = 0..4, of both halves of a code word: the lowest bit of each whole code.
inline constexpr std::uint32_t kCodeWordLowBits = 0x12491249U;
/// Bits 15 and 31 of a code word: its share of the sixteenth pair.
inline constexpr std::uint32_t kCodeWordShareBits = 0x80008000U;

/// Both exponent fields of a pair word.
ZIPCCL_HOST_DEVICE constexpr std::uint32_t exponentPair(std::uint32_t pairWord) {
  return (pairWord >> 7) & 0x00FF00FFU;
}

/// Codes of kind seven, given -base in both halves; `min` is the 16-bit lane-wise unsigned minimum.
ZIPCCL_HOST_DEVICE constexpr std::uint32_t addThenMinPair(std::uint32_t pair, std::uint32_t addend,
                                                          std::uint32_t limit) {
  std::uint32_t low = (pair + addend) & 0xFFFFU;
  std::uint32_t high = ((pair >> 16) + (addend >> 16)) & 0xFFFFU;
  low = low < (limit & 0xFFFFU) ? low : limit & 0xFFFFU;
  high = high < limit >> 16 ? high : limit >> 16;
  return low | (high << 16);
}

/// Turns what a window of six left (0..5 inside, 6 outside) and the exponent fields into codes of
/// kind six + zero: 6 for a zero field, 7 outside. The window base must be above 0.
ZIPCCL_HOST_DEVICE constexpr std::uint32_t zeroCodePair(std::uint32_t cappedAtSix,
                                                        std::uint32_t exponents) {
  const std::uint32_t outside = (cappedAtSix >> 1) & (cappedAtSix >> 2) & kPairOnes;
  const std::uint32_t isZero = ((0x01000100U - exponents) >> 8) & kPairOnes;
  return cappedAtSix + outside - isZero;
}

/// The three code words of a lane from its sixteen code pairs.
ZIPCCL_HOST_DEVICE constexpr void packCodes(const std::uint32_t (&codes)[kPairWords],
                                            std::uint32_t (&words)[kCodeWords]) {
  for (std::uint32_t k = 0; k < kCodeWords; ++k) {
    std::uint32_t word = codes[12 + k];
    for (std::uint32_t j = 4; j-- > 0;) word = word * 8 + codes[3 * j + k];
    words[k] = word | ((codes[15] << (15 - k)) & kCodeWordShareBits);
  }
}

/// Code pair `w` of a lane; `w` should be a compile-time constant once inlined.
ZIPCCL_HOST_DEVICE constexpr std::uint32_t codePair(const std::uint32_t (&words)[kCodeWords],
                                                    std::uint32_t w) {
  if (w < 15) return (words[w % 3] >> (3 * (w / 3))) & kPairEscape;
  return ((words[0] >> 15) & kPairOnes) | ((words[1] >> 14) & (kPairOnes << 1)) |
         ((words[2] >> 13) & (kPairOnes << 2));
}

/// A lane's escape mask: bit 16h + w is set when slot 2w + h holds code 7.
ZIPCCL_HOST_DEVICE constexpr std::uint32_t escapeMask(const std::uint32_t (&words)[kCodeWords]) {
  std::uint32_t mask = words[0] & words[1] & words[2] & kCodeWordShareBits;
  for (std::uint32_t k = 0; k < kCodeWords; ++k) {
    const std::uint32_t word = words[k];
    mask |= (word & (word >> 1) & (word >> 2) & kCodeWordLowBits) << k;
  }
  return mask;
}

}  // namespace zipccl::codec
