// SPDX-License-Identifier: Apache-2.0
//
// One warp decodes one tile of a frame into registers: the pair words and low halves of its lanes.
// What becomes of them, stored or added up, is the caller's. Whatever the bytes of the frame,
// nothing outside its sections is read.

#pragma once

#include "codec/header_check.hpp"
#include "gpu/element_device.cuh"
#include "gpu/frame_device.cuh"
#include "gpu/tile_device.cuh"

namespace zipccl::gpu {

/// Escapes of a tile that are read with one load a lane each; a Gaussian tile has 31 +- 5.4.
inline constexpr unsigned kReadAtOnce = 64;
/// Stands for tiles that are not there, or whose group is not to be trusted: an empty one.
inline constexpr std::uint32_t kNothing =
    codec::makeDescriptor(codec::TileKind::kEmpty, 0, 0, false);

__device__ __forceinline__ void report(std::uint32_t* status, codec::DecodeStatus what) {
  atomicOr(global(status), 1U << static_cast<unsigned>(what));
}

/// The status of a frame's header: by itself, then against what was agreed, which `f` says.
template <typename Element>
__device__ inline codec::DecodeStatus headerStatus(const FrameView<const std::byte>& f) {
  using codec::DecodeStatus;
  const codec::HeaderBytes header = *reinterpret_cast<const codec::HeaderBytes*>(f.header);
  const DecodeStatus status = codec::checkHeader(header);
  if (status != DecodeStatus::kOk) return status;
  const std::uint64_t elementCount =
      f.tileCount * codec::kTileElements + f.tailBytes / sizeof(typename Element::Unit);
  if (header.datatype != static_cast<std::uint8_t>(Element::kDatatype) ||
      header.layout != static_cast<std::uint8_t>(Element::kLayout) ||
      header.elementCount != elementCount || header.poolBytes != f.poolBytes) {
    return DecodeStatus::kSpecMismatch;
  }
  return header.extraBytes > f.extraLimit ? DecodeStatus::kTruncated : DecodeStatus::kOk;
}

/// Bytes of extra space that a group of the frame may take.
__device__ __forceinline__ std::uint64_t extraLimitOf(const FrameView<const std::byte>& f) {
  return min(f.extraLimit,
             __ldg(&reinterpret_cast<const codec::HeaderBytes*>(f.header)->extraBytes));
}

/// Whether a group that needs `need` bytes may have its region at `groupAt`.
__device__ __forceinline__ bool isRegionInside(std::uint64_t groupAt, std::uint32_t need,
                                               std::uint64_t extraLimit) {
  return need == 0 ? groupAt == 0
                   : groupAt % codec::kExtraAlignment == 0 && groupAt <= extraLimit &&
                         need <= extraLimit - groupAt;
}

/// Reports a group whose place is not to be trusted, though its descriptors may be valid.
__device__ __forceinline__ void reportPlace(std::uint32_t* status, bool valid) {
  report(status,
         valid ? codec::DecodeStatus::kBadGroupOffset : codec::DecodeStatus::kBadDescriptor);
}

/// A tile's descriptor, and where its parts stand in extra space.
struct TilePlace {
  std::uint32_t descriptor;
  std::uint64_t blockAt;  ///< its raw rest, then its narrow low plane
  std::uint64_t escapesAt;
};

/// `d`: lane l < 8 has the descriptor of tile l of the group, other lanes kNothing.
template <typename Element>
__device__ __forceinline__ TilePlace placeOfTile(std::uint32_t* status, std::uint32_t d,
                                                 std::uint64_t groupAt, std::uint64_t extraLimit,
                                                 unsigned member, unsigned lane) {
  const unsigned rawTiles = __ballot_sync(kFullWarp, codec::kindOf(d) == codec::TileKind::kRaw);
  const unsigned lowTiles = Element::kNarrowLow ? __ballot_sync(kFullWarp, codec::hasLow(d)) : 0U;
  const std::uint32_t escapesBefore =
      __reduce_add_sync(kFullWarp, lane < member ? codec::escapesOf(d) : 0U);
  const std::uint32_t escapes = __reduce_add_sync(kFullWarp, codec::escapesOf(d));
  const bool valid = __all_sync(kFullWarp, codec::isValidDescriptor(
                                               d, codec::elementFormat(Element::kDatatype))) != 0;
  const auto blocksOf = [](unsigned raws, unsigned lows) {
    return __popc(raws) * Element::kRawRestBytes + __popc(lows) * codec::kLowPlaneBytes;
  };
  const unsigned below = (1U << member) - 1U;
  const std::uint32_t blocks = blocksOf(rawTiles, lowTiles);
  const bool inside = isRegionInside(groupAt, blocks + escapes, extraLimit);
  TilePlace place;
  place.descriptor = __shfl_sync(kFullWarp, d, static_cast<int>(member));
  place.blockAt = groupAt + blocksOf(rawTiles & below, lowTiles & below);
  place.escapesAt = groupAt + (blocks + escapesBefore);
  if (!valid || !inside) {
    if (lane == 0) reportPlace(status, valid);
    place.descriptor = kNothing;
  }
  return place;
}

/// Exponent fields of a lane's slots, four a word; those of escapes are not right yet.
__device__ __forceinline__ void exponentFields(const std::uint32_t (&codeWords)[codec::kCodeWords],
                                               std::uint32_t descriptor,
                                               std::uint32_t (&fields)[codec::kPairWords / 2]) {
  const std::uint32_t base = codec::windowBaseOf(descriptor) * codec::kPairOnes;
  if (codec::kindOf(descriptor) == codec::TileKind::kSeven) {
#pragma unroll
    for (unsigned q = 0; q < codec::kPairWords / 2; ++q) {
      fields[q] = __byte_perm(codec::codePair(codeWords, 2 * q) + base,
                              codec::codePair(codeWords, 2 * q + 1) + base, 0x6420);
    }
    return;
  }
#pragma unroll
  for (unsigned q = 0; q < codec::kPairWords / 2; ++q) {
    std::uint32_t pairs[2];
#pragma unroll
    for (unsigned h = 0; h < 2; ++h) {
      const std::uint32_t codes = codec::codePair(codeWords, 2 * q + h);
      const std::uint32_t isSix = (codes >> 1) & (codes >> 2) & ~codes & codec::kPairOnes;
      pairs[h] = (codes + base) & ~(isSix * 0xFFFFU);
    }
    fields[q] = __byte_perm(pairs[0], pairs[1], 0x6420);
  }
}

/// The rotated halves of pair `w`, from the words of plane and exponent fields that hold its slots;
/// bits of a field that the format ignores may be set.
template <typename Element>
__device__ __forceinline__ std::uint32_t rotatedHalves(
    std::uint32_t plane, std::uint32_t fields, const std::uint32_t (&fineWords)[codec::kCodeWords],
    unsigned w) {
  constexpr std::uint32_t kField = codec::elementFormat(Element::kDatatype).maxExponent();
  if constexpr (Element::kFineBits != 0) fields &= kField * 0x01010101U;
  const std::uint32_t upper = __byte_perm(plane, fields, w % 2 == 0 ? 0x5140 : 0x7362);
  if constexpr (Element::kFineBits == 0) return upper;
  return (upper << Element::kFineBits) + codec::codePair(fineWords, w);
}

/// Offset of the slot of mask bit `bit` among a lane's 32 bytes of a plane, 16 of them 512 further.
__device__ __forceinline__ std::uint32_t planeOffsetOfMaskBit(std::uint32_t bit) {
  return ((bit & 8U) << 6) | ((bit & 7U) << 1) | (bit >> 4);
}

/// Calls `put(offset, index)` for each escape of the lane, the last one first.
template <typename Put>
__device__ __forceinline__ void forEachEscapeSlot(std::uint32_t mask, Put&& put) {
  std::uint32_t index = __popc(mask);
  while (mask != 0) {
    const std::uint32_t bit = 31U - static_cast<std::uint32_t>(__clz(static_cast<int>(mask)));
    mask ^= 1U << bit;
    --index;
    put(planeOffsetOfMaskBit(bit), index);
  }
}

/// Bytes of shared memory that a warp needs to decode: the exponent fields of a tile and its
/// escapes.
inline constexpr unsigned kDecodeStageBytes = codec::kTileElements + kReadAtOnce;

/// What a lane reads of a frame about a group.
struct GroupReads {
  std::uint32_t descriptor;  ///< lane l < 8: of tile l of the group
  std::uint64_t groupAt;
  std::uint64_t extraLimit;
};

__device__ __forceinline__ GroupReads readGroup(const FrameView<const std::byte>& f,
                                                std::uint64_t group, unsigned lane) {
  const std::uint64_t listed = group * codec::kGroupTiles + lane;
  GroupReads reads;
  reads.descriptor = lane < codec::kGroupTiles && listed < f.tileCount
                         ? __ldg(reinterpret_cast<const std::uint32_t*>(f.descriptors) + listed)
                         : kNothing;
  reads.groupAt = __ldg(reinterpret_cast<const std::uint64_t*>(f.groups) + group);
  reads.extraLimit = extraLimitOf(f);
  return reads;
}

/// The upper part of a record, a lane's share.
struct RecordReads {
  std::uint32_t codeWords[codec::kCodeWords];
  std::uint32_t fineWords[codec::kCodeWords];  ///< fp16 only
  uint4 plane0;
  uint4 plane1;
};

template <typename Element>
__device__ __forceinline__ RecordReads readRecord(const std::byte* record, unsigned lane) {
  RecordReads reads;
  const auto wordAt = [&](std::uint32_t offset) {
    return __ldcs(reinterpret_cast<const std::uint32_t*>(record + offset) + lane);
  };
#pragma unroll
  for (unsigned k = 0; k < codec::kCodeWords; ++k) {
    reads.codeWords[k] = wordAt(codec::codeWordAt(0, k));
    if constexpr (Element::kFineBits != 0) {
      reads.fineWords[k] = wordAt(codec::threeBitWordAt(codec::kFinePlaneAt, 0, k));
    }
  }
  reads.plane0 = __ldcs(reinterpret_cast<const uint4*>(record) + lane);
  reads.plane1 = __ldcs(reinterpret_cast<const uint4*>(record + 512) + lane);
  return reads;
}

/// The pair words of a raw tile that stand in its record.
template <typename Element>
__device__ __forceinline__ void rawRecordWords(const RecordReads& reads, PairWords& words) {
  words[0] = reads.plane0.x, words[1] = reads.plane0.y;
  words[2] = reads.plane0.z, words[3] = reads.plane0.w;
  words[4] = reads.plane1.x, words[5] = reads.plane1.y;
  words[6] = reads.plane1.z, words[7] = reads.plane1.w;
#pragma unroll
  for (unsigned k = 0; k < codec::kCodeWords; ++k) {
    words[8 + k] = reads.codeWords[k];
    if constexpr (Element::kFineBits != 0) words[11 + k] = reads.fineWords[k];
  }
}

/// Decodes tile `member` of `group` and calls `emit(words, low)` with the
/// lane's share, unless the frame turns out bad; that goes to `*status`. All lanes call it.
/// `stage`: kDecodeStageBytes of shared memory, the warp's own.
template <typename Element, typename Emit>
__device__ __forceinline__ void decodeTile(const FrameView<const std::byte>& f,
                                           std::uint32_t* status, std::uint64_t group,
                                           unsigned member, unsigned lane, SharedAddress stage,
                                           Emit&& emit) {
  using codec::escapesOf;
  using codec::kGroupTiles;
  using codec::TileKind;
  const std::byte* const record = f.tiles + (group * kGroupTiles + member) * Element::kRecordBytes;
  const GroupReads groupReads = readGroup(f, group, lane);
  // Of empty tiles in vain, but waiting for their descriptors would cost all others 1 to 5 %.
  const RecordReads reads = readRecord<Element>(record, lane);
  const TilePlace place = placeOfTile<Element>(status, groupReads.descriptor, groupReads.groupAt,
                                               groupReads.extraLimit, member, lane);
  const auto& codeWords = reads.codeWords;
  const TileKind kind = codec::kindOf(place.descriptor);
  const std::uint32_t escapes = escapesOf(place.descriptor);
  std::uint32_t read[kReadAtOnce / 32] = {};
#pragma unroll
  for (unsigned i = 0; i < kReadAtOnce / 32; ++i) {
    if (lane + 32 * i < escapes) {
      read[i] = static_cast<std::uint32_t>(*f.extra(place.escapesAt + lane + 32 * i));
    }
  }
  PairWords low = {};
  if constexpr (Element::kHasLow) {
    if (codec::hasLow(place.descriptor)) {
      const std::uint64_t lowAt =
          place.blockAt + (kind == TileKind::kRaw ? Element::kRawRestBytes : 0U);
#pragma unroll
      for (unsigned k = 0; k < 4; ++k) {
        const std::byte* from = Element::kNarrowLow
                                    ? f.extra(lowAt + 512 * k + 16 * lane)
                                    : record + Element::kLowPlaneAt + 512 * k + 16 * lane;
        const uint4 v = __ldcs(reinterpret_cast<const uint4*>(from));
        low[4 * k] = v.x;
        low[4 * k + 1] = v.y;
        low[4 * k + 2] = v.z;
        low[4 * k + 3] = v.w;
      }
    }
  }

  PairWords words;
  if (kind == TileKind::kEmpty) {
#pragma unroll
    for (unsigned w = 0; w < codec::kPairWords; ++w) words[w] = 0;
    emit(words, low);
    return;
  }
  if (kind == TileKind::kRaw) {
    rawRecordWords<Element>(reads, words);
#pragma unroll
    for (unsigned k = 0; k < codec::kPairWords - Element::kRawRecordWords; ++k) {
      words[Element::kRawRecordWords + k] =
          *reinterpret_cast<const std::uint32_t*>(f.extra(place.blockAt + 128 * k + 4 * lane));
    }
    emit(words, low);
    return;
  }
  {
    const std::uint32_t mask = codec::escapeMask(codeWords);
    std::uint32_t counted;
    const std::uint32_t prefix = lanePrefix(__popc(mask), (1U << lane) - 1U, counted);
    if (counted != escapes) {
      if (lane == 0) report(status, codec::DecodeStatus::kBadEscapeCount);
      return;
    }
    std::uint32_t fields[codec::kPairWords / 2];
    exponentFields(codeWords, place.descriptor, fields);
    if (escapes != 0) {
      const SharedAddress laneFields = stage + 16 * lane;
      storeShared16(laneFields, make_uint4(fields[0], fields[1], fields[2], fields[3]));
      storeShared16(laneFields + 512, make_uint4(fields[4], fields[5], fields[6], fields[7]));
      if (escapes <= kReadAtOnce) {
        const SharedAddress readStage = stage + codec::kTileElements;
        storeShared1(readStage + lane, read[0]);
        if (escapes > 32) storeShared1(readStage + 32 + lane, read[1]);
        __syncwarp();
        forEachEscapeSlot(mask, [&](std::uint32_t offset, std::uint32_t index) {
          storeShared1(laneFields + offset, loadShared1(readStage + prefix + index));
        });
      } else {
        forEachEscapeSlot(mask, [&](std::uint32_t offset, std::uint32_t index) {
          const std::byte field = *f.extra(place.escapesAt + prefix + index);
          storeShared1(laneFields + offset, static_cast<std::uint32_t>(field));
        });
      }
      const uint4 v0 = loadShared16(laneFields);
      const uint4 v1 = loadShared16(laneFields + 512);
      fields[0] = v0.x, fields[1] = v0.y, fields[2] = v0.z, fields[3] = v0.w;
      fields[4] = v1.x, fields[5] = v1.y, fields[6] = v1.z, fields[7] = v1.w;
    }
    const std::uint32_t planes[8] = {reads.plane0.x, reads.plane0.y, reads.plane0.z,
                                     reads.plane0.w, reads.plane1.x, reads.plane1.y,
                                     reads.plane1.z, reads.plane1.w};
#pragma unroll
    for (unsigned w = 0; w < codec::kPairWords; ++w) {
      words[w] =
          rotateRight1(rotatedHalves<Element>(planes[w / 2], fields[w / 2], reads.fineWords, w));
    }
  }
  emit(words, low);
}

/// Bytes of shared memory a warp: what decoding needs, or a whole tile that is stored unaligned.
template <typename Element, bool kAligned>
inline constexpr unsigned kSharedPerWarp =
    kAligned || Element::kTileBytes < kDecodeStageBytes ? kDecodeStageBytes : Element::kTileBytes;

}  // namespace zipccl::gpu
