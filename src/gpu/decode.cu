// SPDX-License-Identifier: Apache-2.0
//
// Decoding on the GPU (docs/format.md). A warp takes a tile, a block a group of eight; nothing is
// shared between warps, and there is no barrier.
//
// Bytes moved per bf16 value: 1.375 read from the record, about 0.04 of descriptors and extra
// space, 2 written. Descriptors and record are read at once; the tile's escapes, whose place the
// descriptors tell, one dependent load later, a byte a lane. They reach their slots through shared
// memory, since registers cannot be indexed. The grid has a block for each group (see encode.cu); a
// caller that limits the blocks gets larger ones that loop over the frame.

#include "codec/header_check.hpp"
#include "gpu/element_device.cuh"
#include "gpu/frame_device.cuh"
#include "gpu/launch.hpp"
#include "gpu/tile_device.cuh"

namespace zipccl::gpu {
namespace {

using codec::DecodeStatus;
using codec::escapesOf;
using codec::kGroupTiles;
using codec::kindOf;
using codec::TileKind;

constexpr unsigned kGroupThreads = 32 * kGroupTiles;
/// Escapes of a tile that are read with one load a lane each; a Gaussian tile has 31 +- 5.4.
constexpr unsigned kReadAtOnce = 64;
/// Stands for tiles that are not there, or whose group is not to be trusted: an empty one.
constexpr std::uint32_t kNothing = codec::makeDescriptor(TileKind::kEmpty, 0, 0, false);

struct DecodeArguments {
  FrameView<const std::byte> frame;
  std::byte* output;
  std::uint32_t* status;
  codec::HeaderBytes expected;
};

__device__ __forceinline__ void report(const DecodeArguments& a, DecodeStatus status) {
  atomicOr(a.status, 1U << static_cast<unsigned>(status));
}

/// The header by itself, then against what was agreed.
__device__ DecodeStatus headerStatus(const DecodeArguments& a) {
  const codec::HeaderBytes header = *reinterpret_cast<const codec::HeaderBytes*>(a.frame.header);
  const DecodeStatus status = codec::checkHeader(header);
  if (status != DecodeStatus::kOk) return status;
  const codec::HeaderBytes& e = a.expected;
  if (header.datatype != e.datatype || header.layout != e.layout ||
      header.elementCount != e.elementCount || header.poolBytes != e.poolBytes) {
    return DecodeStatus::kSpecMismatch;
  }
  return header.extraBytes > a.frame.extraLimit ? DecodeStatus::kTruncated : DecodeStatus::kOk;
}

/// A tile's descriptor, and where its parts stand in extra space.
struct TilePlace {
  std::uint32_t descriptor;
  std::uint64_t blockAt;  ///< its raw rest, then its narrow low plane
  std::uint64_t escapesAt;
};

/// `d`: lane l < 8 has the descriptor of tile l of the group, other lanes kNothing.
template <typename Element>
__device__ __forceinline__ TilePlace placeOfTile(const DecodeArguments& a, std::uint32_t d,
                                                 std::uint64_t groupAt, std::uint64_t extraLimit,
                                                 unsigned member, unsigned lane) {
  const unsigned rawTiles = __ballot_sync(kFullWarp, kindOf(d) == TileKind::kRaw);
  const unsigned lowTiles = Element::kNarrowLow ? __ballot_sync(kFullWarp, codec::hasLow(d)) : 0U;
  const std::uint32_t escapesBefore =
      __reduce_add_sync(kFullWarp, lane < member ? escapesOf(d) : 0U);
  const std::uint32_t escapes = __reduce_add_sync(kFullWarp, escapesOf(d));
  const bool valid = __all_sync(kFullWarp, codec::isValidDescriptor(d, Element::kHasLow)) != 0;
  const auto blocksOf = [](unsigned raws, unsigned lows) {
    return __popc(raws) * codec::kRawRestBytes + __popc(lows) * codec::kLowPlaneBytes;
  };
  const unsigned below = (1U << member) - 1U;
  const std::uint32_t blocks = blocksOf(rawTiles, lowTiles);
  const std::uint32_t need = blocks + escapes;
  const bool inside = need == 0 ? groupAt == 0
                                : groupAt % codec::kExtraAlignment == 0 && groupAt <= extraLimit &&
                                      need <= extraLimit - groupAt;
  TilePlace place;
  place.descriptor = __shfl_sync(kFullWarp, d, static_cast<int>(member));
  place.blockAt = groupAt + blocksOf(rawTiles & below, lowTiles & below);
  place.escapesAt = groupAt + (blocks + escapesBefore);
  if (!valid || !inside) {
    if (lane == 0) {
      report(a, valid ? DecodeStatus::kBadGroupOffset : DecodeStatus::kBadDescriptor);
    }
    place.descriptor = kNothing;
  }
  return place;
}

/// Exponent fields of a lane's slots, four a word; those of escapes are not right yet.
__device__ __forceinline__ void exponentFields(const std::uint32_t (&codeWords)[codec::kCodeWords],
                                               std::uint32_t descriptor,
                                               std::uint32_t (&fields)[codec::kPairWords / 2]) {
  const std::uint32_t base = codec::windowBaseOf(descriptor) * codec::kPairOnes;
  if (kindOf(descriptor) == TileKind::kSeven) {
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

/// Stores the lane's share of a decoded tile; without 16-byte alignment by way of shared memory.
template <typename Element, bool kAligned>
__device__ __forceinline__ void storeTile(std::byte* tile, SharedAddress tileStage, unsigned lane,
                                          const PairWords& words, const PairWords& low) {
  if constexpr (kAligned) {
#pragma unroll
    for (unsigned j = 0; j < Element::kCopies; ++j) {
      __stcs(reinterpret_cast<uint4*>(tile + 512 * j) + lane, Element::decodedBytes(words, low, j));
    }
  } else {
    using Unit = typename Element::Unit;
    __syncwarp();
#pragma unroll
    for (unsigned j = 0; j < Element::kCopies; ++j) {
      storeShared16(tileStage + 512 * j + 16 * lane, Element::decodedBytes(words, low, j));
    }
    __syncwarp();
    Unit* to = reinterpret_cast<Unit*>(tile) + lane;
#pragma unroll 16
    for (unsigned i = 0; i < codec::kTileElements / 32; ++i) {
      __stcs(to + 32 * i,
             loadShared<Unit>(tileStage + (32 * i + lane) * static_cast<unsigned>(sizeof(Unit))));
    }
    __syncwarp();
  }
}

/// Bytes of shared memory a warp: the exponent fields of a tile and its escapes, or an unaligned
/// tile.
template <typename Element, bool kAligned>
constexpr unsigned kSharedPerWarp =
    kAligned ? codec::kTileElements + kReadAtOnce : Element::kTileBytes + kReadAtOnce;

template <typename Element, bool kAligned>
__device__ __forceinline__ void decodeTile(const DecodeArguments& a, std::uint64_t group,
                                           unsigned member, unsigned lane, SharedAddress stage) {
  const FrameView<const std::byte>& f = a.frame;
  const std::uint64_t tile = group * kGroupTiles + member;
  const std::byte* const record = f.tiles + tile * Element::kRecordBytes;
  const std::uint64_t listed = group * kGroupTiles + lane;
  const std::uint32_t d =
      lane < kGroupTiles && listed < f.tileCount
          ? __ldg(reinterpret_cast<const std::uint32_t*>(f.descriptors) + listed)
          : kNothing;
  const std::uint64_t groupAt = __ldg(reinterpret_cast<const std::uint64_t*>(f.groups) + group);
  const std::uint64_t extraLimit =
      min(f.extraLimit, __ldg(&reinterpret_cast<const codec::HeaderBytes*>(f.header)->extraBytes));
  std::uint32_t codeWords[codec::kCodeWords];
#pragma unroll
  for (unsigned k = 0; k < codec::kCodeWords; ++k) {
    codeWords[k] =
        __ldcs(reinterpret_cast<const std::uint32_t*>(record + codec::codeWordAt(0, k)) + lane);
  }
  const uint4 plane0 = __ldcs(reinterpret_cast<const uint4*>(record) + lane);
  const uint4 plane1 = __ldcs(reinterpret_cast<const uint4*>(record + 512) + lane);

  const TilePlace place = placeOfTile<Element>(a, d, groupAt, extraLimit, member, lane);
  const TileKind kind = kindOf(place.descriptor);
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
          place.blockAt + (kind == TileKind::kRaw ? codec::kRawRestBytes : 0U);
#pragma unroll
      for (unsigned k = 0; k < 4; ++k) {
        const std::byte* from = Element::kNarrowLow
                                    ? f.extra(lowAt + 512 * k + 16 * lane)
                                    : record + codec::kLowPlaneAt + 512 * k + 16 * lane;
        const uint4 v = __ldcs(reinterpret_cast<const uint4*>(from));
        low[4 * k] = v.x;
        low[4 * k + 1] = v.y;
        low[4 * k + 2] = v.z;
        low[4 * k + 3] = v.w;
      }
    }
  }

  std::byte* const output = a.output + tile * Element::kTileBytes;
  PairWords words;
  if (kind == TileKind::kEmpty) {
#pragma unroll
    for (unsigned w = 0; w < codec::kPairWords; ++w) words[w] = 0;
    storeTile<Element, kAligned>(output, stage, lane, words, low);
    return;
  }
  if (kind == TileKind::kRaw) {
    const std::uint32_t stored[11] = {plane0.x,     plane0.y,     plane0.z,    plane0.w,
                                      plane1.x,     plane1.y,     plane1.z,    plane1.w,
                                      codeWords[0], codeWords[1], codeWords[2]};
#pragma unroll
    for (unsigned w = 0; w < 11; ++w) words[w] = stored[w];
#pragma unroll
    for (unsigned k = 0; k < codec::kRawRestWords; ++k) {
      words[11 + k] =
          *reinterpret_cast<const std::uint32_t*>(f.extra(place.blockAt + 128 * k + 4 * lane));
    }
    storeTile<Element, kAligned>(output, stage, lane, words, low);
    return;
  }
  {
    const std::uint32_t mask = codec::escapeMask(codeWords);
    std::uint32_t counted;
    const std::uint32_t prefix = lanePrefix(__popc(mask), (1U << lane) - 1U, counted);
    if (counted != escapes) {
      if (lane == 0) report(a, DecodeStatus::kBadEscapeCount);
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
    const std::uint32_t planes[8] = {plane0.x, plane0.y, plane0.z, plane0.w,
                                     plane1.x, plane1.y, plane1.z, plane1.w};
#pragma unroll
    for (unsigned q = 0; q < 8; ++q) {
      words[2 * q] = rotateRight1(__byte_perm(planes[q], fields[q], 0x5140));
      words[2 * q + 1] = rotateRight1(__byte_perm(planes[q], fields[q], 0x7362));
    }
  }
  storeTile<Element, kAligned>(output, stage, lane, words, low);
}

template <typename Element, bool kAligned, unsigned kGroups, unsigned kMinBlocks>
__global__ __launch_bounds__(kGroups* kGroupThreads, kMinBlocks) void decodeGroupsKernel(
    const __grid_constant__ DecodeArguments a) {
  const unsigned lane = threadIdx.x % 32;
  const unsigned warp = threadIdx.x / 32;
  const unsigned member = warp % kGroupTiles;
  constexpr unsigned kShared = kSharedPerWarp<Element, kAligned>;
  const SharedAddress stage = blockShared<kGroups * kGroupTiles * kShared>() + warp * kShared;
  const FrameView<const std::byte>& f = a.frame;
  const std::uint64_t stride = std::uint64_t{gridDim.x} * kGroups;
  // With one group a block there is a block for each group.
  for (std::uint64_t group = std::uint64_t{blockIdx.x} * kGroups + warp / kGroupTiles;
       group < f.groupCount; group = kGroups == 1 ? f.groupCount : group + stride) {
    if (group * kGroupTiles + member < f.tileCount) {
      decodeTile<Element, kAligned>(a, group, member, lane, stage);
      __syncwarp();  // before the stage is used again
    }
  }
  if (blockIdx.x == gridDim.x - 1) {
    using Unit = typename Element::Unit;
    const Unit* from = reinterpret_cast<const Unit*>(f.tail);
    Unit* to = reinterpret_cast<Unit*>(a.output + f.tileCount * Element::kTileBytes);
    for (unsigned i = threadIdx.x; i < f.tailBytes / sizeof(Unit); i += blockDim.x) to[i] = from[i];
    if (threadIdx.x == 0) {
      const DecodeStatus status = headerStatus(a);
      if (status != DecodeStatus::kOk) report(a, status);
    }
  }
}

/// Up to this many groups more resident blocks are faster, beyond it more registers.
constexpr std::uint64_t kFewGroups = 2048;

template <typename Element, bool kAligned, unsigned kGroups, unsigned kMinBlocks>
cudaError_t launchKernel(const DecodeArguments& a, std::uint64_t blocks, cudaStream_t stream) {
  constexpr unsigned kShared = kGroups * kGroupTiles * kSharedPerWarp<Element, kAligned>;
  const auto kernel = decodeGroupsKernel<Element, kAligned, kGroups, kMinBlocks>;
  constexpr unsigned kDynamic = needsDynamicShared(kShared) ? kShared : 0;
  if constexpr (kDynamic != 0) {
    if (const cudaError_t status = cudaFuncSetAttribute(
            kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(kDynamic));
        status != cudaSuccess) {
      return status;
    }
  }
  kernel<<<static_cast<unsigned>(blocks), kGroups * kGroupThreads, kDynamic, stream>>>(a);
  return cudaGetLastError();
}

template <typename Element, bool kAligned>
cudaError_t launch(const DecodeArguments& a, unsigned maxBlocks, cudaStream_t stream) {
  const std::uint64_t groups = a.frame.groupCount;
  if (maxBlocks != 0 && groups > maxBlocks) {
    constexpr unsigned kGroups = 4;
    const std::uint64_t wanted = (groups + kGroups - 1) / kGroups;
    return launchKernel<Element, kAligned, kGroups, 1>(a, wanted < maxBlocks ? wanted : maxBlocks,
                                                       stream);
  }
  const std::uint64_t blocks = groups == 0 ? 1 : groups;
  if constexpr (kAligned && !Element::kHasLow) {
    if (groups <= kFewGroups) return launchKernel<Element, kAligned, 1, 8>(a, blocks, stream);
  }
  return launchKernel < Element, kAligned, 1, Element::kHasLow ? 4 : 5 > (a, blocks, stream);
}

template <typename Element>
cudaError_t launchForAlignment(const DecodeArguments& a, unsigned maxBlocks, cudaStream_t stream) {
  const bool aligned = reinterpret_cast<std::uintptr_t>(a.output) % 16 == 0;
  return aligned ? launch<Element, true>(a, maxBlocks, stream)
                 : launch<Element, false>(a, maxBlocks, stream);
}

}  // namespace

cudaError_t launchDecode(const DecodeLaunch& launch, cudaStream_t stream) {
  const codec::FrameSpec& spec = launch.spec;
  const codec::FrameLayout layout =
      codec::frameLayout(spec.datatype, spec.layout, spec.elementCount, spec.poolBytes);
  DecodeArguments a{};
  a.frame = makeFrameView<const std::byte>(layout, launch.staticPart, launch.dynamicPart,
                                           launch.dynamicCapacity);
  a.output = launch.output;
  a.status = launch.status;
  a.expected = codec::makeHeader(spec);
  if (spec.datatype == codec::Datatype::kBfloat16) {
    return launchForAlignment<Bfloat16Element>(a, launch.maxBlocks, stream);
  }
  if (spec.layout == codec::Layout::kWide) {
    return launchForAlignment<Float32Element<true>>(a, launch.maxBlocks, stream);
  }
  return launchForAlignment<Float32Element<false>>(a, launch.maxBlocks, stream);
}

}  // namespace zipccl::gpu
