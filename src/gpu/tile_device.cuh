// SPDX-License-Identifier: Apache-2.0
//
// What a warp does to one tile, between registers and the record of docs/format.md: window base
// from the data, codes, planes, escape masks. The bit arithmetic is codec/tile_bits.hpp; this file
// adds the instructions that only the device has.

#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "codec/layout.hpp"
#include "codec/tile_bits.hpp"
#include "codec/tile_window.hpp"
#include "codec/window.hpp"

namespace zipccl::gpu {

inline constexpr unsigned kFullWarp = 0xFFFFFFFFU;

/// min(pair + addend, limit) in both halves: one instruction on sm_90 and later, a few elsewhere.
__device__ __forceinline__ std::uint32_t addThenMinPair(std::uint32_t pair, std::uint32_t addend,
                                                        std::uint32_t limit) {
  return __viaddmin_u16x2(pair, addend, limit);
}

/// What the odd slots of a tile tell of its scale, the same in every lane.
struct TileScale {
  codec::LaneSums sums;
  bool manyZeros;  ///< enough lanes have one among 8 values to be worth counting them
};

/// The magnitude of an odd slot as codec::magnitudeBits() has it, but of infinities and NaNs of
/// fp16.
template <typename Element>
__device__ __forceinline__ float oddMagnitude(std::uint32_t word) {
  if constexpr (Element::kExponentBits == 8) {
    // The even slot's bits below add less than one unit in the last place.
    return fabsf(__uint_as_float(word));
  } else {
    return __uint_as_float((word & 0x7FFF0000U) >> (8 - Element::kExponentBits));
  }
}

/// Measures a tile by its odd slots (codec/tile_window.hpp). An odd slot is the upper half of its
/// pair word.
template <typename Element>
__device__ __forceinline__ TileScale measureTile(const std::uint32_t (&words)[codec::kPairWords]) {
  float sum0 = 0.0F;
  float sum1 = 0.0F;
  float least = 1.0F;
  float most = 0.0F;
#pragma unroll
  for (unsigned w = 0; w < codec::kPairWords; w += 2) {
    const float x0 = oddMagnitude<Element>(words[w]);
    const float x1 = oddMagnitude<Element>(words[w + 1]);
    sum0 += x0;
    sum1 += x1;
    least = fminf(least, x0);
    if constexpr (Element::kExponentBits != 8) most = fmaxf(most, fmaxf(x0, x1));
  }
  TileScale scale;
  scale.manyZeros = __popc(__ballot_sync(kFullWarp, __float_as_uint(least) < 0x00800000U)) > 4;
  const std::uint32_t bits = __float_as_uint(sum0 + sum1);
  bool measurable = codec::isMeasurableLane(bits);
  if constexpr (Element::kExponentBits == 8) {
    // Below the smallest normal number there is no odd slot, only the even slots' bits.
    measurable = measurable && bits >= 0x00800000U;
  } else {
    constexpr std::uint32_t kInfinite = codec::elementFormat(Element::kDatatype).maxExponent()
                                        << 23;
    measurable = measurable && __float_as_uint(most) < kInfinite;
  }
  const unsigned lanes = __ballot_sync(kFullWarp, measurable);
  // 32 lanes of 31-bit patterns: five bits of each are dropped, so that their sum is their mean.
  scale.sums.meanBits = __reduce_add_sync(kFullWarp, measurable ? bits >> 5 : 0U);
  scale.sums.lanes = __popc(lanes);
  if (lanes != kFullWarp && lanes != 0) {
    scale.sums.meanBits =
        static_cast<std::uint32_t>(std::uint64_t{scale.sums.meanBits} * 32U / scale.sums.lanes);
  }
  return scale;
}

/// Both exponent fields of a rotated pair word as a pair.
template <typename Element>
__device__ __forceinline__ std::uint32_t rotatedExponents(std::uint32_t rotated) {
  if constexpr (Element::kExponentBits == 8) {
    return __byte_perm(rotated, 0, 0x4341);
  } else {
    constexpr std::uint32_t kLargest = codec::elementFormat(Element::kDatatype).maxExponent();
    return (rotated >> (16 - Element::kExponentBits)) & (kLargest * codec::kPairOnes);
  }
}

__device__ __forceinline__ std::uint32_t rotateLeft1(std::uint32_t word) {
  return __funnelshift_l(word, word, 1);
}
__device__ __forceinline__ std::uint32_t rotateRight1(std::uint32_t word) {
  return __funnelshift_r(word, word, 1);
}

template <typename Element>
__device__ __forceinline__ void codesOfSeven(const std::uint32_t (&words)[codec::kPairWords],
                                             std::uint32_t base,
                                             std::uint32_t (&codeWords)[codec::kCodeWords]) {
  const std::uint32_t addend = ((0U - base) & 0xFFFFU) * codec::kPairOnes;
  std::uint32_t codes[codec::kPairWords];
#pragma unroll
  for (unsigned w = 0; w < codec::kPairWords; ++w) {
    codes[w] = addThenMinPair(rotatedExponents<Element>(rotateLeft1(words[w])), addend,
                              codec::kPairEscape);
  }
  codec::packCodes(codes, codeWords);
}

template <typename Element>
__device__ __forceinline__ void codesOfSixAndZero(const std::uint32_t (&words)[codec::kPairWords],
                                                  std::uint32_t base,
                                                  std::uint32_t (&codeWords)[codec::kCodeWords]) {
  const std::uint32_t addend = ((0U - base) & 0xFFFFU) * codec::kPairOnes;
  std::uint32_t codes[codec::kPairWords];
#pragma unroll
  for (unsigned w = 0; w < codec::kPairWords; ++w) {
    const std::uint32_t exponents = rotatedExponents<Element>(rotateLeft1(words[w]));
    const std::uint32_t capped = addThenMinPair(exponents, addend, 6U * codec::kPairOnes);
    codes[w] = codec::zeroCodePair(capped, exponents);
  }
  codec::packCodes(codes, codeWords);
}

/// How many of the tile's exponent fields are 0, even slots in the low half, odd slots in the high
/// one.
template <typename Element>
__device__ __forceinline__ std::uint32_t countZeroExponents(
    const std::uint32_t (&words)[codec::kPairWords]) {
  constexpr std::uint32_t kFields =
      (0x8000U - (0x8000U >> Element::kExponentBits)) * codec::kPairOnes;
  std::uint32_t zeros = 0;
#pragma unroll
  for (unsigned w = 0; w < codec::kPairWords; ++w) {
    zeros += ((0x80008000U - (words[w] & kFields)) >> 15) & codec::kPairOnes;
  }
  return __reduce_add_sync(kFullWarp, zeros);
}

/// The sign-mantissa bytes of 16 slots (8 pair words).
template <typename Element>
__device__ __forceinline__ uint4 signMantissaBytes(const std::uint32_t* words) {
  std::uint32_t r[8];
#pragma unroll
  for (unsigned w = 0; w < 8; ++w) r[w] = rotateLeft1(words[w]) >> Element::kFineBits;
  return make_uint4(__byte_perm(r[0], r[1], 0x6420), __byte_perm(r[2], r[3], 0x6420),
                    __byte_perm(r[4], r[5], 0x6420), __byte_perm(r[6], r[7], 0x6420));
}

/// A lane's words of the fine plane of fp16.
__device__ __forceinline__ void packFineBits(const std::uint32_t (&words)[codec::kPairWords],
                                             std::uint32_t (&fineWords)[codec::kCodeWords]) {
  std::uint32_t fine[codec::kPairWords];
#pragma unroll
  for (unsigned w = 0; w < codec::kPairWords; ++w) {
    fine[w] = rotateLeft1(words[w]) & (7U * codec::kPairOnes);
  }
  codec::packCodes(fine, fineWords);
}

/// Exclusive prefix sum over the lanes of values below 64; `total` is the sum over all. Votes on
/// the values' bits have a third of the latency of a scan by shuffles, and escapes a lane are few.
__device__ __forceinline__ std::uint32_t lanePrefix(std::uint32_t value, std::uint32_t lanesBelow,
                                                    std::uint32_t& total) {
  const unsigned bit0 = __ballot_sync(kFullWarp, (value & 1U) != 0);
  const unsigned bit1 = __ballot_sync(kFullWarp, (value & 2U) != 0);
  std::uint32_t prefix = __popc(bit0 & lanesBelow) + 2 * __popc(bit1 & lanesBelow);
  total = __popc(bit0) + 2 * __popc(bit1);
  unsigned rest = __ballot_sync(kFullWarp, value >= 4);
  if (rest != 0) {
#pragma unroll 1
    for (unsigned plane = 2; plane < 6; ++plane) {
      const unsigned bits = __ballot_sync(kFullWarp, ((value >> plane) & 1U) != 0);
      prefix += __popc(bits & lanesBelow) << plane;
      total += __popc(bits) << plane;
    }
  }
  return prefix;
}

}  // namespace zipccl::gpu
