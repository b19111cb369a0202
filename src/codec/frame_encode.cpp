// SPDX-License-Identifier: Apache-2.0
//
// Encoding a frame (docs/format.md sections 2 and 7): tile after tile into the static part, group
// after group into extra space. Group regions stand in ascending order, and ignored bytes are zero,
// so that the bytes are the same by any number of threads.

#include <algorithm>
#include <array>
#include <cstring>
#include <mutex>

#include "base/error.hpp"
#include "codec/bytes.hpp"
#include "codec/checksum.hpp"
#include "codec/frame.hpp"
#include "codec/header.hpp"
#include "codec/spec.hpp"
#include "codec/thread_pool.hpp"

namespace zipccl::codec {
namespace {

/// Extra space while it grows. What does not fit is counted and not written, so that the caller
/// learns how much was needed.
class ExtraSpace {
 public:
  /// `room` begins at offset `roomAt` of extra space, of which `usedBytes` are in use.
  explicit ExtraSpace(std::span<std::byte> room, std::uint64_t roomAt = 0,
                      std::uint64_t usedBytes = 0)
      : room_(room), roomAt_(roomAt), usedBytes_(usedBytes) {}

  [[nodiscard]] std::uint64_t usedBytes() const { return usedBytes_; }

  void append(std::span<const std::byte> bytes) {
    if (!bytes.empty() && fits(bytes.size())) {
      std::memcpy(room_.data() + (usedBytes_ - roomAt_), bytes.data(), bytes.size());
    }
    usedBytes_ += bytes.size();
  }

  void padTo(std::uint64_t bytes) {
    if (usedBytes_ >= bytes) return;
    const std::uint64_t padding = bytes - usedBytes_;
    if (fits(padding)) std::memset(room_.data() + (usedBytes_ - roomAt_), 0, padding);
    usedBytes_ += padding;
  }

 private:
  [[nodiscard]] bool fits(std::uint64_t bytes) const {
    const std::uint64_t usedRoom = usedBytes_ - roomAt_;
    return usedRoom <= room_.size() && bytes <= room_.size() - usedRoom;
  }

  std::span<std::byte> room_;
  std::uint64_t roomAt_;
  std::uint64_t usedBytes_;
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

/// One thread's share of a call of encode: the static part is known to fit.
class GroupEncoder {
 public:
  GroupEncoder(const TileCodec& codec, const FrameSpec& spec, const FrameLayout& layout,
               std::span<const std::byte> source, std::byte* frame)
      : codec_(codec),
        spec_(spec),
        format_{spec.datatype, spec.layout},
        layout_(layout),
        source_(source),
        frame_(frame) {}

  /// Encodes groups and appends what they put into extra space to `extra`.
  void encodeGroups(std::uint64_t first, std::uint64_t end, ExtraSpace& extra) {
    for (std::uint64_t group = first; group < end; ++group) encodeGroup(group, extra);
  }

  /// What was made of the groups so far: all that is counted by tile.
  [[nodiscard]] const EncodeResult& counts() const { return counts_; }
  /// What their elements add to the checksum, if the frame has one.
  [[nodiscard]] std::uint64_t checksum() const { return checksum_; }

 private:
  void encodeGroup(std::uint64_t group, ExtraSpace& extra) {
    groupExtra_.clear();
    const std::uint64_t first = group * kGroupTiles;
    const std::uint64_t end = std::min(first + kGroupTiles, layout_.tileCount);
    for (std::uint64_t tile = first; tile < end; ++tile) encodeTile(tile);
    storeWord(frame_ + layout_.groupsAt + 8 * group, groupExtra_.appendTo(extra));
    if (!spec_.checksum) return;
    checksum_ += checksumOfPart(source_.subspan(tileBytes_ * first, tileBytes_ * (end - first)),
                                tileBytes_ * first);
  }

  void encodeTile(std::uint64_t tile) {
    const TileSink sink = {frame_ + layout_.tilesAt + layout_.recordBytes * tile,
                           groupExtra_.nextBlock(), groupExtra_.nextEscapes()};
    const std::uint32_t descriptor =
        codec_.encode(format_, source_.data() + tileBytes_ * tile, sink);
    storeWord(frame_ + layout_.descriptorsAt + 4 * tile, descriptor);
    groupExtra_.add(descriptor, format_);
    count(descriptor, counts_);
  }

  const TileCodec& codec_;
  const FrameSpec& spec_;
  TileFormat format_;
  const FrameLayout& layout_;
  std::span<const std::byte> source_;
  std::byte* frame_;
  std::uint64_t tileBytes_ = kTileElements * bytesPerElement(format_.datatype);
  GroupExtra groupExtra_;
  EncodeResult counts_;
  std::uint64_t checksum_ = 0;
};

/// One call of encode: the static part is known to fit.
class FrameEncoder {
 public:
  FrameEncoder(const TileCodec& codec, const FrameSpec& spec, const FrameLayout& layout,
               std::span<const std::byte> source, std::span<std::byte> frame)
      : codec_(codec),
        spec_(spec),
        layout_(layout),
        source_(source),
        frame_(frame.data()),
        room_(frame.subspan(layout.poolAt)) {}

  EncodeResult encodeContent(CodecThreads* threads) {
    const std::uint64_t chunkCount = chunkCountOf(layout_.groupCount);
    if (threads == nullptr || threads->count() == 1 || chunkCount < 2 ||
        !encodeBy(threads->pool(), chunkCount)) {
      encodeAlone();
    }
    copyTail();
    clearGaps();
    ExtraSpace extra(room_, 0, extraBytes_);
    extra.padTo(layout_.poolBytes);
    result_.extraBytes = extraBytes_;
    result_.staticBytes = layout_.staticBytes;
    result_.dynamicBytes = extra.usedBytes() - layout_.poolBytes;
    return result_;
  }

  /// Once the content is encoded; 0 without a checksum.
  [[nodiscard]] std::uint64_t checksum() const { return checksum_; }

 private:
  void encodeAlone() {
    GroupEncoder encoder(codec_, spec_, layout_, source_, frame_);
    ExtraSpace extra(room_);
    encoder.encodeGroups(0, layout_.groupCount, extra);
    extraBytes_ = extra.usedBytes();
    add(encoder);
  }

  /// Each worker encodes a chunk of groups, with their extra space in memory of its own; when its
  /// turn has come it learns where that belongs, and copies it while the next has its turn.
  bool encodeBy(CodecThreads::Pool& pool, std::uint64_t chunkCount) {
    ChunkDealer dealer(layout_.groupCount);
    ChunkTurns turns;
    std::mutex resultMutex;
    return pool.tryRun(chunkCount, [&](unsigned worker) {
      GroupEncoder encoder(codec_, spec_, layout_, source_, frame_);
      for (ChunkDealer::Chunk chunk; dealer.next(chunk);) {
        // Offsets begin above 0, which says that a group has no region.
        ExtraSpace extra(pool.chunkExtra(worker), kExtraAlignment, kExtraAlignment);
        encoder.encodeGroups(chunk.firstGroup, chunk.endGroup, extra);
        const std::uint64_t chunkBytes = extra.usedBytes() - kExtraAlignment;
        turns.waitFor(chunk.index);
        const std::uint64_t offset = extraBytes_;
        extraBytes_ += chunkBytes;
        turns.pass();
        ExtraSpace(room_, 0, offset).append(pool.chunkExtra(worker).first(chunkBytes));
        moveOffsets(chunk, offset);
      }
      const std::scoped_lock lock(resultMutex);
      add(encoder);
    });
  }

  /// From offsets inside a chunk to those inside the frame's extra space.
  void moveOffsets(const ChunkDealer::Chunk& chunk, std::uint64_t chunkOffset) {
    for (std::uint64_t group = chunk.firstGroup; group < chunk.endGroup; ++group) {
      std::byte* const at = frame_ + layout_.groupsAt + 8 * group;
      const auto offset = loadWord<std::uint64_t>(at);
      if (offset != 0) storeWord(at, offset - kExtraAlignment + chunkOffset);
    }
  }

  void add(const GroupEncoder& encoder) {
    const EncodeResult& counts = encoder.counts();
    result_.tiles += counts.tiles;
    result_.rawTiles += counts.rawTiles;
    result_.emptyTiles += counts.emptyTiles;
    result_.zeroCodeTiles += counts.zeroCodeTiles;
    result_.lowTiles += counts.lowTiles;
    result_.escapes += counts.escapes;
    checksum_ += encoder.checksum();
  }

  void copyTail() {
    const std::span<const std::byte> tail = source_.last(layout_.tailBytes);
    if (!tail.empty()) std::memcpy(frame_ + layout_.tailAt, tail.data(), tail.size());
    if (!spec_.checksum) return;
    checksum_ += checksumOfKind(spec_.datatype, spec_.elementCount) +
                 checksumOfPart(tail, source_.size() - tail.size());
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
  const FrameSpec& spec_;
  const FrameLayout& layout_;
  std::span<const std::byte> source_;
  std::byte* frame_;
  std::span<std::byte> room_;     ///< of extra space
  std::uint64_t extraBytes_ = 0;  ///< whose turn it is writes it
  EncodeResult result_;
  std::uint64_t checksum_ = 0;
};

}  // namespace

EncodeResult encodeWith(const TileCodec& codec, const FrameSpec& spec, const void* source,
                        std::span<std::byte> frame, const ApplicationWords& application,
                        CodecThreads* threads) {
  const FrameLayout layout = checkedLayout(spec);
  expects(source != nullptr || spec.elementCount == 0, "source is null");
  expects(frame.size() >= layout.staticBytes, "the static part alone needs ", layout.staticBytes,
          " bytes, but the buffer has ", frame.size());
  const std::span elements(static_cast<const std::byte*>(source),
                           spec.elementCount * bytesPerElement(spec.datatype));
  FrameEncoder encoder(codec, spec, layout, elements, frame);
  const EncodeResult result = encoder.encodeContent(threads);
  expects(frame.size() >= result.frameBytes(), "the frame needs ", result.frameBytes(),
          " bytes, but the buffer has ", frame.size());
  writeHeader(spec, result.extraBytes, encoder.checksum(), application, frame.data());
  return result;
}

EncodeResult encode(const FrameSpec& spec, const void* source, std::span<std::byte> frame,
                    const ApplicationWords& application, CodecThreads* threads) {
  return encodeWith(defaultTileCodec(), spec, source, frame, application, threads);
}

}  // namespace zipccl::codec
