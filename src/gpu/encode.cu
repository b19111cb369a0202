// SPDX-License-Identifier: Apache-2.0
//
// Encoding on the GPU (docs/format.md). Bytes moved per bf16 value: 2 read, 1.375 written to the
// records, about 0.03 to extra space, 0.005 of descriptors.
//
// Two kernels share what a warp does to a tile (gpu/encode_tile.cuh) and differ in who takes a
// group:
//
//   encodeGroupsByWarpKernel   a warp takes a group, tile after tile; warps never wait for each
//   other.
//                              The fastest where there are groups enough to fill the device.
//   encodeGroupsByBlockKernel  a block of eight warps takes a group, a warp a tile; one block
//   barrier a
//                              group. An eighth of the latency where groups are few.
//
// Both read tiles by asynchronous copies a stage ahead, collect a group's escapes in shared memory,
// and take the group's place in extra space by one atomic add on the frame's counter, whose latency
// the next group hides: a group's region is written while the next one is encoded.

#include <atomic>

#include "codec/header_check.hpp"
#include "gpu/encode_tile.cuh"
#include "gpu/grid.hpp"
#include "gpu/launch.hpp"
#include "zipccl/gpu_codec.hpp"

namespace zipccl::gpu {
namespace {

using codec::escapesOf;
using codec::kGroupTiles;
using codec::kindOf;
using codec::kRawRestBytes;
using codec::kUpperBytes;
using codec::kUpperRecordBytes;
using codec::TileKind;

/// The workspace: bytes of extra space taken so far, and above them how many takers are done.
struct EncodeState {
  unsigned long long bytesAndTakers;
  unsigned long long unused;
};
static_assert(sizeof(EncodeState) == kEncodeWorkspaceBytes);
constexpr unsigned kTakersShift = 48;  // extra space is below 2^40 * 640 / 1024 bytes
constexpr std::uint64_t kBytesMask = (std::uint64_t{1} << kTakersShift) - 1;

struct EncodeArguments {
  const std::byte* source;
  FrameView<std::byte> frame;
  EncodeState* state;
  std::uint64_t staticBytes;
  std::uint64_t* frameBytes;
  codec::HeaderBytes header;
};

/// A group whose place in extra space has been asked for and whose region is not written yet.
struct PendingGroup {
  bool any = false;
  std::uint64_t group = 0;
  std::uint64_t stateBefore =
      0;  ///< what the atomic add returned; where it is known, see each kernel
  std::uint32_t bytes = 0;

  __device__ std::uint64_t regionAt() const { return stateBefore & kBytesMask; }
};

/// Takes `bytes` of extra space. Each of `takers` warps or blocks says once that it is done.
__device__ __forceinline__ std::uint64_t takeRegion(const EncodeArguments& a, std::uint32_t bytes,
                                                    bool done) {
  const std::uint64_t add = bytes + (done ? std::uint64_t{1} << kTakersShift : 0U);
  return add == 0 ? 0 : atomicAdd(&a.state->bytesAndTakers, add);
}

/// Called by the taker that said it was done: the one that completes the sum writes the header, and
/// leaves the state as it found it for the next launch or graph replay.
__device__ void finishFrame(const EncodeArguments& a, std::uint64_t stateBefore,
                            std::uint32_t bytes, std::uint64_t takers) {
  if ((stateBefore >> kTakersShift) + 1 != takers) return;
  codec::HeaderBytes header = a.header;
  header.extraBytes = (stateBefore & kBytesMask) + bytes;
  *reinterpret_cast<codec::HeaderBytes*>(a.frame.header) = header;
  if (a.frameBytes != nullptr) {
    *a.frameBytes =
        a.staticBytes +
        (header.extraBytes > header.poolBytes ? header.extraBytes - header.poolBytes : 0);
  }
  a.state->bytesAndTakers = 0;
}

__device__ __forceinline__ std::uint32_t regionBytes(std::uint32_t rawTiles,
                                                     std::uint32_t escapes) {
  return rawTiles * kRawRestBytes + (escapes + 15U) / 16U * 16U;
}

/// The tail, and the header of a frame without tiles, by the first block.
__device__ void encodeTail(const EncodeArguments& a) {
  if (blockIdx.x != 0) return;
  const FrameView<std::byte>& f = a.frame;
  const std::byte* from = a.source + f.tileCount * kUpperBytes;
  for (std::uint64_t at = threadIdx.x * 2; at < f.tailBytes; at += blockDim.x * 2) {
    *reinterpret_cast<unsigned short*>(f.tail + at) =
        *reinterpret_cast<const unsigned short*>(from + at);
  }
  if (f.tileCount == 0 && threadIdx.x == 0) finishFrame(a, 0, 0, 1);
}

// ---------------------------------------------------------------------------------------------------

constexpr unsigned kByBlockWarps = kGroupTiles;
constexpr unsigned kByBlockThreads = 32 * kByBlockWarps;
constexpr unsigned kByBlockStages = 2;
constexpr unsigned kRegionCapacity = kGroupTiles * kRawRestBytes;  // the largest region
constexpr unsigned kByBlockShared =
    2 * kRegionCapacity + kByBlockWarps * kByBlockStages * kUpperBytes;

__global__ __launch_bounds__(kByBlockThreads, 4) void encodeGroupsByBlockKernel(
    const __grid_constant__ EncodeArguments a) {
  extern __shared__ uint4 dynamicShared[];
  __shared__ std::uint32_t descriptors[2][kGroupTiles];
  __shared__ std::uint64_t regionAt[2];

  const unsigned lane = threadIdx.x % 32;
  const unsigned warp = threadIdx.x / 32;
  const std::uint32_t lanesBelow = (1U << lane) - 1U;
  const SharedAddress regions = sharedAddress(dynamicShared);
  const SharedAddress ring =
      regions + 2 * kRegionCapacity + warp * (kByBlockStages * kUpperBytes) + lane * 16;
  const FrameView<std::byte>& f = a.frame;
  const std::uint64_t stride = std::uint64_t{gridDim.x} * kGroupTiles;

  const auto load = [&](std::uint64_t tile, unsigned stage) {
    if (tile < f.tileCount) {
      copyTileAsync(ring + stage * kUpperBytes, a.source + tile * kUpperBytes, lane);
    }
    commitCopies();
  };

  PendingGroup pending;  // stateBefore: in thread 0
  const auto settle = [&](unsigned parity, bool last) {
    if (threadIdx.x != 0 || !pending.any) return;
    regionAt[parity] = pending.regionAt();
    reinterpret_cast<std::uint64_t*>(f.groups)[pending.group] =
        pending.bytes != 0 ? pending.regionAt() : 0;
    if (last) finishFrame(a, pending.stateBefore, pending.bytes, gridDim.x);
  };
  const auto flush = [&](unsigned parity) {
    for (std::uint32_t at = threadIdx.x * 16; at < pending.bytes; at += kByBlockThreads * 16) {
      *reinterpret_cast<uint4*>(f.extra(regionAt[parity] + at)) =
          loadShared16(regions + parity * kRegionCapacity + at);
    }
  };

  std::uint64_t group = blockIdx.x;
#pragma unroll
  for (unsigned s = 0; s < kByBlockStages; ++s) load(group * kGroupTiles + warp + s * stride, s);
  unsigned parity = 0;
  unsigned stage = 0;
  for (; group < f.groupCount; group += gridDim.x, parity ^= 1) {
    const std::uint64_t tile = group * kGroupTiles + warp;
    const bool present = tile < f.tileCount;
    waitCopies<kByBlockStages - 1>();
    const SharedAddress source = ring + stage * kUpperBytes;
    EncodedTile t{};
    if (present) t = encodeTile(source, lane, lanesBelow, f.tiles + tile * kUpperRecordBytes);
    if (lane == 0) descriptors[parity][warp] = t.descriptor;
    settle(parity ^ 1, false);
    // After it every warp sees the group's descriptors, the last group's region is whole, and its
    // place is known; the region before that one has been written out.
    __syncthreads();

    const std::uint32_t d = lane < kGroupTiles ? descriptors[parity][lane] : 0U;
    const unsigned rawTiles = __ballot_sync(kFullWarp, kindOf(d) == TileKind::kRaw);
    const std::uint32_t escapesBefore =
        __reduce_add_sync(kFullWarp, lane < warp ? escapesOf(d) : 0U);
    const std::uint32_t escapes = __reduce_add_sync(kFullWarp, escapesOf(d));
    const std::uint32_t bytes = regionBytes(__popc(rawTiles), escapes);
    std::uint64_t stateBefore = 0;
    if (threadIdx.x == 0) stateBefore = takeRegion(a, bytes, group + gridDim.x >= f.groupCount);
    if (warp == 1 && lane < kGroupTiles && group * kGroupTiles + lane < f.tileCount) {
      reinterpret_cast<std::uint32_t*>(f.descriptors)[group * kGroupTiles + lane] = d;
    }
    flush(parity ^ 1);
    pending = {true, group, stateBefore, bytes};

    const SharedAddress region = regions + parity * kRegionCapacity;
    if (present && kindOf(t.descriptor) == TileKind::kRaw) {
      const SharedAddress rest =
          region + __popc(rawTiles & ((1U << warp) - 1U)) * kRawRestBytes + 4 * lane;
#pragma unroll
      for (unsigned k = 0; k < codec::kRawRestWords; ++k) {
        storeShared4(rest + 128 * k, rawRestWord(source, k));
      }
    }
    const SharedAddress out =
        region + __popc(rawTiles) * kRawRestBytes + escapesBefore + t.escapePrefix;
    forEachEscape(source, t.escapeMask, [&](std::uint32_t index, std::uint32_t field) {
      storeShared1(out + index, field);
    });
    load(tile + kByBlockStages * stride, stage);
    stage = stage + 1 == kByBlockStages ? 0 : stage + 1;
  }
  settle(parity ^ 1, true);
  __syncthreads();
  flush(parity ^ 1);
  encodeTail(a);
}

// ---------------------------------------------------------------------------------------------------

constexpr unsigned kByWarpWarps = 8;
constexpr unsigned kByWarpThreads = 32 * kByWarpWarps;
constexpr unsigned kByWarpStages = 2;
/// Escapes of a group that a warp can collect; a Gaussian group has 250. With more, or with raw
/// tiles, the region is written from the source again, which the L2 cache still holds.
constexpr unsigned kCollected = 1024;
constexpr unsigned kSharedPerWarp = kByWarpStages * kUpperBytes + 2 * kCollected;
constexpr unsigned kByWarpShared = kByWarpWarps * kSharedPerWarp;

/// Writes a group's region from the source. `descriptors`: lane t < 8 has that of tile t.
__device__ __noinline__ void writeRegionAgain(const EncodeArguments& a, std::uint64_t group,
                                              std::uint32_t descriptors, std::uint64_t regionAt,
                                              unsigned lane) {
  const FrameView<std::byte>& f = a.frame;
  const std::uint32_t lanesBelow = (1U << lane) - 1U;
  const std::byte* const source = a.source + group * (kGroupTiles * kUpperBytes) + 16 * lane;
  unsigned rawTiles =
      __ballot_sync(kFullWarp, lane < kGroupTiles && kindOf(descriptors) == TileKind::kRaw);
  unsigned codedTiles = __ballot_sync(kFullWarp, lane < kGroupTiles && escapesOf(descriptors) != 0);
  std::uint64_t at = regionAt + 4 * lane;
  while (rawTiles != 0) {
    // Four tiles' loads are under way at a time: the latency is what this costs.
    uint4 last[4];
    std::uint32_t first[4];
    const unsigned tiles = min(__popc(rawTiles), 4);
#pragma unroll
    for (unsigned i = 0; i < 4; ++i) {
      if (i < tiles) {
        const std::byte* p = source + (__ffs(static_cast<int>(rawTiles)) - 1) * kUpperBytes;
        rawTiles &= rawTiles - 1;
        first[i] = __ldcs(reinterpret_cast<const std::uint32_t*>(p + 1024 + 12));
        last[i] = __ldcs(reinterpret_cast<const uint4*>(p + 1536));
      }
    }
#pragma unroll
    for (unsigned i = 0; i < 4; ++i) {
      if (i < tiles) {
        *reinterpret_cast<std::uint32_t*>(f.extra(at)) = first[i];
        *reinterpret_cast<std::uint32_t*>(f.extra(at + 128)) = last[i].x;
        *reinterpret_cast<std::uint32_t*>(f.extra(at + 256)) = last[i].y;
        *reinterpret_cast<std::uint32_t*>(f.extra(at + 384)) = last[i].z;
        *reinterpret_cast<std::uint32_t*>(f.extra(at + 512)) = last[i].w;
        at += kRawRestBytes;
      }
    }
  }
  at -= 4 * lane;
  for (; codedTiles != 0; codedTiles &= codedTiles - 1) {
    const int t = __ffs(static_cast<int>(codedTiles)) - 1;
    const std::uint32_t d = __shfl_sync(kFullWarp, descriptors, t);
    const std::byte* p = source + static_cast<unsigned>(t) * kUpperBytes;
    std::uint32_t words[codec::kPairWords];
#pragma unroll
    for (unsigned j = 0; j < 4; ++j) {
      putWords(__ldcs(reinterpret_cast<const uint4*>(p + 512 * j)), words + 4 * j);
    }
    std::uint32_t codeWords[codec::kCodeWords];
    if (kindOf(d) == TileKind::kSeven) {
      codesOfSeven(words, codec::windowBaseOf(d), codeWords);
    } else {
      codesOfSixAndZero(words, codec::windowBaseOf(d), codeWords);
    }
    std::uint32_t mask = codec::escapeMask(codeWords);
    std::uint32_t total;
    std::uint64_t to = at + lanePrefix(__popc(mask), lanesBelow, total);
    for (; mask != 0; mask &= mask - 1, ++to) {
      const auto bit = static_cast<std::uint32_t>(__ffs(static_cast<int>(mask)) - 1);
      const unsigned element =
          __ldcs(reinterpret_cast<const unsigned short*>(p + sourceOffsetOfMaskBit(bit)));
      *f.extra(to) = static_cast<std::byte>(element >> 7);
    }
    at += total;
  }
}

__global__ __launch_bounds__(kByWarpThreads, 3) void encodeGroupsByWarpKernel(
    const __grid_constant__ EncodeArguments a) {
  extern __shared__ uint4 dynamicShared[];

  const unsigned lane = threadIdx.x % 32;
  const unsigned warp = threadIdx.x / 32;
  const std::uint32_t lanesBelow = (1U << lane) - 1U;
  const SharedAddress mine = sharedAddress(dynamicShared) + warp * kSharedPerWarp;
  const SharedAddress ring = mine + lane * 16;
  const SharedAddress collected = mine + kByWarpStages * kUpperBytes;
  const FrameView<std::byte>& f = a.frame;
  const std::uint64_t stride = std::uint64_t{gridDim.x} * kByWarpWarps;
  // Neighbouring groups go to different blocks, so that few groups still meet all multiprocessors.
  const std::uint64_t firstGroup = std::uint64_t{warp} * gridDim.x + blockIdx.x;
  const std::uint64_t takers = min(f.groupCount, stride);

  std::uint64_t loadTile = firstGroup * kGroupTiles;
  unsigned loadStage = 0;
  const auto load = [&]() {
    if (loadTile < f.tileCount) {
      copyTileAsync(ring + loadStage * kUpperBytes, a.source + loadTile * kUpperBytes, lane);
    }
    commitCopies();
    ++loadTile;
    if (loadTile % kGroupTiles == 0) loadTile += (stride - 1) * kGroupTiles;
    loadStage = loadStage + 1 == kByWarpStages ? 0 : loadStage + 1;
  };

  PendingGroup pending;  // stateBefore: in lane 0
  std::uint32_t pendingDescriptors = 0;
  bool pendingAgain = false;
  const auto flush = [&](unsigned parity, bool last) {
    if (!pending.any) return;
    const std::uint64_t regionAt = __shfl_sync(kFullWarp, pending.regionAt(), 0);
    if (lane == 0) {
      reinterpret_cast<std::uint64_t*>(f.groups)[pending.group] = pending.bytes != 0 ? regionAt : 0;
      if (last) finishFrame(a, pending.stateBefore, pending.bytes, takers);
    }
    if (pendingAgain) {
      writeRegionAgain(a, pending.group, pendingDescriptors, regionAt, lane);
    } else {
      for (std::uint32_t at = lane * 16; at < pending.bytes; at += 512) {
        *reinterpret_cast<uint4*>(f.extra(regionAt + at)) =
            loadShared16(collected + parity * kCollected + at);
      }
    }
    pending.any = false;
  };

#pragma unroll
  for (unsigned s = 0; s < kByWarpStages; ++s) load();
  unsigned stage = 0;
  unsigned parity = 0;
  for (std::uint64_t group = firstGroup; group < f.groupCount; group += stride, parity ^= 1) {
    const auto members =
        static_cast<unsigned>(min(f.tileCount - group * kGroupTiles, std::uint64_t{kGroupTiles}));
    std::uint32_t escapes = 0;
    std::uint32_t rawTiles = 0;
    std::uint32_t descriptors = 0;
    for (unsigned m = 0; m < kGroupTiles; ++m) {
      if (m < members) {
        waitCopies<kByWarpStages - 1>();
        const SharedAddress source = ring + stage * kUpperBytes;
        const EncodedTile t = encodeTile(source, lane, lanesBelow,
                                         f.tiles + (group * kGroupTiles + m) * kUpperRecordBytes);
        const std::uint32_t tileEscapes = escapesOf(t.descriptor);
        if (escapes + tileEscapes <= kCollected) {
          const SharedAddress out = collected + parity * kCollected + escapes + t.escapePrefix;
          forEachEscape(source, t.escapeMask, [&](std::uint32_t index, std::uint32_t field) {
            storeShared1(out + index, field);
          });
        }
        escapes += tileEscapes;
        rawTiles += kindOf(t.descriptor) == TileKind::kRaw ? 1U : 0U;
        if (lane == m) descriptors = t.descriptor;
      }
      load();
      stage = stage + 1 == kByWarpStages ? 0 : stage + 1;
      if (m == 1) flush(parity ^ 1, false);
    }
    if (lane < members) {
      reinterpret_cast<std::uint32_t*>(f.descriptors)[group * kGroupTiles + lane] = descriptors;
    }
    const std::uint32_t bytes = regionBytes(rawTiles, escapes);
    pending = {true, group, 0, bytes};
    pendingDescriptors = descriptors;
    pendingAgain = rawTiles != 0 || escapes > kCollected;
    if (lane == 0) {
      pending.stateBefore = takeRegion(a, bytes, group + stride >= f.groupCount);
    }
    __syncwarp();  // what the lanes collected is there for those that write it out
  }
  flush(parity ^ 1, true);
  encodeTail(a);
}

/// From this many groups a multiprocessor on, a warp takes a group.
constexpr std::uint64_t kByWarpGroups = 4;

}  // namespace

cudaError_t launchEncode(const EncodeLaunch& launch, cudaStream_t stream) {
  const codec::FrameSpec& spec = launch.spec;
  const codec::FrameLayout layout =
      codec::frameLayout(spec.datatype, spec.layout, spec.elementCount, spec.poolBytes);
  EncodeArguments a{};
  a.source = launch.source;
  a.frame = makeFrameView<std::byte>(layout, launch.frame, launch.frame + layout.staticBytes,
                                     launch.frameCapacity - layout.staticBytes);
  a.state = static_cast<EncodeState*>(launch.workspace);
  a.staticBytes = layout.staticBytes;
  a.frameBytes = launch.frameBytes;
  a.header = codec::makeHeader(spec);

  static std::atomic<unsigned> byBlockResident[kMaxDevices];
  static std::atomic<unsigned> byWarpResident[kMaxDevices];
  unsigned byBlock = 0;
  unsigned byWarp = 0;
  if (const cudaError_t status = residentBlocks(encodeGroupsByBlockKernel, kByBlockThreads,
                                                kByBlockShared, byBlockResident, byBlock);
      status != cudaSuccess) {
    return status;
  }
  if (const cudaError_t status = residentBlocks(encodeGroupsByWarpKernel, kByWarpThreads,
                                                kByWarpShared, byWarpResident, byWarp);
      status != cudaSuccess) {
    return status;
  }
  // byWarp counts three blocks a multiprocessor.
  if (layout.groupCount >= kByWarpGroups * byWarp / 3) {
    const std::uint64_t wanted = (layout.groupCount + kByWarpWarps - 1) / kByWarpWarps;
    encodeGroupsByWarpKernel<<<gridFor(wanted, byWarp, launch.maxBlocks), kByWarpThreads,
                               kByWarpShared, stream>>>(a);
  } else {
    encodeGroupsByBlockKernel<<<gridFor(layout.groupCount, byBlock, launch.maxBlocks),
                                kByBlockThreads, kByBlockShared, stream>>>(a);
  }
  return cudaGetLastError();
}

}  // namespace zipccl::gpu
