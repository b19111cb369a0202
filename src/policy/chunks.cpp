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

}  // namespace

std::uint64_t frameBoundBytes(const FrameGeometry& geometry, std::uint64_t elementCount) noexcept {
  const std::uint64_t startedTiles = ceilDiv(elementCount, geometry.tileElements);
  return geometry.frameOverheadBytes + startedTiles * tileBoundBytes(geometry);
}

ChunkPlan planAllGatherChunks(const FrameGeometry& geometry, int rankCount,
                              std::uint64_t maxScratchBytes, std::uint64_t elementCount) noexcept {
  if (elementCount == 0) return {};
  const std::uint64_t frames = static_cast<std::uint64_t>(rankCount) + 1;
  const std::uint64_t frameBytes = maxScratchBytes / frames;
  if (frameBoundBytes(geometry, elementCount) <= frameBytes) return {elementCount, 1};

  if (frameBytes < geometry.frameOverheadBytes) return {};
  const std::uint64_t tiles = (frameBytes - geometry.frameOverheadBytes) / tileBoundBytes(geometry);
  const std::uint64_t mostElements =
      tiles * geometry.tileElements / geometry.groupElements * geometry.groupElements;
  if (mostElements == 0) return {};
  // Equal chunks rather than full ones and a rest: the last is not so small that its pool misleads.
  const std::uint64_t fewestChunks = ceilDiv(elementCount, mostElements);
  const std::uint64_t chunkElements =
      alignUp(ceilDiv(elementCount, fewestChunks), geometry.groupElements);
  return {chunkElements, ceilDiv(elementCount, chunkElements)};
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
