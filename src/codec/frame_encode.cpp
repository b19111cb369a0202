// SPDX-License-Identifier: Apache-2.0
//
// Encoding a frame (docs/format.md sections 2 and 7): tile after tile into the static part, group
// after group into extra space. Group regions stand in ascending order, and ignored bytes are zero.

#include <algorithm>
#include <array>
#include <cstring>

#include "base/error.hpp"
#include "codec/bytes.hpp"
#include "codec/checksum.hpp"
#include "codec/frame.hpp"
#include "codec/header.hpp"
#include "codec/spec.hpp"

namespace zipccl::codec {
namespace {

/// Extra space of a contiguous frame while it grows. What does not fit is counted and not written,
/// so that the caller learns how much was needed.
class ExtraSpace {
 public:
  explicit ExtraSpace(std::span<std::byte> room) : room_(room) {}

  [[nodiscard]] std::uint64_t usedBytes() const { return usedBytes_; }

  void append(std::span<const std::byte> bytes) {
    if (!bytes.empty() && fits(bytes.size())) {
      std::memcpy(room_.data() + usedBytes_, bytes.data(), bytes.size());
    }
    usedBytes_ += bytes.size();
  }

  void padTo(std::uint64_t bytes) {
    if (usedBytes_ >= bytes) return;
    const std::uint64_t padding = bytes - usedBytes_;
    if (fits(padding)) std::memset(room_.data() + usedBytes_, 0, padding);
    usedBytes_ += padding;
  }

 private:
  [[nodiscard]] bool fits(std::uint64_t bytes) const {
    return usedBytes_ <= room_.size() && bytes <= room_.size() - usedBytes_;
  }

  std::span<std::byte> room_;
  std::uint64_t usedBytes_ = 0;
};

/// What the tiles of one group put into extra space, in the order of a group's region.
class GroupExtra {
 public:
  void clear() { blockBytes_ = escapeBytes_ = 0; }
  [[nodiscard]] std::byte* nextBlock() { return blocks_.data() + blockBytes_; }
  [[nodiscard]] std::byte* nextEscapes() { return escapes_.data() + escapeBytes_; }

  void add(std::uint32_t descriptor, TileFormat format) {
    blockBytes_ += blockBytesOf(descriptor, format.element(), format.layout);
    escapeBytes_ += escapesOf(descriptor);
  }

  /// Appends the region and returns its offset: 0 when the group needs none.
  std::uint64_t appendTo(ExtraSpace& extra) const {
    if (blockBytes_ + escapeBytes_ == 0) return 0;
    const std::uint64_t offset = extra.usedBytes();
    extra.append(std::span(blocks_).first(blockBytes_));
    extra.append(std::span(escapes_).first(escapeBytes_));
    extra.padTo(alignUp(extra.usedBytes(), kExtraAlignment));
    return offset;
  }

 private:
  std::array<std::byte, kGroupTiles * kMaxBlockBytes> blocks_;
  std::array<std::byte, kGroupTiles * kMaxEscapes> escapes_;
  std::uint32_t blockBytes_ = 0;
  std::uint32_t escapeBytes_ = 0;
};

void count(std::uint32_t descriptor, EncodeResult& result) {
  ++result.tiles;
  result.rawTiles += kindOf(descriptor) == TileKind::kRaw ? 1 : 0;
  result.emptyTiles += kindOf(descriptor) == TileKind::kEmpty ? 1 : 0;
  result.zeroCodeTiles += kindOf(descriptor) == TileKind::kSixAndZero ? 1 : 0;
  result.lowTiles += hasLow(descriptor) ? 1 : 0;
  result.escapes += escapesOf(descriptor);
}

/// One call of encode: the static part is known to fit.
class FrameEncoder {
 public:
  FrameEncoder(const TileCodec& codec, const FrameSpec& spec, const FrameLayout& layout,
               std::span<const std::byte> source, std::span<std::byte> frame)
      : codec_(codec),
        format_{spec.datatype, spec.layout},
        layout_(layout),
        source_(source),
        frame_(frame.data()),
        extra_(frame.subspan(layout.poolAt)) {}

  EncodeResult encodeContent() {
    for (std::uint64_t group = 0; group < layout_.groupCount; ++group) encodeGroup(group);
    copyTail();
    clearGaps();
    result_.extraBytes = extra_.usedBytes();
    extra_.padTo(layout_.poolBytes);
    result_.staticBytes = layout_.staticBytes;
    result_.dynamicBytes = extra_.usedBytes() - layout_.poolBytes;
    return result_;
  }

 private:
  void encodeGroup(std::uint64_t group) {
    groupExtra_.clear();
    const std::uint64_t end = std::min((group + 1) * kGroupTiles, layout_.tileCount);
    for (std::uint64_t tile = group * kGroupTiles; tile < end; ++tile) encodeTile(tile);
    storeWord(frame_ + layout_.groupsAt + 8 * group, groupExtra_.appendTo(extra_));
  }

  void encodeTile(std::uint64_t tile) {
    const std::uint64_t tileBytes = kTileElements * bytesPerElement(format_.datatype);
    const TileSink sink = {frame_ + layout_.tilesAt + layout_.recordBytes * tile,
                           groupExtra_.nextBlock(), groupExtra_.nextEscapes()};
    const std::uint32_t descriptor =
        codec_.encode(format_, source_.data() + tileBytes * tile, sink);
    storeWord(frame_ + layout_.descriptorsAt + 4 * tile, descriptor);
    groupExtra_.add(descriptor, format_);
    count(descriptor, result_);
  }

  void copyTail() {
    if (layout_.tailBytes == 0) return;
    std::memcpy(frame_ + layout_.tailAt, source_.last(layout_.tailBytes).data(), layout_.tailBytes);
  }

  void clearGaps() {
    const auto clear = [this](std::uint64_t from, std::uint64_t to) {
      std::memset(frame_ + from, 0, to - from);
    };
    clear(layout_.descriptorsAt + 4 * layout_.tileCount, layout_.groupsAt);
    clear(layout_.groupsAt + 8 * layout_.groupCount, layout_.tilesAt);
    clear(layout_.tailAt + layout_.tailBytes, layout_.poolAt);
  }

  const TileCodec& codec_;
  TileFormat format_;
  FrameLayout layout_;
  std::span<const std::byte> source_;
  std::byte* frame_;
  ExtraSpace extra_;
  GroupExtra groupExtra_;
  EncodeResult result_;
};

}  // namespace

EncodeResult encodeWith(const TileCodec& codec, const FrameSpec& spec, const void* source,
                        std::span<std::byte> frame, const ApplicationWords& application) {
  const FrameLayout layout = checkedLayout(spec);
  expects(source != nullptr || spec.elementCount == 0, "source is null");
  expects(frame.size() >= layout.staticBytes, "the static part alone needs ", layout.staticBytes,
          " bytes, but the buffer has ", frame.size());
  const std::span elements(static_cast<const std::byte*>(source),
                           spec.elementCount * bytesPerElement(spec.datatype));
  const EncodeResult result = FrameEncoder(codec, spec, layout, elements, frame).encodeContent();
  expects(frame.size() >= result.frameBytes(), "the frame needs ", result.frameBytes(),
          " bytes, but the buffer has ", frame.size());
  writeHeader(spec, result.extraBytes, spec.checksum ? contentChecksum(spec.datatype, elements) : 0,
              application, frame.data());
  return result;
}

EncodeResult encode(const FrameSpec& spec, const void* source, std::span<std::byte> frame,
                    const ApplicationWords& application) {
  return encodeWith(defaultTileCodec(), spec, source, frame, application);
}

}  // namespace zipccl::codec
