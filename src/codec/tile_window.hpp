// SPDX-License-Identifier: Apache-2.0
//
// How an encoder chooses the window base of a tile, from the mean magnitude of its values and
// without a histogram. The format leaves the choice free (docs/format.md section 5); the host
// codecs and the GPU kernels all choose by this rule, so that their frames agree up to the rounding
// of a sum.

#pragma once

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

/// 0.70 octaves in units of a bit pattern, which rounds the estimate to the better window. 0.688 of
/// it is derived in docs/theory.md section 5: 0.326 = log2(sqrt(pi / 2)), the standard deviation
/// over the mean magnitude of a Gaussian; 0.280, because the best window moves up at the fraction
/// 0.720 of log2 sigma; 0.082 for the piecewise linear logarithm and the mean of logarithms of only
/// 32 values. The rest leans to the higher window, whose error is the cheap one.
inline constexpr std::uint32_t kWindowRounding = 5872026;

/// The same for the sums of 16 of a lane's values, which is what the GPU's encoder adds up: the sum
/// stands one octave lower, and the logarithm of a mean of 16 falls short by 0.01 more. Half of the
/// values estimate sigma within 3.5 %; the choice costs less than 0.003 bits a value.
inline constexpr std::int32_t kOctavesBelowHalfLaneSum = 9;
inline constexpr std::uint32_t kHalfLaneWindowRounding = 5955912;

/// What the window of six + zero, whose tie lies 0.14 octaves higher, takes off the rounding.
inline constexpr std::uint32_t kSixWindowRoundingLess = 1174405;

/// Zeros in a tile from which six + zero needs fewer bytes than seven: between 15 and 27, by sigma.
inline constexpr std::uint32_t kZerosThatPay = 22;

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

/// Window base for kind six + zero: it gives up the smallest exponent of the seven.
ZIPCCL_HOST_DEVICE constexpr std::uint32_t sixWindowBase(std::uint32_t sevenBase) {
  return sevenBase < kMaxWindowBase ? sevenBase + 1 : kMaxWindowBase;
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
