// SPDX-License-Identifier: Apache-2.0
//
// The format's sizes, from the one file that computes offsets.

#include "collectives/frame_geometry.hpp"

#include "codec/layout.hpp"

namespace zipccl::collectives {

policy::FrameGeometry frameGeometry(codec::Datatype datatype) noexcept {
  constexpr std::uint64_t kDescriptorBytes = 4;
  constexpr std::uint64_t kGroupOffsetBytes = 8;
  constexpr std::uint64_t kPerTileBytes = kDescriptorBytes + kGroupOffsetBytes / codec::kGroupTiles;
  // The header, the offset of a group that is not full, and four places that round up.
  constexpr std::uint64_t kOverheadBytes =
      codec::kHeaderBytes + kGroupOffsetBytes + 4 * codec::kSectionAlignment;

  const codec::ElementFormat element = codec::elementFormat(datatype);
  const bool hasLowHalves = element.hasLowHalves;
  policy::FrameGeometry geometry;
  geometry.elementBytes = codec::bytesPerElement(datatype);
  geometry.tileElements = codec::kTileElements;
  geometry.groupElements = std::uint64_t{codec::kTileElements} * codec::kGroupTiles;
  geometry.frameOverheadBytes = kOverheadBytes;
  geometry.narrowTileBytes = element.recordBytes(codec::Layout::kNarrow) + kPerTileBytes;
  geometry.wideTileBytes =
      hasLowHalves ? element.recordBytes(codec::Layout::kWide) + kPerTileBytes : 0;
  geometry.maxNarrowExtraBytes =
      element.rawRestBytes() + (hasLowHalves ? codec::kLowPlaneBytes : 0);
  geometry.maxWideExtraBytes = hasLowHalves ? element.rawRestBytes() : 0;
  geometry.lowPlaneBytes = hasLowHalves ? codec::kLowPlaneBytes : 0;
  geometry.defaultPoolBytes = codec::kDefaultPoolBytesPerTile;
  geometry.poolAlignment = codec::kSectionAlignment;
  return geometry;
}

}  // namespace zipccl::collectives
