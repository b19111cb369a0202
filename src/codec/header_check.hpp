// SPDX-License-Identifier: Apache-2.0
//
// The checks of a header, in the order of docs/format.md section 9, for host and device.

#pragma once

#include "base/host_device.hpp"
#include "codec/layout.hpp"

namespace zipccl::codec {

/// Whether frames of this datatype may have this layout, both being named by the format.
ZIPCCL_HOST_DEVICE constexpr bool isValidLayout(Datatype datatype, Layout layout) noexcept {
  return layout == Layout::kNarrow ||
         (layout == Layout::kWide && elementFormat(datatype).hasLowHalves);
}

/// Whether `poolBytes` may be the pool size of a frame with this layout.
ZIPCCL_HOST_DEVICE constexpr bool isValidPool(const FrameLayout& layout,
                                              std::uint64_t poolBytes) noexcept {
  return poolBytes % kSectionAlignment == 0 && poolBytes <= layout.maxExtraBytes;
}

/// The fields before elementCount: what kind of frame this is.
ZIPCCL_HOST_DEVICE constexpr DecodeStatus checkKind(const HeaderBytes& h) noexcept {
  if (h.magic != kMagic) return DecodeStatus::kBadMagic;
  if (h.version != kFormatVersion) return DecodeStatus::kUnsupportedVersion;
  if (h.codec != kCodecSevenWindow) return DecodeStatus::kUnsupportedCodec;
  const auto datatype = static_cast<Datatype>(h.datatype);
  if (!isDatatype(datatype)) return DecodeStatus::kBadDatatype;
  if (!isValidLayout(datatype, static_cast<Layout>(h.layout))) return DecodeStatus::kBadLayout;
  if (h.tileLog2 != kTileLog2 || h.groupLog2 != kGroupLog2) return DecodeStatus::kBadTileSize;
  return DecodeStatus::kOk;
}

ZIPCCL_HOST_DEVICE constexpr DecodeStatus checkReserved(const HeaderBytes& h) noexcept {
  std::uint64_t stray = (h.flags & ~std::uint32_t{kFlagChecksum}) | h.reserved12;
  for (const std::uint64_t word : h.reserved80) stray |= word;
  if ((h.flags & kFlagChecksum) == 0) stray |= h.checksum;
  return stray == 0 ? DecodeStatus::kOk : DecodeStatus::kBadReserved;
}

ZIPCCL_HOST_DEVICE constexpr DecodeStatus checkSizes(const HeaderBytes& h) noexcept {
  if (h.elementCount > kMaxElementCount) return DecodeStatus::kBadElementCount;
  const FrameLayout layout = frameLayout(static_cast<Datatype>(h.datatype),
                                         static_cast<Layout>(h.layout), h.elementCount, 0);
  if (!isValidPool(layout, h.poolBytes)) return DecodeStatus::kBadPoolBytes;
  if (h.extraBytes % kExtraAlignment != 0 || h.extraBytes > layout.maxExtraBytes) {
    return DecodeStatus::kBadExtraBytes;
  }
  return DecodeStatus::kOk;
}

/// The status of a header by itself: kOk, or kBadMagic to kBadExtraBytes.
ZIPCCL_HOST_DEVICE constexpr DecodeStatus checkHeader(const HeaderBytes& h) noexcept {
  DecodeStatus status = checkKind(h);
  if (status == DecodeStatus::kOk) status = checkReserved(h);
  if (status == DecodeStatus::kOk) status = checkSizes(h);
  return status;
}

/// The header of a frame of `spec`.
ZIPCCL_HOST_DEVICE constexpr HeaderBytes makeHeader(const FrameSpec& spec) noexcept {
  HeaderBytes h{};
  h.magic = kMagic;
  h.version = kFormatVersion;
  h.codec = kCodecSevenWindow;
  h.datatype = static_cast<std::uint8_t>(spec.datatype);
  h.layout = static_cast<std::uint8_t>(spec.layout);
  h.tileLog2 = kTileLog2;
  h.groupLog2 = kGroupLog2;
  h.flags = spec.checksum ? kFlagChecksum : std::uint16_t{0};
  h.elementCount = spec.elementCount;
  h.poolBytes = spec.poolBytes;
  return h;
}

}  // namespace zipccl::codec
