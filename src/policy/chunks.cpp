// SPDX-License-Identifier: Apache-2.0
//
// Sizes of a staged call.

#include "policy/chunks.hpp"

#include <algorithm>

namespace zipccl::policy {
namespace {

std::uint64_t ceilDiv(std::uint64_t value, std::uint64_t by) noexcept {
  return value / by + (value % by != 0 ? 1 : 0);
}

std::uint64_t alignUp(std::uint64_t value, std::uint64_t alignment) noexcept {
  return ceilDiv(value, alignment) * alignment;
}

/// Most bytes that a tile can add to a frame, in any layout: its place in the static part and its
/// extra space.
std::uint64_t tileBoundBytes(const FrameGeometry& geometry) noexcept {
  const std::uint64_t narrow = geometry.narrowTileBytes + geometry.maxNarrowExtraBytes;
  const std::uint64_t wide = geometry.wideTileBytes + geometry.maxWideExtraBytes;
  return std::max(narrow, wide);
}

/// The fewest chunks, at least `wantedChunks` where the message has so many groups of tiles, of
/// which `frames` frames fit at a time.
ChunkPlan fitChunks(const FrameGeometry& geometry, std::uint64_t frames,
                    std::uint64_t maxScratchBytes, std::uint64_t elementCount,
                    std::uint64_t wantedChunks) noexcept {
  if (elementCount == 0) return {};
  const std::uint64_t frameBytes = maxScratchBytes / frames;
  const bool isOneEnough = frameBoundBytes(geometry, elementCount) <= frameBytes;
  if (isOneEnough && wantedChunks == 1) return {elementCount, 1};

  std::uint64_t fewestChunks = wantedChunks;
  if (!isOneEnough) {
    if (frameBytes < geometry.frameOverheadBytes) return {};
    const std::uint64_t tiles =
        (frameBytes - geometry.frameOverheadBytes) / tileBoundBytes(geometry);
    const std::uint64_t mostElements =
        tiles * geometry.tileElements / geometry.groupElements * geometry.groupElements;
    if (mostElements == 0) return {};
    fewestChunks = std::max(fewestChunks, ceilDiv(elementCount, mostElements));
  }
  // Equal chunks rather than full ones and a rest: the last is not so small that its pool misleads.
  const std::uint64_t chunkElements =
      alignUp(ceilDiv(elementCount, fewestChunks), geometry.groupElements);
  if (chunkElements >= elementCount) return {elementCount, 1};
  return {chunkElements, ceilDiv(elementCount, chunkElements)};
}

/// Into how many chunks a message is cut for overlap alone.
std::uint64_t overlapChunks(const FrameGeometry& geometry, std::uint64_t elementCount,
                            const OverlapGoal& goal) noexcept {
  return std::clamp(elementCount * geometry.elementBytes / goal.chunkBytes, std::uint64_t{1},
                    goal.chunks);
}

/// The plan where all ranks get `frames` frames for each chunk: as many chunks in flight as are
/// wanted and scratch has room for without cutting them too fine.
ChunkPlan planForAll(const FrameGeometry& geometry, std::uint64_t frames,
                     std::uint64_t maxScratchBytes, std::uint64_t elementCount,
                     const OverlapGoal& overlap) noexcept {
  const std::uint64_t wantedChunks = overlapChunks(geometry, elementCount, overlap);
  if (overlap.isPipelined) {
    ChunkPlan plan = fitChunks(geometry, frames, maxScratchBytes, elementCount, wantedChunks);
    if (plan.chunkCount <= 1) return plan;
    plan = fitChunks(geometry, 2 * frames, maxScratchBytes, elementCount, wantedChunks);
    plan.chunksInFlight = 2;
    return plan;
  }
  for (std::uint64_t inFlight = overlap.chunksInFlight; wantedChunks > 1 && inFlight > 1;
       --inFlight) {
    ChunkPlan plan =
        fitChunks(geometry, inFlight * frames, maxScratchBytes, elementCount, wantedChunks);
    if (plan.chunkElements * geometry.elementBytes >= overlap.chunkBytes) {
      plan.chunksInFlight = std::min(inFlight, plan.chunkCount);
      return plan;
    }
  }
  return fitChunks(geometry, frames, maxScratchBytes, elementCount, 1);
}

}  // namespace

std::uint64_t frameBoundBytes(const FrameGeometry& geometry, std::uint64_t elementCount) noexcept {
  const std::uint64_t startedTiles = ceilDiv(elementCount, geometry.tileElements);
  return geometry.frameOverheadBytes + startedTiles * tileBoundBytes(geometry);
}

std::uint64_t framesOfAllGather(int rankCount) noexcept {
  return static_cast<std::uint64_t>(rankCount) + 1;
}

std::uint64_t framesOfExchange(int rankCount) noexcept {
  return kFramesOfPair * static_cast<std::uint64_t>(std::max(rankCount - 1, 1));
}

std::uint64_t framesOfMessages(int rankCount) noexcept { return framesOfExchange(rankCount) / 2; }

std::uint64_t framesOfReduction(int rankCount) noexcept {
  // Decoded elements and fp32 sums are less than four frames of any datatype.
  return framesOfExchange(rankCount) + 4;
}

ChunkPlan planChunks(CollectiveKind collective, const FrameGeometry& geometry, int rankCount,
                     std::uint64_t maxScratchBytes, std::uint64_t elementCount,
                     const OverlapGoal& overlap) noexcept {
  switch (collective) {
    case CollectiveKind::kAllGather:
      return planForAll(geometry, framesOfAllGather(rankCount), maxScratchBytes, elementCount,
                        overlap);
    case CollectiveKind::kBroadcast:
      return planForAll(geometry, 1, maxScratchBytes, elementCount, overlap);
    case CollectiveKind::kAllReduce:
    case CollectiveKind::kReduceScatter:
      return fitChunks(geometry, framesOfReduction(rankCount), maxScratchBytes, elementCount,
                       overlapChunks(geometry, elementCount, overlap));
    case CollectiveKind::kAlltoAll:
    case CollectiveKind::kAlltoAllv:
    case CollectiveKind::kGather:
    case CollectiveKind::kScatter:
    case CollectiveKind::kSendRecv:
      if (overlap.isWhole) {
        const ChunkPlan plan =
            fitChunks(geometry, framesOfMessages(rankCount), maxScratchBytes, elementCount, 1);
        return plan.chunkCount == 1 ? plan : ChunkPlan{};
      }
      return fitChunks(geometry, framesOfExchange(rankCount), maxScratchBytes, elementCount,
                       overlapChunks(geometry, elementCount, overlap));
  }
  return {};
}

std::uint64_t poolBytes(const FrameGeometry& geometry, FrameLayout layout,
                        const ClassStatistics& statistics, std::uint64_t elementCount) noexcept {
  const std::uint64_t tiles = elementCount / geometry.tileElements;
  const std::uint64_t mostBytes = tiles * geometry.maxExtraBytes(layout);
  std::uint64_t wantedBytes = tiles * geometry.defaultPoolBytes;
  if (statistics.observed != 0) {
    const ExtraSpace most = statistics.largest();
    const std::uint64_t needed256 =
        tiles * (layout == FrameLayout::kWide ? most.wide : most.narrow);
    const std::uint64_t neededBytes = ceilDiv(needed256, kPerTileUnit);
    wantedBytes = neededBytes + neededBytes / 64;
  }
  return std::min(alignUp(wantedBytes, geometry.poolAlignment), mostBytes);
}

std::uint64_t staticBoundBytes(const FrameGeometry& geometry, FrameLayout layout,
                               const ClassStatistics& statistics,
                               std::uint64_t elementCount) noexcept {
  const std::uint64_t tiles = elementCount / geometry.tileElements;
  const std::uint64_t tailBytes = elementCount % geometry.tileElements * geometry.elementBytes;
  return geometry.frameOverheadBytes + tiles * geometry.tileBytes(layout) + tailBytes +
         poolBytes(geometry, layout, statistics, elementCount);
}

}  // namespace zipccl::policy
