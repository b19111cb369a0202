// SPDX-License-Identifier: Apache-2.0
//
// One warp encodes one bf16 tile that stands in shared memory, as its lanes copied it: lane l's
// bytes at `laneSource + 512 * j`, j = 0..3. The record goes to global memory at once; escapes and
// raw rests wait until the group's place in extra space is known.

#pragma once

#include "gpu/frame_device.cuh"
#include "gpu/memory_device.cuh"
#include "gpu/tile_device.cuh"

namespace zipccl::gpu {

/// A tile with more escapes than this is looked at again: six + zero, empty, or raw. A Gaussian
/// tile of any sigma stays below (31 +- 5.4).
inline constexpr std::uint32_t kManyEscapes = 64;

/// What a warp keeps of a tile that it has encoded.
struct EncodedTile {
  std::uint32_t codeWords[codec::kCodeWords];
  std::uint32_t escapeMask;    ///< of this lane
  std::uint32_t escapePrefix;  ///< escapes of the lanes below
  std::uint32_t descriptor;
};

/// Starts this lane's copies of a tile.
__device__ __forceinline__ void copyTileAsync(SharedAddress laneSource, const std::byte* tile,
                                              unsigned lane) {
#pragma unroll
  for (unsigned j = 0; j < 4; ++j) {
    copyAsync16(laneSource + 512 * j, tile + 512 * j + 16 * lane);
  }
}

__device__ __forceinline__ void putWords(const uint4& v, std::uint32_t* words) {
  words[0] = v.x;
  words[1] = v.y;
  words[2] = v.z;
  words[3] = v.w;
}

__device__ __forceinline__ void loadPairWords(SharedAddress laneSource,
                                              std::uint32_t (&words)[codec::kPairWords]) {
#pragma unroll
  for (unsigned j = 0; j < 4; ++j) putWords(loadShared16(laneSource + 512 * j), words + 4 * j);
}

/// Byte offset from `laneSource` of the element that bit `bit` of an escape mask stands for.
__device__ __forceinline__ std::uint32_t sourceOffsetOfMaskBit(std::uint32_t bit) {
  // bit = 16h + 4j + q: copy j, word q, half h.
  return ((bit & 12U) << 7) | ((bit & 3U) << 2) | ((bit >> 3) & 2U);
}

/// Chooses between the kinds for a tile that the window of seven does not fit. Not inlined: it
/// would cost every tile registers, and Gaussian tiles never come here.
__device__ __noinline__ EncodedTile reconsiderTile(SharedAddress laneSource,
                                                   std::uint32_t lanesBelow, EncodedTile tile) {
  using codec::TileKind;
  std::uint32_t words[codec::kPairWords];
  loadPairWords(laneSource, words);
  std::uint32_t escapes = codec::escapesOf(tile.descriptor);
  const std::uint32_t zeros = __reduce_add_sync(kFullWarp, zeroExponents(words));
  if (zeros == codec::kTileElements) {
    std::uint32_t any = 0;
#pragma unroll
    for (unsigned w = 0; w < codec::kPairWords; ++w) any |= words[w];
    if (__ballot_sync(kFullWarp, any != 0) == 0) {
      tile.escapeMask = 0;
      tile.descriptor = codec::makeDescriptor(TileKind::kEmpty, 0, 0, false);
    }
    return tile;  // zeros of both signs and subnormals: the window of seven at base 0 has them all
  }
  // Six + zero saves at most the zeros; a tile that stays too large either way goes raw at once.
  if (escapes <= codec::kMaxEscapes + zeros && zeros != 0) {
    // Zeros pull the mean down by the share of the values that are none.
    const float others = static_cast<float>(codec::kTileElements - zeros);
    const auto raise = static_cast<std::uint32_t>(__float2int_rn(10.0F - __log2f(others)));
    const std::uint32_t base = min(
        codec::sixWindowBase(codec::windowBaseOf(tile.descriptor)) + raise, codec::kMaxWindowBase);
    std::uint32_t codeWords[codec::kCodeWords];
    codesOfSixAndZero(words, base, codeWords);
    const std::uint32_t mask = codec::escapeMask(codeWords);
    std::uint32_t total;
    const std::uint32_t prefix = lanePrefix(__popc(mask), lanesBelow, total);
    if (total < escapes) {
      escapes = total;
#pragma unroll
      for (unsigned k = 0; k < codec::kCodeWords; ++k) tile.codeWords[k] = codeWords[k];
      tile.escapeMask = mask;
      tile.escapePrefix = prefix;
      tile.descriptor = codec::makeDescriptor(TileKind::kSixAndZero, base, total, false);
    }
  }
  if (escapes > codec::kMaxEscapes) {
    tile.escapeMask = 0;
    tile.descriptor = codec::makeDescriptor(TileKind::kRaw, 0, 0, false);
  }
  return tile;
}

/// Encodes the tile and writes its record; all lanes call it. An empty tile's record is left alone.
__device__ __forceinline__ EncodedTile encodeTile(SharedAddress laneSource, unsigned lane,
                                                  std::uint32_t lanesBelow, std::byte* record) {
  using codec::TileKind;
  std::uint32_t words[codec::kPairWords];
  loadPairWords(laneSource, words);
  EncodedTile tile;
  const std::uint32_t base = estimateWindowBase(words);
  codesOfSeven(words, base, tile.codeWords);
  tile.escapeMask = codec::escapeMask(tile.codeWords);
  std::uint32_t escapes;
  tile.escapePrefix = lanePrefix(__popc(tile.escapeMask), lanesBelow, escapes);
  tile.descriptor = codec::makeDescriptor(TileKind::kSeven, base, escapes, false);

  uint4 plane0 = signMantissaBytes(words);
  uint4 plane1 = signMantissaBytes(words + 8);
  const bool mayBeEmpty = base == 0 && escapes == 0;
  if (escapes > kManyEscapes || mayBeEmpty) {
    // Many escapes without many zeros, gradients of mixed scales, are what they are.
    const unsigned lanesWithZeros = __ballot_sync(kFullWarp, anyZeroExponent(words));
    if (__popc(lanesWithZeros) > 8 || escapes > codec::kMaxEscapes) {
      tile = reconsiderTile(laneSource, lanesBelow, tile);
      const TileKind kind = codec::kindOf(tile.descriptor);
      if (kind == TileKind::kEmpty) return tile;
      if (kind == TileKind::kRaw) {
        plane0 = loadShared16(laneSource);
        plane1 = loadShared16(laneSource + 512);
        const uint4 v = loadShared16(laneSource + 1024);
        tile.codeWords[0] = v.x;
        tile.codeWords[1] = v.y;
        tile.codeWords[2] = v.z;
      }
    }
  }
  __stcs(reinterpret_cast<uint4*>(record) + lane, plane0);
  __stcs(reinterpret_cast<uint4*>(record + 512) + lane, plane1);
#pragma unroll
  for (unsigned k = 0; k < codec::kCodeWords; ++k) {
    __stcs(reinterpret_cast<std::uint32_t*>(record + codec::codeWordAt(0, k)) + lane,
           tile.codeWords[k]);
  }
  return tile;
}

/// Calls `put(index, field)` for each of this lane's escapes, with its rank among the lane's. The
/// last one comes first: the highest set bit is one instruction away, the lowest three.
template <typename Put>
__device__ __forceinline__ void forEachEscape(SharedAddress laneSource, std::uint32_t mask,
                                              Put&& put) {
  std::uint32_t index = __popc(mask);
  while (mask != 0) {
    const std::uint32_t bit = 31U - static_cast<std::uint32_t>(__clz(static_cast<int>(mask)));
    mask ^= 1U << bit;
    --index;
    put(index, loadShared2(laneSource + sourceOffsetOfMaskBit(bit)) >> 7);
  }
}

/// Word `k` of this lane's raw rest.
__device__ __forceinline__ std::uint32_t rawRestWord(SharedAddress laneSource, unsigned k) {
  return loadShared4(laneSource + (k == 0 ? 1024U + 12U : 1536U + 4U * (k - 1)));
}

}  // namespace zipccl::gpu
