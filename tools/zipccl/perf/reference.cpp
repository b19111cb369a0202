// SPDX-License-Identifier: Apache-2.0
//
// The reference of reductions. `volatile` keeps compilers from fusing a product and a sum.

#include "perf/reference.hpp"

#include <bit>
#include <cstring>
#include <limits>

#include "perf/datatype.hpp"

namespace zipccl::tools::perf {
namespace {

/// Bits of the fraction and of the exponent of a 16-bit datatype.
struct Layout {
  int fraction;
  int bias;
  std::uint32_t infinity;
};

constexpr Layout kBfloat16{7, 127, 0x7F80};
constexpr Layout kHalf{10, 15, 0x7C00};

float widen(const Layout& layout, std::uint16_t bits) {
  const std::uint32_t magnitude = bits & 0x7FFFU;
  float value = 0.0F;
  if (magnitude > layout.infinity) return std::numeric_limits<float>::quiet_NaN();
  if (magnitude == layout.infinity) {
    value = std::numeric_limits<float>::infinity();
  } else {
    const auto exponent = static_cast<int>(magnitude >> layout.fraction);
    const std::uint32_t fraction = magnitude & ((1U << layout.fraction) - 1U);
    value = exponent == 0
                ? std::ldexp(static_cast<float>(fraction), 1 - layout.bias - layout.fraction)
                : std::ldexp(static_cast<float>(fraction + (1U << layout.fraction)),
                             exponent - layout.bias - layout.fraction);
  }
  return (bits & 0x8000U) != 0 ? -value : value;
}

/// All numbers of a 16-bit datatype, by their bits: made once, since widen() takes its time.
std::vector<float> widenAll(const Layout& layout) {
  std::vector<float> all(1U << 16);
  for (std::uint32_t bits = 0; bits < all.size(); ++bits) {
    all[bits] = widen(layout, static_cast<std::uint16_t>(bits));
  }
  return all;
}

/// Rounds to the nearest, ties to even, by rounding the fraction to a whole number.
std::uint16_t narrow(const Layout& layout, float value) {
  if (std::isnan(value)) return 0x7FFF;
  const auto sign = static_cast<std::uint16_t>(std::signbit(value) ? 0x8000U : 0U);
  const float magnitude = std::fabs(value);
  if (std::isinf(magnitude)) return static_cast<std::uint16_t>(sign | layout.infinity);
  if (magnitude == 0.0F) return sign;
  int exponent = std::ilogb(magnitude);
  if (exponent < 1 - layout.bias) exponent = 1 - layout.bias;
  const double scaled = std::ldexp(static_cast<double>(magnitude), layout.fraction - exponent);
  // The whole number carries into the exponent by itself.
  const auto whole = static_cast<std::uint32_t>(std::nearbyint(scaled));
  const auto base = static_cast<std::uint32_t>(exponent + layout.bias - 1) << layout.fraction;
  const std::uint32_t bits = base + whole;
  return static_cast<std::uint16_t>(sign | (bits < layout.infinity ? bits : layout.infinity));
}

float load(zipcclDataType_t datatype, const std::byte* from) {
  if (datatype == zipcclFloat32) {
    float value = 0.0F;
    std::memcpy(&value, from, sizeof(value));
    return value;
  }
  std::uint16_t bits = 0;
  std::memcpy(&bits, from, sizeof(bits));
  static const std::vector<float> halves = widenAll(kHalf);
  static const std::vector<float> bfloats = widenAll(kBfloat16);
  return datatype == zipcclFloat16 ? halves[bits] : bfloats[bits];
}

void store(zipcclDataType_t datatype, float value, std::byte* to) {
  if (datatype == zipcclFloat32) {
    const std::uint32_t bits =
        std::isnan(value) ? 0x7FFFFFFFU : std::bit_cast<std::uint32_t>(value);
    std::memcpy(to, &bits, sizeof(bits));
    return;
  }
  const std::uint16_t bits = narrow(datatype == zipcclFloat16 ? kHalf : kBfloat16, value);
  std::memcpy(to, &bits, sizeof(bits));
}

float rounded(zipcclDataType_t datatype, float value) {
  std::byte bits[sizeof(float)];
  store(datatype, value, bits);
  return load(datatype, bits);
}

float factorOf(ReduceOperation operation, std::size_t ranks) {
  switch (operation) {
    case ReduceOperation::kSum:
      return 1.0F;
    case ReduceOperation::kAverage:
      return 1.0F / static_cast<float>(ranks);
    case ReduceOperation::kScaledSum:
      return kScaledSumFactor;
  }
  return 1.0F;
}

}  // namespace

bool canCheckReduction(zipcclDataType_t datatype) noexcept { return isCoded(datatype); }

std::vector<std::byte> elementOf(zipcclDataType_t datatype, float factor) {
  std::vector<std::byte> element(elementBytes(datatype));
  store(datatype, factor, element.data());
  return element;
}

void reduceInOrder(zipcclDataType_t datatype, ReduceOperation operation,
                   const std::vector<std::span<const std::byte>>& addends, std::uint64_t first,
                   std::span<std::byte> sums) {
  const std::size_t bytes = elementBytes(datatype);
  const float factor = rounded(datatype, factorOf(operation, addends.size()));
  for (std::size_t at = 0; at < sums.size(); at += bytes) {
    float sum = 0.0F;
    for (std::size_t rank = 0; rank < addends.size(); ++rank) {
      float addend = load(datatype, addends[rank].data() + first * bytes + at);
      if (factor != 1.0F) {
        const volatile float product = addend * factor;
        addend = rounded(datatype, product);
      }
      sum = rank == 0 ? addend : sum + addend;
    }
    store(datatype, sum, sums.data() + at);
  }
}

SquaredError errorOf(zipcclDataType_t datatype, ReduceOperation operation,
                     const std::vector<std::span<const std::byte>>& addends, std::uint64_t first,
                     std::span<const std::byte> sums) {
  const std::size_t bytes = elementBytes(datatype);
  double factor = static_cast<double>(factorOf(operation, addends.size()));
  if (operation == ReduceOperation::kAverage) factor = 1.0 / static_cast<double>(addends.size());
  if (operation == ReduceOperation::kScaledSum) {
    // What the caller asked for: the scalar is an element of the datatype.
    factor = static_cast<double>(rounded(datatype, kScaledSumFactor));
  }
  SquaredError squared;
  for (std::size_t at = 0; at < sums.size(); at += bytes) {
    double exact = 0.0;
    for (const auto& addend : addends) {
      exact += factor * static_cast<double>(load(datatype, addend.data() + first * bytes + at));
    }
    const double error = static_cast<double>(load(datatype, sums.data() + at)) - exact;
    squared += {error * error, exact * exact};
  }
  return squared;
}

}  // namespace zipccl::tools::perf
