// SPDX-License-Identifier: Apache-2.0
//
// Decoding a frame (docs/format.md section 9): nothing is read before it is known to lie inside its
// buffer, and nothing is written outside the output.

#include <algorithm>
#include <array>
#include <cstring>

#include "codec/bytes.hpp"
#include "codec/checksum.hpp"
#include "codec/frame.hpp"

namespace zipccl::codec {
namespace {

/// The largest region of a group: a tile takes either a raw rest or at most as many bytes of
/// escapes.
constexpr std::uint32_t kMaxRegionBytes = kGroupTiles * kMaxBlockBytes;

/// Extra space of a received frame: the pool, and the dynamic part in a buffer of its own.
class ExtraView {
 public:
  ExtraView(std::span<const std::byte> pool, std::span<const std::byte> dynamicPart)
      : pool_(pool), dynamicPart_(dynamicPart) {}

  /// Contiguous bytes of a region that lies inside extra space. One that begins in the pool and
  /// ends in the dynamic part is put together in `scratch`.
  const std::byte* region(std::uint64_t offset, std::uint64_t bytes, std::byte* scratch) const {
    if (offset >= pool_.size()) return dynamicPart_.data() + (offset - pool_.size());
    const std::uint64_t inPool = pool_.size() - offset;
    if (bytes <= inPool) return pool_.data() + offset;
    std::memcpy(scratch, pool_.data() + offset, inPool);
    std::memcpy(scratch + inPool, dynamicPart_.data(), bytes - inPool);
    return scratch;
  }

 private:
  std::span<const std::byte> pool_;
  std::span<const std::byte> dynamicPart_;
};

/// One call of decode, once both parts are known to be complete and the output to be large enough.
class FrameDecoder {
 public:
  FrameDecoder(const TileCodec& codec, const FrameHeader& header, const FrameLayout& layout,
               std::span<const std::byte> staticPart, std::span<const std::byte> dynamicPart,
               std::span<std::byte> output)
      : codec_(codec),
        format_{header.spec.datatype, header.spec.layout},
        layout_(layout),
        extraBytes_(header.extraBytes),
        frame_(staticPart.data()),
        extra_(staticPart.subspan(layout.poolAt, layout.poolBytes), dynamicPart),
        output_(output) {}

  [[nodiscard]] DecodeStatus decodeContent() {
    for (std::uint64_t group = 0; group < layout_.groupCount; ++group) {
      const DecodeStatus status = decodeGroup(group);
      if (status != DecodeStatus::kOk) return status;
    }
    copyTail();
    return DecodeStatus::kOk;
  }

 private:
  [[nodiscard]] DecodeStatus decodeGroup(std::uint64_t group) {
    if (!readDescriptors(group)) return DecodeStatus::kBadDescriptor;
    const auto offset = loadWord<std::uint64_t>(frame_ + layout_.groupsAt + 8 * group);
    if (!isValidOffset(offset)) return DecodeStatus::kBadGroupOffset;

    std::array<std::byte, kMaxRegionBytes> scratch;
    const std::uint64_t regionBytes = blockBytes_ + escapeBytes_;
    const std::byte* block =
        regionBytes == 0 ? nullptr : extra_.region(offset, regionBytes, scratch.data());
    const std::byte* escapes = block == nullptr ? nullptr : block + blockBytes_;
    for (std::uint64_t i = 0; i < tileCount_; ++i) {
      const std::uint32_t descriptor = descriptors_[i];
      if (!decodeTile(group * kGroupTiles + i, descriptor, block, escapes)) {
        return DecodeStatus::kBadEscapeCount;
      }
      if (block == nullptr) continue;
      block += blockBytesOf(descriptor, format_.element(), format_.layout);
      escapes += escapesOf(descriptor);
    }
    return DecodeStatus::kOk;
  }

  /// Reads the group's descriptors and adds up what they need; false when one of them is not valid.
  [[nodiscard]] bool readDescriptors(std::uint64_t group) {
    const std::uint64_t first = group * kGroupTiles;
    tileCount_ = std::min<std::uint64_t>(kGroupTiles, layout_.tileCount - first);
    blockBytes_ = escapeBytes_ = 0;
    for (std::uint64_t i = 0; i < tileCount_; ++i) {
      descriptors_[i] = loadWord<std::uint32_t>(frame_ + layout_.descriptorsAt + 4 * (first + i));
      if (!isValidDescriptor(descriptors_[i], format_.element())) return false;
      blockBytes_ += blockBytesOf(descriptors_[i], format_.element(), format_.layout);
      escapeBytes_ += escapesOf(descriptors_[i]);
    }
    return true;
  }

  [[nodiscard]] bool isValidOffset(std::uint64_t offset) const {
    const std::uint64_t regionBytes = alignUp(blockBytes_ + escapeBytes_, kExtraAlignment);
    if (regionBytes == 0) return offset == 0;
    return offset % kExtraAlignment == 0 && offset <= extraBytes_ &&
           regionBytes <= extraBytes_ - offset;
  }

  [[nodiscard]] bool decodeTile(std::uint64_t tile, std::uint32_t descriptor,
                                const std::byte* block, const std::byte* escapes) {
    const std::uint64_t tileBytes = kTileElements * bytesPerElement(format_.datatype);
    const TileSource source = {frame_ + layout_.tilesAt + layout_.recordBytes * tile, block,
                               escapes};
    return codec_.decode(format_, descriptor, source, output_.data() + tileBytes * tile);
  }

  void copyTail() {
    if (layout_.tailBytes == 0) return;
    std::memcpy(output_.last(layout_.tailBytes).data(), frame_ + layout_.tailAt, layout_.tailBytes);
  }

  const TileCodec& codec_;
  TileFormat format_;
  FrameLayout layout_;
  std::uint64_t extraBytes_;
  const std::byte* frame_;
  ExtraView extra_;
  std::span<std::byte> output_;

  // Of the group at hand.
  std::array<std::uint32_t, kGroupTiles> descriptors_{};
  std::uint64_t tileCount_ = 0;
  std::uint64_t blockBytes_ = 0;
  std::uint64_t escapeBytes_ = 0;
};

bool agree(const FrameSpec& frame, const FrameSpec& expected) noexcept {
  return frame.datatype == expected.datatype && frame.layout == expected.layout &&
         frame.elementCount == expected.elementCount && frame.poolBytes == expected.poolBytes;
}

}  // namespace

DecodeStatus decodeWith(const TileCodec& codec, const FrameSpec& expected,
                        std::span<const std::byte> staticPart,
                        std::span<const std::byte> dynamicPart,
                        std::span<std::byte> output) noexcept {
  FrameHeader header;
  if (const DecodeStatus status = readHeader(staticPart, header); status != DecodeStatus::kOk) {
    return status;
  }
  if (!agree(header.spec, expected)) return DecodeStatus::kSpecMismatch;
  if (staticPart.size() < header.staticBytes || dynamicPart.size() < header.dynamicBytes) {
    return DecodeStatus::kTruncated;
  }
  const FrameLayout layout = frameLayout(header.spec.datatype, header.spec.layout,
                                         header.spec.elementCount, header.spec.poolBytes);
  const std::uint64_t outputBytes =
      header.spec.elementCount * bytesPerElement(header.spec.datatype);
  if (output.size() < outputBytes) return DecodeStatus::kOutputTooSmall;
  const std::span<std::byte> elements = output.first(outputBytes);

  FrameDecoder decoder(codec, header, layout, staticPart, dynamicPart, elements);
  if (const DecodeStatus status = decoder.decodeContent(); status != DecodeStatus::kOk) {
    return status;
  }
  if (header.spec.checksum && contentChecksum(header.spec.datatype, elements) != header.checksum) {
    return DecodeStatus::kChecksumMismatch;
  }
  return DecodeStatus::kOk;
}

DecodeStatus decode(const FrameSpec& expected, std::span<const std::byte> staticPart,
                    std::span<const std::byte> dynamicPart, std::span<std::byte> output) noexcept {
  return decodeWith(defaultTileCodec(), expected, staticPart, dynamicPart, output);
}

DecodeStatus decodeFrame(std::span<const std::byte> frame, std::span<std::byte> output) noexcept {
  FrameHeader header;
  if (const DecodeStatus status = readHeader(frame, header); status != DecodeStatus::kOk) {
    return status;
  }
  if (frame.size() < header.staticBytes) return DecodeStatus::kTruncated;
  return decode(header.spec, frame.first(header.staticBytes), frame.subspan(header.staticBytes),
                output);
}

}  // namespace zipccl::codec
