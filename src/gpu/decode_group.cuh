// SPDX-License-Identifier: Apache-2.0
//
// Decoding on the GPU (docs/format.md). A warp takes a tile, a block a group of eight; nothing is
// shared between warps, and there is no barrier.
//
// Bytes moved per bf16 value: 1.375 read from the record, about 0.04 of descriptors and extra
// space, 2 written. Descriptors and record are read at once; the tile's escapes, whose place the
// descriptors tell, one dependent load later, a byte a lane. They reach their slots through shared
// memory, since registers cannot be indexed. The grid has a block for each group (see encode.cu); a
// caller that limits the blocks gets larger ones that loop over the work.

#pragma once

#include "gpu/decode_tile.cuh"

namespace zipccl::gpu {

/// One frame that is decoded.
struct DecodeFrame {
  FrameView<const std::byte> view;
  std::byte* output;
  std::uint32_t* status;
};

/// The tail and the header's status, by the threads of a group.
template <typename Element>
__device__ void decodeEnds(const DecodeFrame& frame, unsigned thread) {
  using Unit = typename Element::Unit;
  const FrameView<const std::byte>& f = frame.view;
  const Unit* from = reinterpret_cast<const Unit*>(f.tail);
  Unit* to = reinterpret_cast<Unit*>(frame.output + f.tileCount * Element::kTileBytes);
  for (unsigned i = thread; i < f.tailBytes / sizeof(Unit); i += kGroupThreads) to[i] = from[i];
  if (thread == 0) {
    const codec::DecodeStatus status = headerStatus<Element>(f);
    if (status != codec::DecodeStatus::kOk) report(frame.status, status);
  }
}

/// `Work`: DecodeOne or DecodeBatch.
template <typename Work, typename Element, Alignment kAlignment, unsigned kGroups,
          unsigned kMinBlocks>
__global__ __launch_bounds__(kGroups* kGroupThreads, kMinBlocks) void decodeGroupsKernel(
    const __grid_constant__ Work work) {
  const unsigned lane = threadIdx.x % 32;
  const unsigned warp = threadIdx.x / 32;
  const unsigned member = warp % codec::kGroupTiles;  // of the group
  const unsigned part = warp / codec::kGroupTiles;    // of the block
  __shared__ FoundFrame<DecodeFrame> found[Work::kIsBatch ? kGroups : 1];
  constexpr unsigned kShared = kSharedPerWarp<Element, kAlignment == Alignment::kAligned>;
  const SharedAddress stage =
      blockShared<kGroups * codec::kGroupTiles * kShared>() + warp * kShared;
  const std::uint64_t units = work.unitCount();
  const std::uint64_t stride = std::uint64_t{gridDim.x} * kGroups;
  for (std::uint64_t unit = std::uint64_t{blockIdx.x} * kGroups + part; unit < units;
       unit += stride) {
    std::uint64_t group = unit;
    if constexpr (Work::kIsBatch) {
      // By one thread: in registers the frame's places would take half of all.
      if (threadIdx.x % kGroupThreads == 0) {
        const unsigned number = work.table.find(group);
        found[part] = {work.template frameOf<Element>(number), group};
      }
      groupBarrier<kGroups>(part);
      group = found[part].unit;
    }
    const DecodeFrame& frame = [&]() -> const DecodeFrame& {
      if constexpr (Work::kIsBatch) {
        return found[part].frame;
      } else {
        return work.frame;
      }
    }();
    const FrameView<const std::byte>& f = frame.view;
    if (group * codec::kGroupTiles + member < f.tileCount) {
      std::byte* const output =
          frame.output + (group * codec::kGroupTiles + member) * Element::kTileBytes;
      decodeTile<Element>(f, frame.status, group, member, lane, stage,
                          [&](const PairWords& words, const PairWords& low) {
                            if (isAligned<kAlignment>(output)) {
                              storeTile<Element, true>(output, stage, lane, words, low);
                            } else {
                              storeTile<Element, false>(output, stage, lane, words, low);
                            }
                          });
      __syncwarp();  // before the stage is used again
    }
    if (isLastUnit<Work, kGroups>(group, f.groupCount)) {
      decodeEnds<Element>(frame, threadIdx.x % kGroupThreads);
    }
    if constexpr (kGroups == 1) break;                          // there is a block for each unit
    if constexpr (Work::kIsBatch) groupBarrier<kGroups>(part);  // before `found` changes
  }
}

template <typename Work, typename Element, Alignment kAlignment, unsigned kGroups,
          unsigned kMinBlocks>
cudaError_t launchDecodeKernel(const Work& work, std::uint64_t blocks, cudaStream_t stream) {
  constexpr unsigned kShared =
      kGroups * codec::kGroupTiles * kSharedPerWarp<Element, kAlignment == Alignment::kAligned>;
  const auto kernel = decodeGroupsKernel<Work, Element, kAlignment, kGroups, kMinBlocks>;
  constexpr unsigned kDynamic = needsDynamicShared(kShared) ? kShared : 0;
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

/// Up to this many groups more resident blocks are faster, beyond it more registers.
inline constexpr std::uint64_t kFewGroups = 2048;

/// Launches the kernel on `units` units of `work`; `maxBlocks` 0: no limit.
template <typename Work, typename Element, Alignment kAlignment>
cudaError_t launchDecodeUnits(const Work& work, std::uint64_t units, unsigned maxBlocks,
                              cudaStream_t stream) {
  if (maxBlocks != 0 && units > maxBlocks) {
    constexpr unsigned kGroups = 4;
    const std::uint64_t wanted = (units + kGroups - 1) / kGroups;
    return launchDecodeKernel<Work, Element, kAlignment, kGroups, 1>(
        work, wanted < maxBlocks ? wanted : maxBlocks, stream);
  }
  if constexpr (kAlignment == Alignment::kAligned && !Element::kHasLow) {
    if (units <= kFewGroups) {
      return launchDecodeKernel<Work, Element, kAlignment, 1, 8>(work, units, stream);
    }
  }
  constexpr unsigned kMinBlocks = Element::kHasLow ? 4 : 5;
  return launchDecodeKernel<Work, Element, kAlignment, 1, kMinBlocks>(work, units, stream);
}

}  // namespace zipccl::gpu
