// SPDX-License-Identifier: Apache-2.0
//
// One warp encodes one tile that stands in shared memory. The record goes to global memory at once;
// escapes, raw rests and narrow low planes wait until the group's place in extra space is known.

#pragma once

#include "gpu/element_device.cuh"
#include "gpu/tile_device.cuh"

namespace zipccl::gpu {

/// A tile of kind seven with more escapes than this has its zeros counted, whatever the sample
/// said.
inline constexpr std::uint32_t kManyEscapes = 192;

/// What a warp keeps of a tile that it has encoded.
struct EncodedTile {
  std::uint32_t escapeMask;    ///< of this lane
  std::uint32_t escapePrefix;  ///< escapes of the lanes below
  std::uint32_t descriptor;
};

/// A coding of a tile that is not written yet.
struct TileCoding {
  codec::TileKind kind;
  std::uint32_t base;
  std::uint32_t codeWords[codec::kCodeWords];
  std::uint32_t escapeMask;
  std::uint32_t escapePrefix;
  std::uint32_t escapes;
};

__device__ __forceinline__ void countEscapes(TileCoding& coding, std::uint32_t lanesBelow) {
  coding.escapeMask = codec::escapeMask(coding.codeWords);
  coding.escapePrefix = lanePrefix(__popc(coding.escapeMask), lanesBelow, coding.escapes);
}

/// Codes the tile as six + zero if it has the zeros that pay for it; false if not.
template <typename Element>
__device__ __forceinline__ bool codeAsSixAndZero(const PairWords& words, const TileScale& scale,
                                                 TileCoding& coding) {
  const std::uint32_t zeros = countZeroExponents<Element>(words);
  if (!codec::zeroCodePays((zeros & 0xFFFFU) + (zeros >> 16))) return false;
  coding.kind = codec::TileKind::kSixAndZero;
  coding.base = codec::sixWindowBase(codec::elementFormat(Element::kDatatype), codec::oddSlots(),
                                     scale.sums, zeros >> 16);
  codesOfSixAndZero<Element>(words, coding.base, coding.codeWords);
  return true;
}

/// The same for a tile whose zeros the sample missed. Not inlined: it would cost every tile
/// registers.
template <typename Element>
__device__ __noinline__ TileCoding reconsider(SharedAddress laneSource, std::uint32_t lanesBelow,
                                              TileScale scale, TileCoding seven) {
  PairWords words;
  Element::loadPairWords(laneSource, words);
  TileCoding six;
  if (!codeAsSixAndZero<Element>(words, scale, six)) return seven;
  countEscapes(six, lanesBelow);
  return six.escapes < seven.escapes ? six : seven;
}

/// Whether every upper half of the tile is +0.
template <typename Element>
__device__ __noinline__ bool isEmpty(SharedAddress laneSource) {
  PairWords words;
  Element::loadPairWords(laneSource, words);
  std::uint32_t any = 0;
#pragma unroll
  for (unsigned w = 0; w < codec::kPairWords; ++w) any |= words[w];
  return __ballot_sync(kFullWarp, any != 0) == 0;
}

/// The lane's 16 bytes number `k` of a low plane (docs/format.md section 6).
__device__ __forceinline__ uint4 lowPlaneBytes(const PairWords& low, unsigned k) {
  return make_uint4(low[4 * k], low[4 * k + 1], low[4 * k + 2], low[4 * k + 3]);
}

/// Encodes the tile and writes its record; all lanes call it. `laneSource`: the tile in shared
/// memory plus 16 * lane. An empty tile's record is left alone.
template <typename Element>
__device__ __forceinline__ EncodedTile encodeTile(SharedAddress laneSource, unsigned lane,
                                                  std::uint32_t lanesBelow, std::byte* record) {
  using codec::TileKind;
  TileCoding coding;
  uint4 plane0;
  uint4 plane1;
  std::uint32_t fineWords[codec::kCodeWords];
  {
    PairWords words;
    Element::loadPairWords(laneSource, words);
    if constexpr (Element::kFineBits != 0) packFineBits(words, fineWords);
    plane0 = signMantissaBytes<Element>(words);
    plane1 = signMantissaBytes<Element>(words + 8);
    const TileScale scale = measureTile<Element>(words);
    if (!scale.manyZeros || !codeAsSixAndZero<Element>(words, scale, coding)) {
      coding.kind = TileKind::kSeven;
      coding.base = codec::sevenWindowBase(codec::elementFormat(Element::kDatatype),
                                           codec::oddSlots(), scale.sums);
      codesOfSeven<Element>(words, coding.base, coding.codeWords);
    }
    countEscapes(coding, lanesBelow);
    if (coding.escapes > kManyEscapes && coding.kind == TileKind::kSeven) {
      coding = reconsider<Element>(laneSource, lanesBelow, scale, coding);
    }
  }
  bool hasLow = false;
  if constexpr (Element::kHasLow) {
    hasLow = __ballot_sync(kFullWarp, Element::anyLow(laneSource)) != 0;
  }

  if (coding.escapes > Element::kMaxEscapes) {
    PairWords words;
    Element::loadPairWords(laneSource, words);
    coding = {TileKind::kRaw, 0, {words[8], words[9], words[10]}, 0, 0, 0};
    plane0 = make_uint4(words[0], words[1], words[2], words[3]);
    plane1 = make_uint4(words[4], words[5], words[6], words[7]);
    if constexpr (Element::kFineBits != 0) {
#pragma unroll
      for (unsigned k = 0; k < codec::kCodeWords; ++k) fineWords[k] = words[11 + k];
    }
  } else if (coding.escapes == 0 && coding.kind == TileKind::kSixAndZero &&
             isEmpty<Element>(laneSource)) {
    coding.kind = TileKind::kEmpty;
    coding.base = 0;
  }
  const EncodedTile tile{coding.escapeMask, coding.escapePrefix,
                         codec::makeDescriptor(coding.kind, coding.base, coding.escapes, hasLow)};

  if (coding.kind != TileKind::kEmpty) {
    __stcs(reinterpret_cast<uint4*>(record) + lane, plane0);
    __stcs(reinterpret_cast<uint4*>(record + 512) + lane, plane1);
#pragma unroll
    for (unsigned k = 0; k < codec::kCodeWords; ++k) {
      __stcs(reinterpret_cast<std::uint32_t*>(record + codec::codeWordAt(0, k)) + lane,
             coding.codeWords[k]);
      if constexpr (Element::kFineBits != 0) {
        __stcs(reinterpret_cast<std::uint32_t*>(record +
                                                codec::threeBitWordAt(codec::kFinePlaneAt, 0, k)) +
                   lane,
               fineWords[k]);
      }
    }
  }
  if constexpr (Element::kHasLow && !Element::kNarrowLow) {
    if (hasLow) {
      PairWords low;
      Element::loadLowWords(laneSource, low);
#pragma unroll
      for (unsigned k = 0; k < 4; ++k) {
        __stcs(reinterpret_cast<uint4*>(record + Element::kLowPlaneAt + 512 * k) + lane,
               lowPlaneBytes(low, k));
      }
    }
  }
  return tile;
}

}  // namespace zipccl::gpu
