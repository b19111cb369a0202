// SPDX-License-Identifier: Apache-2.0
//
// The checksum of a frame's content (docs/format.md section 8).

#include "codec/checksum.hpp"

#include <cstring>

#include "codec/bytes.hpp"
#include "codec/layout.hpp"

namespace zipccl::codec {
namespace {

constexpr std::uint64_t kIndexFactor = 0x9E3779B97F4A7C15U;
constexpr std::uint32_t kDatatypeShift = 56;
static_assert(kMaxElementCount < 1ULL << kDatatypeShift);

constexpr std::uint64_t mix(std::uint64_t x) {
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9U;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBU;
  return x ^ (x >> 31);
}

}  // namespace

std::uint64_t checksumOfKind(Datatype datatype, std::uint64_t elementCount) noexcept {
  return mix(elementCount | std::uint64_t{static_cast<std::uint8_t>(datatype)} << kDatatypeShift);
}

std::uint64_t checksumOfPart(std::span<const std::byte> elements,
                             std::uint64_t firstByte) noexcept {
  const std::uint64_t wholeWords = elements.size() / 8;
  std::uint64_t index = firstByte / 8;
  std::uint64_t sum = 0;
  for (std::uint64_t i = 0; i < wholeWords; ++i) {
    sum += mix(loadWord<std::uint64_t>(elements.data() + 8 * i) + ++index * kIndexFactor);
  }
  const std::span<const std::byte> rest = elements.subspan(8 * wholeWords);
  if (!rest.empty()) {
    std::uint64_t word = 0;
    std::memcpy(&word, rest.data(), rest.size());
    sum += mix(word + (index + 1) * kIndexFactor);
  }
  return sum;
}

}  // namespace zipccl::codec
