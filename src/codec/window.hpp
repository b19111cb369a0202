// SPDX-License-Identifier: Apache-2.0
//
// Which exponents of a tile get a code: the window base from the tile's mean |x|, and the theory of
// the normal distribution behind it. Implements docs/theory.md, whose sections the comments name;
// the first part is the rule in integers, for hosts and GPUs alike, the second explains and
// predicts it.

#pragma once

#include <bit>
#include <cstdint>
#include <limits>

#include "base/host_device.hpp"
#include "codec/layout.hpp"

namespace zipccl::codec {

// ---- The rule -----------------------------------------------------------------------------------

/// From this mantissa field of the fp32 mean |x| on a window of seven lies one higher (section 4).
inline constexpr std::uint32_t kMeanMantissaTie7 = 0x282D31U;
/// The same for the window of six beside a zero code.
inline constexpr std::uint32_t kMeanMantissaTie6 = 0x3946C3U;

/// A tile with more values of exponent field 0 than this is smaller with a zero code (section 8).
inline constexpr std::uint32_t kZeroCodeTieCount = 21;

/// The largest base where exponent fields have 8 bits, as in bf16 and fp32, of which the functions
/// below are.
inline constexpr std::uint32_t kMaxWindowBase = elementFormat(Datatype::kBfloat16).maxWindowBase();

namespace detail {

inline constexpr std::uint32_t kFloatMantissaBits = 23;
inline constexpr std::uint32_t kFloatMagnitudeMask = 0x7FFFFFFFU;

/// The exponent field of `floatBits`, plus one if its mantissa field is at least `mantissaTie`: the
/// addition carries into the exponent field exactly then.
ZIPCCL_HOST_DEVICE constexpr std::uint32_t steppedExponentField(std::uint32_t floatBits,
                                                                std::uint32_t mantissaTie) {
  const std::uint32_t carry = (1U << kFloatMantissaBits) - mantissaTie;
  return ((floatBits & kFloatMagnitudeMask) + carry) >> kFloatMantissaBits;
}

}  // namespace detail

/// Window base of a tile of kind seven whose mean absolute value, as fp32, has the bits
/// `floatBits`.
///
/// The sign is ignored. A mean of zero or a subnormal one gives 0, Inf and NaN give kMaxWindowBase;
/// every argument gives a base in 0..kMaxWindowBase.
ZIPCCL_HOST_DEVICE constexpr std::uint32_t windowBase7FromMeanAbsBits(std::uint32_t floatBits) {
  const std::uint32_t stepped = detail::steppedExponentField(floatBits, kMeanMantissaTie7);
  const std::uint32_t base = stepped < 5 ? 0 : stepped - 5;
  return base < kMaxWindowBase ? base : kMaxWindowBase;
}

/// Window base of a tile of kind six + zero whose mean absolute value *over the values that are not
/// zero*, as fp32, has the bits `floatBits`.
///
/// As windowBase7FromMeanAbsBits, but in 1..kMaxWindowBase: field 0 has its own code.
ZIPCCL_HOST_DEVICE constexpr std::uint32_t windowBase6FromMeanAbsBits(std::uint32_t floatBits) {
  const std::uint32_t stepped = detail::steppedExponentField(floatBits, kMeanMantissaTie6);
  const std::uint32_t base = stepped < 5 ? 1 : stepped - 4;
  return base < kMaxWindowBase ? base : kMaxWindowBase;
}

/// Whether a Gaussian tile with `zeroCount` values of exponent field 0 is smaller as six + zero
/// than as seven (section 8).
ZIPCCL_HOST_DEVICE constexpr bool zeroCodePays(std::uint32_t zeroCount) {
  return zeroCount > kZeroCodeTieCount;
}

// ---- The theory ---------------------------------------------------------------------------------

/// sigma / 2^floor(log2 sigma) from which the best window of seven lies one higher (section 3).
inline constexpr double kSigmaTie7 = 1.6467032064597323;
/// The same for a window of six.
inline constexpr double kSigmaTie6 = 1.8141369425605604;
/// sigma of a centred normal variable over its mean absolute value: sqrt(pi / 2).
inline constexpr double kSigmaPerMeanAbs = 1.2533141373155003;

/// Bits a value that a coded tile's record takes in bf16: sign, seven bits of mantissa, code.
inline constexpr double kRecordBitsPerValue =
    8.0 * elementFormat(Datatype::kBfloat16).upperRecordBytes() / kTileElements;
/// Bits a value of a tile's descriptor and its share of the group offset.
inline constexpr double kMetadataBitsPerValue = 8.0 * (4.0 + 8.0 / kGroupTiles) / kTileElements;
/// Bits a value that rounding a group's region up to kExtraAlignment costs on average.
inline constexpr double kPaddingBitsPerValue =
    8.0 * (kExtraAlignment - 1) / 2.0 / (kGroupTiles * kTileElements);

namespace detail {

/// e^x; zero where that would be subnormal, infinity where it would overflow.
constexpr double exponential(double x) {
  constexpr double kLog2E = 1.4426950408889634;
  constexpr double kLn2High = 0.693147180369123816490;  // its low 32 bits are zero
  constexpr double kLn2Low = 1.90821492927058770002e-10;
  if (x < -708.0) return 0.0;
  if (x > 709.0) return std::numeric_limits<double>::infinity();
  const int power = static_cast<int>(x * kLog2E + (x < 0 ? -0.5 : 0.5));
  const double rest = (x - power * kLn2High) - power * kLn2Low;
  double term = 1.0;
  double sum = 1.0;
  for (int n = 1; n <= 18; ++n) {
    term *= rest / n;
    sum += term;
  }
  return sum * std::bit_cast<double>(static_cast<std::uint64_t>(power + 1023) << 52);
}

constexpr double powerOfTwo(double x) {
  constexpr double kLn2 = 0.69314718055994530942;
  return exponential(x * kLn2);
}

constexpr double normalDensity(double x) {
  constexpr double kInverseSqrtTwoPi = 0.39894228040143267794;
  return kInverseSqrtTwoPi * exponential(-0.5 * x * x);
}

/// Where the power series of the normal integral hands over to the continued fraction of its tail.
inline constexpr double kSeriesLimit = 2.5;

/// P(0 < Z < x) for 0 <= x <= kSeriesLimit: density(x) * (x + x^3/3 + x^5/(3*5) + ...).
constexpr double normalSeries(double x) {
  double term = x;
  double sum = x;
  for (int odd = 3; odd <= 121; odd += 2) {
    term *= x * x / odd;
    sum += term;
  }
  return normalDensity(x) * sum;
}

/// P(Z > x) for x >= kSeriesLimit: density(x) / (x + 1/(x + 2/(x + 3/(x + ...)))).
constexpr double normalTail(double x) {
  if (x > 37.0) return 0.0;
  double denominator = x;
  for (int n = 80; n >= 1; --n) denominator = x + n / denominator;
  return normalDensity(x) / denominator;
}

}  // namespace detail

/// P(Z < x) of the standard normal distribution; absolute error below 1e-15.
constexpr double normalCdf(double x) {
  const double magnitude = x < 0 ? -x : x;
  const double upper = magnitude < detail::kSeriesLimit ? 0.5 - detail::normalSeries(magnitude)
                                                        : detail::normalTail(magnitude);
  return x < 0 ? upper : 1.0 - upper;
}

/// P(|Z| < x) for x >= 0, with full relative accuracy for small x.
constexpr double centralProbability(double x) {
  return x < detail::kSeriesLimit ? 2.0 * detail::normalSeries(x)
                                  : 1.0 - 2.0 * detail::normalTail(x);
}

/// Share of N(0, sigma) in `windowSize` neighbouring octaves, sigma = 2^(m + sigmaFraction) with an
/// integer m, the lowest octave being [2^(m + baseOffset), 2^(m + baseOffset + 1)) (section 2).
///
/// Holds for values that are not rounded, and away from the ends of the exponent range; for bf16
/// add kBf16FractionShift to `sigmaFraction` (section 6).
constexpr double coverage(double sigmaFraction, int baseOffset, int windowSize) {
  return centralProbability(detail::powerOfTwo(baseOffset + windowSize - sigmaFraction)) -
         centralProbability(detail::powerOfTwo(baseOffset - sigmaFraction));
}

/// Rounding to bf16 moves values across the octave boundaries as sigma * 2^this would: -log2(1 -
/// 2^-9).
inline constexpr double kBf16FractionShift = 0.0028205190623786626;

/// The same for fp16: -log2(1 - 2^-12).
inline constexpr double kFp16FractionShift = 0.0003522634716290214;

/// The best window's `baseOffset` for 0 <= sigmaFraction < 1 and a `windowSize` of 7 or 6 (section
/// 3).
constexpr int bestBaseOffset(double sigmaFraction, int windowSize) {
  const double tie = windowSize == 7 ? kSigmaTie7 : kSigmaTie6;
  return 2 - windowSize + (detail::powerOfTwo(sigmaFraction) >= tie ? 1 : 0);
}

/// Window base for N(0, sigma) and a `windowSize` of 7 or 6, as a biased exponent of bf16 and fp32:
/// what the rule gives for the exact mean. The special cases are those of
/// windowBase7FromMeanAbsBits.
constexpr std::uint32_t windowBaseForSigma(double sigma, int windowSize) {
  constexpr std::uint64_t kMantissaMask = (1ULL << 52) - 1;
  constexpr std::uint64_t kOneBits = 1023ULL << 52;
  const std::uint64_t bits = std::bit_cast<std::uint64_t>(sigma) & ~(1ULL << 63);
  const int floatField = static_cast<int>(bits >> 52) - 1023 + 127;
  const double ratio = std::bit_cast<double>((bits & kMantissaMask) | kOneBits);
  const bool stepsUp = ratio >= (windowSize == 7 ? kSigmaTie7 : kSigmaTie6);
  const int base = floatField + 2 - windowSize + (stepsUp ? 1 : 0);
  const int lowest = windowSize == 7 ? 0 : 1;
  const int highest = static_cast<int>(kMaxWindowBase);
  return static_cast<std::uint32_t>(base < lowest ? lowest : base > highest ? highest : base);
}

/// The rule for a mean absolute value that is at hand as a float; `windowSize` is 7 or 6.
constexpr std::uint32_t windowBaseForMeanAbs(float meanAbs, int windowSize) {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(meanAbs);
  return windowSize == 7 ? windowBase7FromMeanAbsBits(bits) : windowBase6FromMeanAbsBits(bits);
}

/// Bits a value of coded bf16 tiles, frame header and idle pool excluded, when `escapeShare` of all
/// values are escapes (section 7).
constexpr double expectedBitsPerValue(double escapeShare) {
  return kRecordBitsPerValue + 8.0 * escapeShare + kMetadataBitsPerValue + kPaddingBitsPerValue;
}

/// Escapes as a share of all values for a Gaussian of which `zeroShare` is replaced by zeros: tiles
/// of kind seven, and of kind six + zero (section 8).
constexpr double escapeShare7(double zeroShare, double coverage7) {
  return zeroShare + (1.0 - zeroShare) * (1.0 - coverage7);
}
constexpr double escapeShare6(double zeroShare, double coverage6) {
  return (1.0 - zeroShare) * (1.0 - coverage6);
}

}  // namespace zipccl::codec
