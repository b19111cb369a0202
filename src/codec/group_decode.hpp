// SPDX-License-Identifier: Apache-2.0
//
// Decoding a group of tiles (docs/format.md section 9): nothing is read before it is known to lie
// inside its buffer. Where the elements go is the caller's business.

#pragma once

#include <algorithm>
#include <array>
#include <cstring>

#include "codec/bytes.hpp"
#include "codec/layout.hpp"
#include "codec/tile_codec.hpp"
#include "zipccl/codec.hpp"

namespace zipccl::codec {

/// All checks of a frame before those of its content, that of the output's size among them.
/// `header` is written on kOk only.
[[nodiscard]] DecodeStatus checkFrame(const FrameSpec& expected, const FrameParts& parts,
                                      std::uint64_t outputBytes, FrameHeader& header) noexcept;

/// The layout of a frame that passed checkFrame().
[[nodiscard]] inline FrameLayout layoutOf(const FrameSpec& spec) noexcept {
  return frameLayout(spec.datatype, spec.layout, spec.elementCount, spec.poolBytes);
}

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

/// The groups of a frame that passed checkFrame().
class GroupDecoder {
 public:
  /// `extraBytes` is what the header says.
  GroupDecoder(const TileCodec& codec, const FrameSpec& spec, std::uint64_t extraBytes,
               const FrameParts& parts)
      : codec_(codec),
        format_{spec.datatype, spec.layout},
        layout_(layoutOf(spec)),
        extraBytes_(extraBytes),
        frame_(parts.staticPart.data()),
        extra_(parts.staticPart.subspan(layout_.poolAt, layout_.poolBytes), parts.dynamicPart) {}

  /// Decodes the tiles of a group in their order: the elements of tile `i` of it to `sink.room(i)`,
  /// and once they are there `sink.take(i)` is called.
  template <typename Sink>
  [[nodiscard]] DecodeStatus decodeGroup(std::uint64_t group, const Sink& sink) {
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
      const TileSource source = {recordOf(group * kGroupTiles + i), block, escapes};
      if (!codec_.decode(format_, descriptor, source, sink.room(i))) {
        return DecodeStatus::kBadEscapeCount;
      }
      sink.take(i);
      if (block == nullptr) continue;
      block += blockBytesOf(descriptor, format_.element(), format_.layout);
      escapes += escapesOf(descriptor);
    }
    return DecodeStatus::kOk;
  }

  /// The elements behind the last tile.
  [[nodiscard]] std::span<const std::byte> tail() const {
    return {frame_ + layout_.tailAt, layout_.tailBytes};
  }

 private:
  /// The largest region of a group: a tile takes either a raw rest or at most as many bytes of
  /// escapes.
  static constexpr std::uint32_t kMaxRegionBytes = kGroupTiles * kMaxBlockBytes;

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

  [[nodiscard]] const std::byte* recordOf(std::uint64_t tile) const {
    return frame_ + layout_.tilesAt + layout_.recordBytes * tile;
  }

  const TileCodec& codec_;
  TileFormat format_;
  FrameLayout layout_;
  std::uint64_t extraBytes_;
  const std::byte* frame_;
  ExtraView extra_;

  // Of the group at hand.
  std::array<std::uint32_t, kGroupTiles> descriptors_{};
  std::uint64_t tileCount_ = 0;
  std::uint64_t blockBytes_ = 0;
  std::uint64_t escapeBytes_ = 0;
};

}  // namespace zipccl::codec
