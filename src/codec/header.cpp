// SPDX-License-Identifier: Apache-2.0
//
// The header of a frame (docs/format.md section 3), and its checks in the order of section 9.

#include "codec/header.hpp"

#include <algorithm>

#include "codec/bytes.hpp"
#include "codec/layout.hpp"
#include "codec/spec.hpp"

namespace zipccl::codec {
namespace {

/// The fields before elementCount: what kind of frame this is.
DecodeStatus checkKind(const HeaderBytes& h) noexcept {
  if (h.magic != kMagic) return DecodeStatus::kBadMagic;
  if (h.version != kFormatVersion) return DecodeStatus::kUnsupportedVersion;
  if (h.codec != kCodecSevenWindow) return DecodeStatus::kUnsupportedCodec;
  const auto datatype = static_cast<Datatype>(h.datatype);
  if (datatype != Datatype::kBfloat16 && datatype != Datatype::kFloat32) {
    return DecodeStatus::kBadDatatype;
  }
  if (!isValidLayout(datatype, static_cast<Layout>(h.layout))) return DecodeStatus::kBadLayout;
  if (h.tileLog2 != kTileLog2 || h.groupLog2 != kGroupLog2) return DecodeStatus::kBadTileSize;
  return DecodeStatus::kOk;
}

DecodeStatus checkReserved(const HeaderBytes& h) noexcept {
  const bool strayChecksum = (h.flags & kFlagChecksum) == 0 && h.checksum != 0;
  const bool strayWord = std::any_of(std::begin(h.reserved80), std::end(h.reserved80),
                                     [](std::uint64_t word) { return word != 0; });
  const bool strayFlag = (h.flags & ~std::uint32_t{kFlagChecksum}) != 0;
  return strayFlag || h.reserved12 != 0 || strayWord || strayChecksum ? DecodeStatus::kBadReserved
                                                                      : DecodeStatus::kOk;
}

DecodeStatus checkSizes(const HeaderBytes& h) noexcept {
  if (h.elementCount > kMaxElementCount) return DecodeStatus::kBadElementCount;
  const FrameLayout layout = frameLayout(static_cast<Datatype>(h.datatype),
                                         static_cast<Layout>(h.layout), h.elementCount, 0);
  if (!isValidPool(layout, h.poolBytes)) return DecodeStatus::kBadPoolBytes;
  if (h.extraBytes % kExtraAlignment != 0 || h.extraBytes > layout.maxExtraBytes) {
    return DecodeStatus::kBadExtraBytes;
  }
  return DecodeStatus::kOk;
}

FrameHeader headerOf(const HeaderBytes& h) noexcept {
  FrameHeader header;
  header.spec.datatype = static_cast<Datatype>(h.datatype);
  header.spec.layout = static_cast<Layout>(h.layout);
  header.spec.elementCount = h.elementCount;
  header.spec.poolBytes = h.poolBytes;
  header.spec.checksum = (h.flags & kFlagChecksum) != 0;
  header.extraBytes = h.extraBytes;
  header.dynamicBytes = h.extraBytes > h.poolBytes ? h.extraBytes - h.poolBytes : 0;
  header.staticBytes =
      frameLayout(header.spec.datatype, header.spec.layout, h.elementCount, h.poolBytes)
          .staticBytes;
  header.checksum = h.checksum;
  std::copy(std::begin(h.application), std::end(h.application), header.application.begin());
  return header;
}

}  // namespace

void writeHeader(const FrameSpec& spec, std::uint64_t extraBytes, std::uint64_t checksum,
                 const ApplicationWords& application, std::byte* at) noexcept {
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
  h.extraBytes = extraBytes;
  h.checksum = checksum;
  std::copy(application.begin(), application.end(), std::begin(h.application));
  storeWord(at, h);
}

DecodeStatus readHeader(std::span<const std::byte> frame, FrameHeader& header) noexcept {
  if (frame.size() < kHeaderBytes) return DecodeStatus::kTruncated;
  const auto h = loadWord<HeaderBytes>(frame.data());
  for (const auto check : {checkKind, checkReserved, checkSizes}) {
    if (const DecodeStatus status = check(h); status != DecodeStatus::kOk) return status;
  }
  header = headerOf(h);
  return DecodeStatus::kOk;
}

}  // namespace zipccl::codec
