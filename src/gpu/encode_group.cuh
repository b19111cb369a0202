// SPDX-License-Identifier: Apache-2.0
//
// Encoding on the GPU (docs/format.md). A group of eight tiles belongs to eight warps, a warp a
// tile.
//
// Bytes moved per bf16 value: 2 read, 1.375 written to the records, about 0.03 to extra space,
// 0.005 of descriptors. A tile is copied to shared memory, so that an escape's element can be
// addressed by its number. The group's place in extra space comes from one atomic add on the
// frame's counter once all eight warps know how many escapes they have. Nothing is read ahead: the
// grid has a block for each group, so that blocks start in the order of their addresses and other
// blocks of the multiprocessor work while one waits, which serves the memory better than a
// persistent grid does (docs/performance.md).
//
// A caller that limits the blocks gets larger ones, of four groups, that loop over the work.

#pragma once

#include "codec/header_check.hpp"
#include "gpu/encode_tile.cuh"
#include "gpu/frame_device.cuh"
#include "zipccl/gpu_codec.hpp"

namespace zipccl::gpu {

/// The workspace: extra space taken so far, in units of 16 bytes, and above it how many groups
/// took.
struct EncodeState {
  unsigned long long unitsAndGroups;
  unsigned long long unused;
};
static_assert(sizeof(EncodeState) == kEncodeWorkspaceBytes);
inline constexpr unsigned kGroupsShift = 36;
inline constexpr std::uint64_t kUnitsMask = (std::uint64_t{1} << kGroupsShift) - 1;
static_assert((kGpuMaxElementCount >> (codec::kTileLog2 + codec::kGroupLog2)) <
              (std::uint64_t{1} << (64 - kGroupsShift)));
static_assert((kGpuMaxElementCount >> codec::kTileLog2) *
                  (codec::elementFormat(codec::Datatype::kFloat32).rawRestBytes() +
                   codec::kLowPlaneBytes) /
                  16 <
              kUnitsMask);

/// What the headers of a launch have in common.
inline codec::HeaderBytes commonHeader(codec::Datatype datatype, codec::Layout layout,
                                       const codec::ApplicationWords& application) {
  codec::FrameSpec spec;
  spec.datatype = datatype;
  spec.layout = layout;
  codec::HeaderBytes header = codec::makeHeader(spec);
  for (std::size_t i = 0; i < application.size(); ++i) header.application[i] = application[i];
  return header;
}

/// One frame that is made.
struct EncodeFrame {
  const std::byte* source;
  FrameView<std::byte> view;
  EncodeState* state;
  std::uint64_t* frameBytes;  ///< may be null
};

/// Writes the header once extra space is known, and leaves the state ready for the next launch.
template <typename Element>
__device__ void finishFrame(const EncodeFrame& frame, const codec::HeaderBytes& common,
                            std::uint64_t extraBytes) {
  const FrameView<std::byte>& f = frame.view;
  codec::HeaderBytes header = common;
  header.elementCount =
      f.tileCount * codec::kTileElements + f.tailBytes / sizeof(typename Element::Unit);
  header.poolBytes = f.poolBytes;
  header.extraBytes = extraBytes;
  *reinterpret_cast<codec::HeaderBytes*>(global(f.header)) = header;
  if (frame.frameBytes != nullptr) {
    *frame.frameBytes = static_cast<std::uint64_t>(f.pool - f.header) +
                        (extraBytes > f.poolBytes ? extraBytes : f.poolBytes);
  }
  global(frame.state)->unitsAndGroups = 0;
}

/// The tail, by the threads of a group.
template <typename Element>
__device__ void encodeTail(const EncodeFrame& frame, unsigned thread) {
  using Unit = typename Element::Unit;
  const FrameView<std::byte>& f = frame.view;
  const Unit* from =
      reinterpret_cast<const Unit*>(frame.source + f.tileCount * Element::kTileBytes);
  Unit* to = reinterpret_cast<Unit*>(f.tail);
  for (unsigned i = thread; i < f.tailBytes / sizeof(Unit); i += kGroupThreads) to[i] = from[i];
}

/// A group's region: blocks of tiles in `blocks` order, then escapes (docs/format.md section 7).
template <typename Element>
struct GroupNeeds {
  unsigned rawTiles;  ///< a bit a tile
  unsigned lowTiles;  ///< a bit a tile whose low plane goes to extra space

  __device__ std::uint32_t blockBytesBefore(unsigned tile) const {
    const unsigned below = (1U << tile) - 1U;
    return __popc(rawTiles & below) * Element::kRawRestBytes +
           __popc(lowTiles & below) * codec::kLowPlaneBytes;
  }
  __device__ std::uint32_t blockBytes() const { return blockBytesBefore(codec::kGroupTiles); }
};

/// Starts copying the tile `tile` of `elements` to shared memory.
template <typename Element, Alignment kAlignment>
__device__ __forceinline__ void startTile(SharedAddress tileAt, const std::byte* elements,
                                          std::uint64_t tile, unsigned lane) {
  const std::byte* const source = elements + tile * Element::kTileBytes;
  if (isAligned<kAlignment>(source)) {
    startTileCopy<Element, true>(tileAt, source, lane);
  } else {
    startTileCopy<Element, false>(tileAt, source, lane);
  }
}

/// Eight warps encode the group `group` of a frame, of which each has started its tile. Shared
/// memory: `tileAt`, the warp's tile; `descriptors` and `regionAt` of the group.
/// `groupBarrier()`: of the eight warps.
template <typename Element, Alignment kAlignment, typename Barrier>
__device__ __forceinline__ void encodeGroup(const EncodeFrame& frame,
                                            const codec::HeaderBytes& common, std::uint64_t group,
                                            unsigned member, unsigned lane, SharedAddress tileAt,
                                            std::uint32_t (&descriptors)[codec::kGroupTiles],
                                            std::uint64_t& regionAt, const Barrier& groupBarrier) {
  const std::uint32_t lanesBelow = (1U << lane) - 1U;
  const SharedAddress laneSource = tileAt + 16 * lane;
  const FrameView<std::byte>& f = frame.view;
  // The frame is contiguous: its dynamic part follows the pool.
  const auto extra = [&](std::uint64_t offset) { return global(f.pool + offset); };
  const std::uint64_t tile = group * codec::kGroupTiles + member;
  const bool present = tile < f.tileCount;
  EncodedTile t{};
  if (present) {
    // Where either may be it is both, which does no harm.
    if constexpr (kAlignment != Alignment::kUnaligned) finishTileCopy<true>();
    if constexpr (kAlignment != Alignment::kAligned) finishTileCopy<false>();
    t = encodeTile<Element>(laneSource, lane, lanesBelow, f.tiles + tile * Element::kRecordBytes);
  }
  if (lane == 0) descriptors[member] = t.descriptor;
  groupBarrier();

  const std::uint32_t d = lane < codec::kGroupTiles ? descriptors[lane] : 0U;
  GroupNeeds<Element> needs;
  needs.rawTiles = __ballot_sync(kFullWarp, codec::kindOf(d) == codec::TileKind::kRaw);
  needs.lowTiles = Element::kNarrowLow ? __ballot_sync(kFullWarp, codec::hasLow(d)) : 0U;
  const std::uint32_t escapesBefore =
      __reduce_add_sync(kFullWarp, lane < member ? codec::escapesOf(d) : 0U);
  if (member == 0) {
    const std::uint32_t escapes = __reduce_add_sync(kFullWarp, codec::escapesOf(d));
    const std::uint32_t units = needs.blockBytes() / 16 + (escapes + 15U) / 16U;
    if (lane < codec::kGroupTiles && tile + lane < f.tileCount) {
      reinterpret_cast<std::uint32_t*>(global(f.descriptors))[tile + lane] = d;
    }
    if (lane == 0) {
      const std::uint64_t before = atomicAdd(&global(frame.state)->unitsAndGroups,
                                             (std::uint64_t{1} << kGroupsShift) + units);
      const std::uint64_t at = (before & kUnitsMask) * 16;
      regionAt = at;
      reinterpret_cast<std::uint64_t*>(global(f.groups))[group] = units != 0 ? at : 0;
      if ((before >> kGroupsShift) + 1 == f.groupCount)
        finishFrame<Element>(frame, common, at + units * 16);
    }
  }
  groupBarrier();

  const std::uint64_t region = regionAt;
  std::uint64_t block = region + needs.blockBytesBefore(member);
  if (present && codec::kindOf(t.descriptor) == codec::TileKind::kRaw) {
    PairWords words;
    Element::loadPairWords(laneSource, words);
#pragma unroll
    for (unsigned k = 0; k < codec::kPairWords - Element::kRawRecordWords; ++k) {
      *reinterpret_cast<std::uint32_t*>(extra(block + 128 * k + 4 * lane)) =
          words[Element::kRawRecordWords + k];
    }
    block += Element::kRawRestBytes;
  }
  if constexpr (Element::kNarrowLow) {
    if (codec::hasLow(t.descriptor)) {
      PairWords low;
      Element::loadLowWords(laneSource, low);
#pragma unroll
      for (unsigned k = 0; k < 4; ++k) {
        __stcs(reinterpret_cast<uint4*>(extra(block + 512 * k + 16 * lane)), lowPlaneBytes(low, k));
      }
    }
  }
  // The last escape comes first: the highest set bit is one instruction away, the lowest three.
  std::uint64_t to = region + needs.blockBytes() + escapesBefore + t.escapePrefix +
                     static_cast<unsigned>(__popc(t.escapeMask));
  for (std::uint32_t mask = t.escapeMask; mask != 0;) {
    const std::uint32_t bit = 31U - static_cast<std::uint32_t>(__clz(static_cast<int>(mask)));
    mask ^= 1U << bit;
    --to;
    const std::uint32_t upperHalf = loadShared2(laneSource + Element::upperHalfOfMaskBit(bit));
    *extra(to) = static_cast<std::byte>(
        codec::exponentOf(codec::elementFormat(Element::kDatatype), upperHalf));
  }
}

/// `Work`: EncodeOne or EncodeBatch.
template <typename Work, typename Element, Alignment kAlignment, unsigned kGroups,
          unsigned kMinBlocks>
__global__ __launch_bounds__(kGroups* kGroupThreads, kMinBlocks) void encodeGroupsKernel(
    const __grid_constant__ Work work) {
  __shared__ std::uint32_t descriptors[kGroups][codec::kGroupTiles];
  __shared__ std::uint64_t regionAt[kGroups];
  __shared__ FoundFrame<EncodeFrame> found[Work::kIsBatch ? kGroups : 1];
  const unsigned lane = threadIdx.x % 32;
  const unsigned warp = threadIdx.x / 32;
  const unsigned member = warp % codec::kGroupTiles;  // of the group
  const unsigned part = warp / codec::kGroupTiles;    // of the block
  const SharedAddress tileAt = blockShared<kGroups * codec::kGroupTiles * Element::kTileBytes>() +
                               warp * Element::kTileBytes;
  const auto barrierOfGroup = [&] { groupBarrier<kGroups>(part); };
  const std::uint64_t units = work.unitCount();
  const std::uint64_t stride = std::uint64_t{gridDim.x} * kGroups;
  for (std::uint64_t unit = std::uint64_t{blockIdx.x} * kGroups + part; unit < units;
       unit += stride) {
    std::uint64_t group = unit;
    if constexpr (Work::kIsBatch) {
      const unsigned number = work.table.find(group);
      const EncodeItem& item = work.table.items[number];
      const std::uint64_t tile = group * codec::kGroupTiles + member;
      if (tile < item.elementCount / codec::kTileElements) {
        startTile<Element, kAlignment>(tileAt, static_cast<const std::byte*>(item.source), tile,
                                       lane);
      }
      // By one thread, while the tiles are on their way: in registers the frame's places would
      // take half of all.
      if (threadIdx.x % kGroupThreads == 0) {
        found[part] = {work.template frameOf<Element>(number), group};
      }
      barrierOfGroup();
      group = found[part].unit;
    } else {
      const std::uint64_t tile = group * codec::kGroupTiles + member;
      if (tile < work.frame.view.tileCount) {
        startTile<Element, kAlignment>(tileAt, work.frame.source, tile, lane);
      }
    }
    const EncodeFrame& frame = [&]() -> const EncodeFrame& {
      if constexpr (Work::kIsBatch) {
        return found[part].frame;
      } else {
        return work.frame;
      }
    }();
    if (group < frame.view.groupCount) {
      encodeGroup<Element, kAlignment>(frame, work.common, group, member, lane, tileAt,
                                       descriptors[part], regionAt[part], barrierOfGroup);
    }
    if (isLastUnit<Work, kGroups>(group, frame.view.groupCount)) {
      encodeTail<Element>(frame, threadIdx.x % kGroupThreads);
      if (frame.view.groupCount == 0 && threadIdx.x % kGroupThreads == 0) {
        finishFrame<Element>(frame, work.common, 0);
      }
    }
    if constexpr (kGroups == 1) break;  // there is a block for each unit
    barrierOfGroup();                   // the next round writes descriptors and place again
  }
}

template <typename Work, typename Element, Alignment kAlignment, unsigned kGroups,
          unsigned kMinBlocks>
cudaError_t launchEncodeKernel(const Work& work, std::uint64_t blocks, cudaStream_t stream) {
  constexpr unsigned kShared = kGroups * codec::kGroupTiles * Element::kTileBytes;
  constexpr unsigned kDynamic = needsDynamicShared(kShared) ? kShared : 0;
  const auto kernel = encodeGroupsKernel<Work, Element, kAlignment, kGroups, kMinBlocks>;
  if constexpr (kDynamic != 0) {
    if (const cudaError_t status = cudaFuncSetAttribute(
            kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(kDynamic));
        status != cudaSuccess) {
      return status;
    }
  }
  kernel<<<static_cast<unsigned>(blocks), kGroups * kGroupThreads, kDynamic, stream>>>(work);
  return cudaGetLastError();
}

/// Launches the kernel on `units` units of `work`; `maxBlocks` 0: no limit.
template <typename Work, typename Element, Alignment kAlignment>
cudaError_t launchEncodeUnits(const Work& work, std::uint64_t units, unsigned maxBlocks,
                              cudaStream_t stream) {
  if (maxBlocks != 0 && units > maxBlocks) {
    constexpr unsigned kGroups = 4;
    const std::uint64_t wanted = (units + kGroups - 1) / kGroups;
    return launchEncodeKernel<Work, Element, kAlignment, kGroups, 1>(
        work, wanted < maxBlocks ? wanted : maxBlocks, stream);
  }
  return launchEncodeKernel<Work, Element, kAlignment, 1, 5>(work, units, stream);
}

}  // namespace zipccl::gpu
