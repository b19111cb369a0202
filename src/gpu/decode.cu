// SPDX-License-Identifier: Apache-2.0
//
// Decoding on the GPU (docs/format.md). A warp takes a tile; warps never wait for each other; the
// grid is persistent.
//
// Bytes moved per bf16 value: 1.375 read from the record, about 0.04 of descriptors and extra
// space, 2 written. Three loads depend on each other: descriptor, escapes (whose place it tells),
// and what is decoded with them. So a warp reads the descriptors two tiles ahead, and record and
// escapes one tile ahead, a byte of the escapes a lane. Escapes reach their slots through a
// kilobyte of shared memory a warp, since registers cannot be indexed.

#include <atomic>

#include "codec/header_check.hpp"
#include "gpu/frame_device.cuh"
#include "gpu/grid.hpp"
#include "gpu/launch.hpp"
#include "gpu/memory_device.cuh"
#include "gpu/tile_device.cuh"

namespace zipccl::gpu {
namespace {

using codec::DecodeStatus;
using codec::escapesOf;
using codec::isValidDescriptor;
using codec::kGroupTiles;
using codec::kindOf;
using codec::kRawRestBytes;
using codec::kUpperBytes;
using codec::kUpperRecordBytes;
using codec::TileKind;
using codec::windowBaseOf;

constexpr unsigned kWarps = 8;
constexpr unsigned kThreads = 32 * kWarps;
/// Escapes of a tile that are read ahead; a Gaussian tile has 31 at most of the time.
constexpr unsigned kReadAhead = 64;
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

/// Where a tile's escapes and raw rest stand in extra space.
struct TilePlace {
  std::uint32_t descriptor;
  std::uint64_t escapesAt;
  std::uint64_t rawRestAt;
};

/// What is read a tile ahead.
struct TileBytes {
  uint4 plane[2];
  std::uint32_t codeWords[codec::kCodeWords];
  std::uint32_t escapes[kReadAhead / 32];
};

/// Offset of the slot of mask bit `bit` among a lane's 32 bytes of a plane, 16 of them 512 further.
__device__ __forceinline__ std::uint32_t planeOffsetOfMaskBit(std::uint32_t bit) {
  return ((bit & 8U) << 6) | ((bit & 7U) << 1) | (bit >> 4);
}

/// Exponent fields of a lane's slots, four a word; those of escapes are not right yet.
__device__ __forceinline__ void exponentFields(const std::uint32_t (&codeWords)[codec::kCodeWords],
                                               std::uint32_t descriptor,
                                               std::uint32_t (&fields)[codec::kPairWords / 2]) {
  const std::uint32_t base = windowBaseOf(descriptor) * codec::kPairOnes;
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

/// The header by itself, then against what was agreed.
__device__ DecodeStatus headerStatus(const DecodeArguments& a, const codec::HeaderBytes& header) {
  const DecodeStatus status = codec::checkHeader(header);
  if (status != DecodeStatus::kOk) return status;
  const codec::HeaderBytes& e = a.expected;
  if (header.datatype != e.datatype || header.layout != e.layout ||
      header.elementCount != e.elementCount || header.poolBytes != e.poolBytes) {
    return DecodeStatus::kSpecMismatch;
  }
  return header.extraBytes > a.frame.extraLimit ? DecodeStatus::kTruncated : DecodeStatus::kOk;
}

__global__ __launch_bounds__(kThreads,
                             4) void decodeTilesKernel(const __grid_constant__ DecodeArguments a) {
  __shared__ alignas(16) std::byte fieldBytes[kWarps][codec::kTileElements];
  __shared__ std::byte escapeBytes[kWarps][kReadAhead];

  const unsigned lane = threadIdx.x % 32;
  const unsigned warp = threadIdx.x / 32;
  const std::uint32_t lanesBelow = (1U << lane) - 1U;
  const SharedAddress laneFields = sharedAddress(&fieldBytes[warp][lane * 16]);
  const SharedAddress escapeStage = sharedAddress(&escapeBytes[warp][0]);
  const FrameView<const std::byte>& f = a.frame;
  const std::uint64_t extraLimit =
      min(f.extraLimit, __ldg(&reinterpret_cast<const codec::HeaderBytes*>(f.header)->extraBytes));

  std::uint32_t groupDescriptors = 0;  // lane l < 8: of tile l of the group
  std::uint64_t groupAt = 0;
  const auto loadGroup = [&](std::uint64_t tile) {
    if (tile >= f.tileCount) return;
    const std::uint64_t group = tile / kGroupTiles;
    const std::uint64_t listed = group * kGroupTiles + lane;
    groupDescriptors = lane < kGroupTiles && listed < f.tileCount
                           ? __ldg(reinterpret_cast<const std::uint32_t*>(f.descriptors) + listed)
                           : kNothing;
    groupAt = __ldg(reinterpret_cast<const std::uint64_t*>(f.groups) + group);
  };
  const auto findPlace = [&](std::uint64_t tile) {
    const auto member = static_cast<unsigned>(tile % kGroupTiles);
    const unsigned rawTiles = __ballot_sync(kFullWarp, kindOf(groupDescriptors) == TileKind::kRaw);
    const std::uint32_t escapesBefore =
        __reduce_add_sync(kFullWarp, lane < member ? escapesOf(groupDescriptors) : 0U);
    const bool valid = __all_sync(kFullWarp, isValidDescriptor(groupDescriptors, false)) != 0;
    TilePlace p;
    p.descriptor = __shfl_sync(kFullWarp, groupDescriptors, static_cast<int>(member));
    const std::uint32_t blockBytes = __popc(rawTiles) * kRawRestBytes;
    p.rawRestAt = groupAt + __popc(rawTiles & ((1U << member) - 1U)) * kRawRestBytes;
    p.escapesAt = groupAt + (blockBytes + escapesBefore);
    const std::uint32_t need =
        blockBytes + __reduce_add_sync(kFullWarp, escapesOf(groupDescriptors));
    const bool inside = need == 0 ? groupAt == 0
                                  : groupAt % codec::kExtraAlignment == 0 &&
                                        groupAt <= extraLimit && need <= extraLimit - groupAt;
    if (!valid || !inside) {
      if (lane == 0) {
        report(a, valid ? DecodeStatus::kBadGroupOffset : DecodeStatus::kBadDescriptor);
      }
      p.descriptor = kNothing;
    }
    return p;
  };
  TileBytes next{};
  const auto load = [&](std::uint64_t tile, const TilePlace& p) {
    const std::byte* record = f.tiles + tile * kUpperRecordBytes;
    const std::uint32_t escapes = escapesOf(p.descriptor);
#pragma unroll
    for (unsigned i = 0; i < kReadAhead / 32; ++i) {
      if (lane + 32 * i < escapes) {
        next.escapes[i] = static_cast<std::uint32_t>(*f.extra(p.escapesAt + lane + 32 * i));
      }
    }
    next.plane[0] = __ldcs(reinterpret_cast<const uint4*>(record) + lane);
    next.plane[1] = __ldcs(reinterpret_cast<const uint4*>(record + 512) + lane);
#pragma unroll
    for (unsigned k = 0; k < codec::kCodeWords; ++k) {
      next.codeWords[k] =
          __ldcs(reinterpret_cast<const std::uint32_t*>(record + codec::codeWordAt(0, k)) + lane);
    }
  };

  const std::uint64_t stride = std::uint64_t{gridDim.x} * kWarps;
  std::uint64_t tile = std::uint64_t{blockIdx.x} * kWarps + warp;
  TilePlace nextPlace{};
  loadGroup(tile);
  if (tile < f.tileCount) {
    nextPlace = findPlace(tile);
    load(tile, nextPlace);
  }
  loadGroup(tile + stride);
  for (; tile < f.tileCount; tile += stride) {
    const TileBytes t = next;
    const TilePlace place = nextPlace;
    if (tile + stride < f.tileCount) {
      nextPlace = findPlace(tile + stride);
      load(tile + stride, nextPlace);
    }
    loadGroup(tile + 2 * stride);

    uint4* const out = reinterpret_cast<uint4*>(a.output + tile * kUpperBytes) + lane;
    const TileKind kind = kindOf(place.descriptor);
    if (kind == TileKind::kEmpty) {
#pragma unroll
      for (unsigned j = 0; j < 4; ++j) __stcs(out + 32 * j, make_uint4(0, 0, 0, 0));
      continue;
    }
    if (kind == TileKind::kRaw) {
      std::uint32_t rest[codec::kRawRestWords];
#pragma unroll
      for (unsigned k = 0; k < codec::kRawRestWords; ++k) {
        rest[k] =
            *reinterpret_cast<const std::uint32_t*>(f.extra(place.rawRestAt + 128 * k + 4 * lane));
      }
      __stcs(out, t.plane[0]);
      __stcs(out + 32, t.plane[1]);
      __stcs(out + 64, make_uint4(t.codeWords[0], t.codeWords[1], t.codeWords[2], rest[0]));
      __stcs(out + 96, make_uint4(rest[1], rest[2], rest[3], rest[4]));
      continue;
    }

    const std::uint32_t mask = codec::escapeMask(t.codeWords);
    std::uint32_t escapes;
    const std::uint32_t prefix = lanePrefix(__popc(mask), lanesBelow, escapes);
    if (escapes != escapesOf(place.descriptor)) {
      if (lane == 0) report(a, DecodeStatus::kBadEscapeCount);
      continue;
    }
    std::uint32_t fields[codec::kPairWords / 2];
    exponentFields(t.codeWords, place.descriptor, fields);
    if (escapes != 0) {
      storeShared16(laneFields, make_uint4(fields[0], fields[1], fields[2], fields[3]));
      storeShared16(laneFields + 512, make_uint4(fields[4], fields[5], fields[6], fields[7]));
      if (escapes <= kReadAhead) {
#pragma unroll
        for (unsigned i = 0; i < kReadAhead / 32; ++i) {
          storeShared1(escapeStage + lane + 32 * i, t.escapes[i]);
        }
        __syncwarp();
        forEachEscapeSlot(mask, [&](std::uint32_t offset, std::uint32_t index) {
          storeShared1(laneFields + offset, loadShared1(escapeStage + prefix + index));
        });
        __syncwarp();
      } else {
        forEachEscapeSlot(mask, [&](std::uint32_t offset, std::uint32_t index) {
          const std::byte field = *f.extra(place.escapesAt + prefix + index);
          storeShared1(laneFields + offset, static_cast<std::uint32_t>(field));
        });
      }
      const uint4 low = loadShared16(laneFields);
      const uint4 high = loadShared16(laneFields + 512);
      fields[0] = low.x, fields[1] = low.y, fields[2] = low.z, fields[3] = low.w;
      fields[4] = high.x, fields[5] = high.y, fields[6] = high.z, fields[7] = high.w;
    }
    const std::uint32_t planes[8] = {t.plane[0].x, t.plane[0].y, t.plane[0].z, t.plane[0].w,
                                     t.plane[1].x, t.plane[1].y, t.plane[1].z, t.plane[1].w};
#pragma unroll
    for (unsigned j = 0; j < 4; ++j) {
      const std::uint32_t p0 = planes[2 * j];
      const std::uint32_t p1 = planes[2 * j + 1];
      const std::uint32_t f0 = fields[2 * j];
      const std::uint32_t f1 = fields[2 * j + 1];
      __stcs(out + 32 * j, make_uint4(rotateRight1(__byte_perm(p0, f0, 0x5140)),
                                      rotateRight1(__byte_perm(p0, f0, 0x7362)),
                                      rotateRight1(__byte_perm(p1, f1, 0x5140)),
                                      rotateRight1(__byte_perm(p1, f1, 0x7362))));
    }
  }

  if (blockIdx.x == 0) {
    std::byte* to = a.output + f.tileCount * kUpperBytes;
    for (std::uint64_t at = threadIdx.x * 2; at < f.tailBytes; at += kThreads * 2) {
      *reinterpret_cast<unsigned short*>(to + at) =
          *reinterpret_cast<const unsigned short*>(f.tail + at);
    }
    if (threadIdx.x == 0) {
      const DecodeStatus status =
          headerStatus(a, *reinterpret_cast<const codec::HeaderBytes*>(f.header));
      if (status != DecodeStatus::kOk) report(a, status);
    }
  }
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

  static std::atomic<unsigned> cache[kMaxDevices];
  unsigned resident = 0;
  if (const cudaError_t status = residentBlocks(decodeTilesKernel, kThreads, 0, cache, resident);
      status != cudaSuccess) {
    return status;
  }
  const std::uint64_t wanted = (layout.tileCount + kWarps - 1) / kWarps;
  decodeTilesKernel<<<gridFor(wanted, resident, launch.maxBlocks), kThreads, 0, stream>>>(a);
  return cudaGetLastError();
}

}  // namespace zipccl::gpu
