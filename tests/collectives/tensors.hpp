// SPDX-License-Identifier: Apache-2.0
//
// Inputs for collectives: shards whose bytes follow from a seed, so that every rank, and every
// process, can say what all others hold.

#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "base/random.hpp"
#include "collectives/datatype.hpp"

namespace zipccl::collectives::testing {

/// What the elements are like. Datatypes without a format get random bits for all of them.
enum class Content {
  kGaussian,     ///< N(0, 0.02); fp32 with all its low halves
  kWidened,      ///< the same with low halves zero; 16-bit datatypes as kGaussian
  kZeros,        ///< +0: empty tiles
  kRandomBits,   ///< raw tiles
  kManyEscapes,  ///< two values of five, in fp16 one, have any exponent: a large dynamic part,
                 ///< tiles still coded
  kSpecials,     ///< NaNs with payloads, infinities, subnormals, signed zeros, extremes
  kPatchwork,    ///< runs of all of the above
};
inline constexpr Content kAllContents[] = {
    Content::kGaussian,    Content::kWidened,  Content::kZeros,    Content::kRandomBits,
    Content::kManyEscapes, Content::kSpecials, Content::kPatchwork};

[[nodiscard]] std::string_view contentName(Content content) noexcept;

using Shard = std::vector<std::byte>;

/// `elementCount` elements; the same arguments give the same bytes.
[[nodiscard]] Shard makeShard(std::uint64_t seed, int rank, Datatype datatype,
                              std::uint64_t elementCount, Content content);

/// Copies `from` to the start of `to`.
void put(std::span<std::byte> to, std::span<const std::byte> from);

}  // namespace zipccl::collectives::testing
