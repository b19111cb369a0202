// SPDX-License-Identifier: Apache-2.0
//
// Inputs for collectives.

#include "tensors.hpp"

#include <bit>
#include <cstring>
#include <iterator>

#include "support/small_floats.hpp"

namespace zipccl::collectives::testing {
namespace {

/// N(0, 0.02) as an fp32 word whose upper half is the element of a 16-bit datatype.
std::uint32_t gaussianBits(Random& random, Datatype datatype) {
  const auto value = static_cast<float>(0.02 * random.normal());
  return datatype == Datatype::kFloat16
             ? static_cast<std::uint32_t>(zipccl::testing::float16Bits(value)) << 16
             : std::bit_cast<std::uint32_t>(value);
}

std::uint32_t specialBits(Random& random, Datatype datatype) {
  static constexpr std::uint32_t kSpecials[] = {0x7FC00000U, 0xFFC00000U, 0x7F800001U, 0x7F810000U,
                                                0x7F800000U, 0xFF800000U, 0x00000001U, 0x80010000U,
                                                0x00000000U, 0x80000000U, 0x7F7FFFFFU, 0x00800000U};
  static constexpr std::uint32_t kFloat16Specials[] = {
      0x7E000000U, 0xFE000000U, 0x7C010000U, 0x7D000000U, 0x7C000000U, 0xFC000000U,
      0x00010000U, 0x80010000U, 0x00000000U, 0x80000000U, 0x7BFF0000U, 0x04000000U};
  static_assert(std::size(kSpecials) == std::size(kFloat16Specials));
  const std::uint64_t which = random.below(std::size(kSpecials));
  // A payload for NaNs, and any fraction for the others.
  return (datatype == Datatype::kFloat16 ? kFloat16Specials : kSpecials)[which] ^
         static_cast<std::uint32_t>(random.below(1U << 22));
}

/// One element as an fp32 word; 16-bit datatypes take its upper half.
std::uint32_t makeElement(Random& random, Datatype datatype, Content content) {
  // A tile of fp16 is coded up to a quarter of escapes.
  const double escapeShare = datatype == Datatype::kFloat16 ? 0.2 : 0.4;
  switch (content) {
    case Content::kGaussian:
      return gaussianBits(random, datatype);
    case Content::kWidened:
      return gaussianBits(random, datatype) & 0xFFFF0000U;
    case Content::kZeros:
      return 0;
    case Content::kRandomBits:
      return static_cast<std::uint32_t>(random());
    case Content::kManyEscapes:
      return random.chance(escapeShare) ? static_cast<std::uint32_t>(random())
                                        : gaussianBits(random, datatype);
    case Content::kSpecials:
      return specialBits(random, datatype);
    case Content::kPatchwork:
      break;
  }
  return 0;
}

}  // namespace

std::string_view contentName(Content content) noexcept {
  switch (content) {
    case Content::kGaussian:
      return "Gaussian";
    case Content::kWidened:
      return "Widened";
    case Content::kZeros:
      return "Zeros";
    case Content::kRandomBits:
      return "RandomBits";
    case Content::kManyEscapes:
      return "ManyEscapes";
    case Content::kSpecials:
      return "Specials";
    case Content::kPatchwork:
      return "Patchwork";
  }
  return "?";
}

Shard makeShard(std::uint64_t seed, int rank, Datatype datatype, std::uint64_t elementCount,
                Content content) {
  Random random(seed, static_cast<std::uint64_t>(rank));
  const std::uint64_t bytesEach = elementBytes(datatype);
  Shard shard(elementCount * bytesEach);
  if (!codedDatatype(datatype)) {
    random.fill(shard);
    return shard;
  }
  Content current = content;
  std::uint64_t left = content == Content::kPatchwork ? 0 : elementCount;
  for (std::uint64_t i = 0; i < elementCount; ++i) {
    if (left == 0) {
      current = kAllContents[random.below(std::size(kAllContents) - 1)];
      left = random.between(1, 5000);
    }
    --left;
    const std::uint32_t word = makeElement(random, datatype, current);
    const std::uint32_t value = bytesEach == 2 ? word >> 16 : word;
    std::memcpy(shard.data() + i * bytesEach, &value, bytesEach);
  }
  return shard;
}

void put(std::span<std::byte> to, std::span<const std::byte> from) {
  if (!from.empty()) std::memcpy(to.data(), from.data(), from.size());
}

}  // namespace zipccl::collectives::testing
