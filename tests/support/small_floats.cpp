// SPDX-License-Identifier: Apache-2.0
//
// Numbers as 16-bit floating-point formats.

#include "support/small_floats.hpp"

#include <algorithm>
#include <bit>
#include <cmath>

namespace zipccl::testing {

std::uint16_t bfloat16Bits(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  return static_cast<std::uint16_t>((bits + 0x7FFFU + ((bits >> 16) & 1U)) >> 16);
}

std::uint16_t float16Bits(float value) {
  constexpr int kLeastExponent = -14;
  const std::uint32_t sign = std::signbit(value) ? 0x8000U : 0U;
  const double magnitude = std::fabs(static_cast<double>(value));
  if (std::isnan(magnitude)) return static_cast<std::uint16_t>(sign | 0x7E00U);
  if (magnitude >= 65520.0) return static_cast<std::uint16_t>(sign | 0x7C00U);
  const int exponent =
      magnitude == 0 ? kLeastExponent : std::max(std::ilogb(magnitude), kLeastExponent);
  // In units of the last place; the hidden bit adds 1 to the field, and so does a carry of the
  // rounding.
  const auto units =
      static_cast<std::uint32_t>(std::nearbyint(std::ldexp(magnitude, 10 - exponent)));
  const auto field = static_cast<std::uint32_t>(exponent - kLeastExponent);
  return static_cast<std::uint16_t>(sign | ((field << 10) + units));
}

}  // namespace zipccl::testing
