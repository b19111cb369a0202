// SPDX-License-Identifier: Apache-2.0
//
// Elements as numbers: to fp32, exactly, and back, rounded to nearest, ties to even. NaNs come back
// canonical: 0x7FFF in 16 bits, 0x7FFFFFFF in 32. The one place on the host that knows how.

#pragma once

#include <bit>
#include <cstdint>

#include "zipccl/codec.hpp"

namespace zipccl::codec {

inline constexpr std::uint32_t kCanonicalNan16 = 0x7FFFU;
inline constexpr std::uint32_t kCanonicalNan32 = 0x7FFFFFFFU;

[[nodiscard]] constexpr bool isNan(float value) noexcept {
  return (std::bit_cast<std::uint32_t>(value) & 0x7FFFFFFFU) > 0x7F800000U;
}

/// How elements of a datatype are read (`widen`) and written (`round`).
template <Datatype kDatatype>
struct Number;

template <>
struct Number<Datatype::kBfloat16> {
  using Bits = std::uint16_t;
  using Value = float;

  [[nodiscard]] static constexpr float widen(Bits bits) noexcept {
    return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
  }
  [[nodiscard]] static constexpr Bits round(float value) noexcept {
    if (isNan(value)) return kCanonicalNan16;
    const auto bits = std::bit_cast<std::uint32_t>(value);
    return static_cast<Bits>((bits + 0x7FFFU + ((bits >> 16) & 1U)) >> 16);
  }
};

template <>
struct Number<Datatype::kFloat16> {
  using Bits = std::uint16_t;
  using Value = float;

  [[nodiscard]] static constexpr float widen(Bits bits) noexcept {
    const std::uint32_t sign = (bits & 0x8000U) << 16;
    const std::uint32_t magnitude = bits & 0x7FFFU;
    if (magnitude >= 0x7C00U) {
      return std::bit_cast<float>(sign | 0x7F800000U | (magnitude & 0x3FFU) << 13);
    }
    if (magnitude < 0x0400U) {
      const float value = static_cast<float>(magnitude) * 0x1.0p-24F;
      return std::bit_cast<float>(std::bit_cast<std::uint32_t>(value) | sign);
    }
    return std::bit_cast<float>(sign | ((magnitude << 13) + 0x38000000U));
  }
  [[nodiscard]] static constexpr Bits round(float value) noexcept {
    if (isNan(value)) return kCanonicalNan16;
    const auto bits = std::bit_cast<std::uint32_t>(value);
    const std::uint32_t sign = (bits >> 16) & 0x8000U;
    const std::uint32_t magnitude = bits & 0x7FFFFFFFU;
    if (magnitude >= 0x477FF000U) return static_cast<Bits>(sign | 0x7C00U);
    if (magnitude < 0x38800000U) {
      // In the sum with 1/2 a subnormal's last place is the last bit of the fraction.
      const float rounded = std::bit_cast<float>(magnitude) + 0.5F;
      return static_cast<Bits>(sign | (std::bit_cast<std::uint32_t>(rounded) - 0x3F000000U));
    }
    const std::uint32_t isOdd = (magnitude >> 13) & 1U;
    return static_cast<Bits>(sign | ((magnitude - 0x38000000U + 0xFFFU + isOdd) >> 13));
  }
};

template <>
struct Number<Datatype::kFloat32> {
  using Bits = std::uint32_t;
  using Value = float;

  [[nodiscard]] static constexpr float widen(Bits bits) noexcept {
    return std::bit_cast<float>(bits);
  }
  [[nodiscard]] static constexpr Bits round(float value) noexcept {
    return isNan(value) ? kCanonicalNan32 : std::bit_cast<Bits>(value);
  }
};

}  // namespace zipccl::codec
