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

// The estimate works on the bit patterns of 32 sums, one a lane, each of the magnitudes of some of
// the lane's values in float. A float's bit pattern, divided by 2^23, is 127 plus a piecewise
// linear log2 of its value, so that the mean of the patterns is a geometric mean over lanes of
// arithmetic means: one outlier moves it by a 32nd of the octaves by which it stands out, and a
// lane that holds a NaN or an infinity is left out.

/// The exponent field of an upper half.
ZIPCCL_HOST_DEVICE constexpr std::uint32_t exponentOf(const ElementFormat& element,
                                                      std::uint32_t upperHalf) {
  return (upperHalf >> (15 - element.exponentBits)) & element.maxExponent();
}

/// The bits of a float whose exponent field is that of the upper half: its magnitude, times 2^-112
/// for fp16, which makes subnormal values exact subnormal floats. Infinity for infinities and NaNs,
/// which in fp16 have a field that a float may have.
ZIPCCL_HOST_DEVICE constexpr std::uint32_t magnitudeBits(const ElementFormat& element,
                                                         std::uint32_t upperHalf) {
  if (exponentOf(element, upperHalf) == element.maxExponent()) return 0x7F800000U;
  return (upperHalf & 0x7FFFU) << (8 + element.exponentBits);
}

/// Whether a lane whose sum has these bits takes part in the estimate: not when all its values are
/// zero, and not when one is infinite or NaN or the sum overflows.
ZIPCCL_HOST_DEVICE constexpr bool isMeasurableLane(std::uint32_t laneBits) {
  return laneBits != 0 && laneBits < 0x7F800000U;
}

/// Which of a lane's values an encoder adds up, and what the estimate from such sums needs.
struct LaneMeasure {
  std::uint32_t slots;        ///< values in a sum
  std::int32_t octavesBelow;  ///< from the window base up to the sum
  std::uint32_t rounding;     ///< of the estimate to the better window, in units of a bit pattern
  float liftPerShare;         ///< see sixWindowBase()
};

/// All 32 values of a lane, which is what the host's encoders add up. The sum stands 5 octaves
/// above the mean and that 5 above the window base. The rounding is 0.70 octaves. Exact would be
/// 0.688: 0.326 = log2(sqrt(pi / 2)), the standard deviation over the mean magnitude of a Gaussian;
/// 0.280 because the best window moves up where the fraction of log2 sigma passes 0.7196; and 0.082
/// for what the logarithm of a mean of 32 and its piecewise linear form fall short (docs/theory.md
/// section 5). The choice costs about 0.0004 bits a value over the best window.
ZIPCCL_HOST_DEVICE constexpr LaneMeasure wholeLanes() { return {32, 10, 5872026, 0.025F}; }

/// The 16 values of a lane's odd slots, which is what the GPU's encoder adds up: the sum stands one
/// octave lower, and the logarithm of a mean of 16 falls short by 0.01 more. Half of the values
/// estimate sigma within 3.5 %; the choice costs less than 0.003 bits a value.
ZIPCCL_HOST_DEVICE constexpr LaneMeasure oddSlots() { return {16, 9, 5955912, 0.06F}; }

/// What the window of six + zero, whose tie lies 0.14 octaves higher, takes off the rounding.
inline constexpr std::uint32_t kSixWindowRoundingLess = 1174405;

/// What was measured of a tile.
struct LaneSums {
  std::uint32_t meanBits;  ///< of the bit patterns of the sums of measurable lanes
  std::uint32_t lanes;     ///< how many lanes were measurable
};

/// Window base for kind seven; 0 without measurable lanes.
ZIPCCL_HOST_DEVICE constexpr std::uint32_t sevenWindowBase(const ElementFormat& element,
                                                           const LaneMeasure& measure,
                                                           const LaneSums& sums) {
  if (sums.lanes == 0) return 0;
  const auto base =
      static_cast<std::int32_t>((sums.meanBits + measure.rounding) >> 23) - measure.octavesBelow;
  const auto highest = static_cast<std::int32_t>(element.maxWindowBase());
  return static_cast<std::uint32_t>(base < 0 ? 0 : base > highest ? highest : base);
}

/// Window base for kind six + zero of a tile of which `zeros` of the measured slots have exponent
/// field 0. Zeros pull the mean down by the share that the measured slots of measurable lanes have
/// of those that are not zero. The fewer values of a sum are not zero, the further the mean of the
/// sums' logarithms falls short: by a lift for each unit by which the share exceeds 1. The window
/// of six, one exponent shorter at the bottom, moves up later than that of seven. At least 1.
ZIPCCL_HOST_DEVICE constexpr std::uint32_t sixWindowBase(const ElementFormat& element,
                                                         const LaneMeasure& measure,
                                                         const LaneSums& sums,
                                                         std::uint32_t zeros) {
  const std::uint32_t measured = kLanes * measure.slots;
  if (sums.lanes == 0 || zeros >= measured) return 1;
  const float share =
      static_cast<float>(measure.slots * sums.lanes) / static_cast<float>(measured - zeros);
  const float excess = share > 1.0F ? share - 1.0F : 0.0F;
  const float meanOfOthers = std::bit_cast<float>(sums.meanBits) * (1.0F + excess) *
                             (1.0F + measure.liftPerShare * excess);
  const std::uint32_t rounding = measure.rounding - kSixWindowRoundingLess;
  const auto base =
      static_cast<std::int32_t>((std::bit_cast<std::uint32_t>(meanOfOthers) + rounding) >> 23) -
      measure.octavesBelow + 1;
  const auto highest = static_cast<std::int32_t>(element.maxWindowBase());
  return static_cast<std::uint32_t>(base < 1 ? 1 : base > highest ? highest : base);
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
