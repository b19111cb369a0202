// SPDX-License-Identifier: Apache-2.0
//
// Numbers as elements of a datatype.

#include "perf/element_writer.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <stdexcept>

namespace zipccl::tools::perf {
namespace {

template <class Bits>
void put(Bits bits, std::byte* to) {
  std::memcpy(to, &bits, sizeof(bits));
}

/// Directly from the bits of fp32, since this is what most data is.
std::uint16_t toBfloat16(double value) {
  const auto bits = std::bit_cast<std::uint32_t>(static_cast<float>(value));
  return static_cast<std::uint16_t>((bits + 0x7FFFU + ((bits >> 16) & 1U)) >> 16);
}

}  // namespace

std::uint32_t toSmallFloat(double value, int exponentBits, int mantissaBits,
                           std::uint32_t largestBits) {
  const std::uint32_t sign = std::signbit(value) ? 1U << (exponentBits + mantissaBits) : 0U;
  const double magnitude = std::fabs(value);
  if (magnitude == 0.0) return sign;
  const int bias = (1 << (exponentBits - 1)) - 1;
  const int exponent = std::max(std::ilogb(magnitude), 1 - bias);
  // In units of the last place, so that the hidden bit is 2^mantissaBits; a carry of the rounding
  // runs into the exponent, where it belongs.
  const double scaled = std::nearbyint(std::ldexp(magnitude, mantissaBits - exponent));
  const double bits = scaled + std::ldexp(static_cast<double>(exponent + bias - 1), mantissaBits);
  if (bits >= static_cast<double>(largestBits)) return sign | largestBits;
  return sign | static_cast<std::uint32_t>(bits);
}

void writeElement(zipcclDataType_t datatype, double value, std::byte* to) {
  switch (datatype) {
    case zipcclBfloat16:
      return put(toBfloat16(value), to);
    case zipcclFloat32:
      return put(static_cast<float>(value), to);
    case zipcclFloat64:
      return put(value, to);
    case zipcclFloat16:
      return put(static_cast<std::uint16_t>(toSmallFloat(value, 5, 10, 0x7BFF)), to);
    case zipcclFloat8e4m3:
      return put(static_cast<std::uint8_t>(toSmallFloat(value, 4, 3, 0x7E)), to);
    case zipcclFloat8e5m2:
      return put(static_cast<std::uint8_t>(toSmallFloat(value, 5, 2, 0x7B)), to);
    case zipcclInt8:
    case zipcclUint8:
    case zipcclInt32:
    case zipcclUint32:
    case zipcclInt64:
    case zipcclUint64:
    case zipcclNumTypes:
      break;
  }
  throw std::logic_error("not a floating-point datatype");
}

}  // namespace zipccl::tools::perf
