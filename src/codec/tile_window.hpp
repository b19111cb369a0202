// SPDX-License-Identifier: Apache-2.0
//
// How an encoder chooses the window base of a tile, from the mean magnitude of its values and
// without a histogram. The format leaves the choice free (docs/format.md section 5); the host
// codecs and the GPU kernels all choose by this rule, so that their frames agree up to the rounding
// of a sum.

#pragma once

#include <bit>
#include <cstdint>

#include "base/host_device.hpp"
#include "codec/layout.hpp"

namespace zipccl::codec {

// The estimate works on the bit patterns of 32 sums, one a lane, each of the magnitudes of the
// lane's 32 values in float. A float's bit pattern, divided by 2^23, is 127 plus a piecewise linear
// log2 of its value, so that the mean of the patterns is a geometric mean over lanes of arithmetic
// means: one outlier moves it by a 32nd of the octaves by which it stands out, and a lane that
// holds a NaN or an infinity is left out.

/// Octaves from the window base up to the sum of a lane: 5 because the window begins 5 octaves
/// below that of the standard deviation, 5 because the sum is 32 means.
inline constexpr std::int32_t kOctavesBelowLaneSum = 10;

/// 0.70 octaves in units of a bit pattern, which rounds the estimate to the better window. Exact
/// would be 0.688: 0.326 = log2(sqrt(pi / 2)), the standard deviation over the mean magnitude of a
/// Gaussian; 0.280 because the best window moves up where the fraction of log2 sigma passes 0.7196;
/// and 0.082 for what the logarithm of a mean of 32 and its piecewise linear form fall short
/// (docs/theory.md section 5). The choice costs about 0.0004 bits a value over the best window.
inline constexpr std::uint32_t kWindowRounding = 5872026;

/// The same for the sums of 16 of a lane's values, which is what the GPU's encoder adds up: the sum
/// stands one octave lower, and the logarithm of a mean of 16 falls short by 0.01 more. Half of the
/// values estimate sigma within 3.5 %; the choice costs less than 0.003 bits a value.
inline constexpr std::int32_t kOctavesBelowHalfLaneSum = 9;
inline constexpr std::uint32_t kHalfLaneWindowRounding = 5955912;

/// What the window of six + zero, whose tie lies 0.14 octaves higher, takes off the rounding.
inline constexpr std::uint32_t kSixWindowRoundingLess = 1174405;

/// Whether a lane whose sum has these bits takes part in the estimate: not when all its values are
/// zero, and not when one is infinite or NaN or the sum overflows.
ZIPCCL_HOST_DEVICE constexpr bool isMeasurableLane(std::uint32_t laneBits) {
  return laneBits != 0 && laneBits < 0x7F800000U;
}

/// Window base for kind seven, from the sum of the bits of `laneCount` measurable lanes; 0 without
/// any.
ZIPCCL_HOST_DEVICE constexpr std::uint32_t sevenWindowBase(std::uint64_t sumOfLaneBits,
                                                           std::uint32_t laneCount) {
  if (laneCount == 0) return 0;
  const auto mean = static_cast<std::uint32_t>(sumOfLaneBits / laneCount);
  const auto base =
      static_cast<std::int32_t>((mean + kWindowRounding) >> 23) - kOctavesBelowLaneSum;
  if (base < 0) return 0;
  if (base > static_cast<std::int32_t>(kMaxWindowBase)) return kMaxWindowBase;
  return static_cast<std::uint32_t>(base);
}

/// Window base for kind six + zero of a tile with `zeros` exponent fields 0: zeros pull the mean
/// down by the share that they have of the values in measurable lanes, and the window of six, one
/// exponent shorter at the bottom, moves up later than that of seven. At least 1.
ZIPCCL_HOST_DEVICE constexpr std::uint32_t sixWindowBase(std::uint64_t sumOfLaneBits,
                                                         std::uint32_t laneCount,
                                                         std::uint32_t zeros) {
  if (laneCount == 0 || zeros >= kTileElements) return 1;
  const auto mean = static_cast<std::uint32_t>(sumOfLaneBits / laneCount);
  const float share =
      static_cast<float>(kSlots * laneCount) / static_cast<float>(kTileElements - zeros);
  const float meanOfOthers = std::bit_cast<float>(mean) * (share > 1.0F ? share : 1.0F);
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(meanOfOthers);
  const auto base =
      static_cast<std::int32_t>((bits + kWindowRounding - kSixWindowRoundingLess) >> 23) -
      kOctavesBelowLaneSum + 1;
  if (base < 1) return 1;
  if (base > static_cast<std::int32_t>(kMaxWindowBase)) return kMaxWindowBase;
  return static_cast<std::uint32_t>(base);
}

/// The exponent field of an upper half.
ZIPCCL_HOST_DEVICE constexpr std::uint32_t exponentOf(std::uint32_t upperHalf) {
  return (upperHalf >> 7) & 0xFFU;
}

/// The code of an exponent field in a tile of kind seven or six + zero (docs/format.md section 5).
ZIPCCL_HOST_DEVICE constexpr std::uint32_t codeOfExponent(TileKind kind, std::uint32_t windowBase,
                                                          std::uint32_t exponent) {
  const std::uint32_t distance = exponent - windowBase;  // wraps below the window
  if (kind == TileKind::kSeven) return distance < kEscapeCode ? distance : kEscapeCode;
  if (exponent == 0) return kZeroCode;
  return distance < kZeroCode ? distance : kEscapeCode;
}

/// The exponent field that a code other than kEscapeCode stands for.
ZIPCCL_HOST_DEVICE constexpr std::uint32_t exponentOfCode(TileKind kind, std::uint32_t windowBase,
                                                          std::uint32_t code) {
  return kind == TileKind::kSixAndZero && code == kZeroCode ? 0 : windowBase + code;
}

}  // namespace zipccl::codec
