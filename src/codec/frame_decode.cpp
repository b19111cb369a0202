// SPDX-License-Identifier: Apache-2.0
//
// Decoding a frame (docs/format.md section 9): the checks of its header and parts, then its groups
// into the output, by one thread or several. Nothing is written outside the output.

#include <algorithm>
#include <atomic>

#include "codec/checksum.hpp"
#include "codec/frame.hpp"
#include "codec/group_decode.hpp"
#include "codec/thread_pool.hpp"

namespace zipccl::codec {
namespace {

bool agree(const FrameSpec& frame, const FrameSpec& expected) noexcept {
  return frame.datatype == expected.datatype && frame.layout == expected.layout &&
         frame.elementCount == expected.elementCount && frame.poolBytes == expected.poolBytes;
}

/// Tiles to their places in the output.
struct OutputSink {
  std::byte* elements;  ///< of the group
  std::uint64_t tileBytes;

  [[nodiscard]] std::byte* room(std::uint64_t i) const { return elements + tileBytes * i; }
  void take(std::uint64_t /*i*/) const {}
};

/// One call of decode of a frame that passed checkFrame().
class FrameDecoder {
 public:
  FrameDecoder(const TileCodec& codec, const FrameHeader& header, const FrameParts& parts,
               std::span<std::byte> elements)
      : codec_(codec),
        header_(header),
        parts_(parts),
        elements_(elements),
        layout_(layoutOf(header.spec)) {}

  [[nodiscard]] DecodeStatus decodeContent(CodecThreads* threads) {
    const std::uint64_t chunkCount = chunkCountOf(layout_.groupCount);
    DecodeStatus status = DecodeStatus::kOk;
    if (threads == nullptr || threads->count() == 1 || chunkCount < 2 ||
        !decodeBy(threads->pool(), chunkCount, status)) {
      GroupDecoder groups = groupDecoder();
      status = decodeGroups(groups, 0, layout_.groupCount);
    }
    if (status != DecodeStatus::kOk) return status;
    copyTail();
    return isChecksumRight() ? DecodeStatus::kOk : DecodeStatus::kChecksumMismatch;
  }

 private:
  [[nodiscard]] GroupDecoder groupDecoder() const {
    return {codec_, header_.spec, header_.extraBytes, parts_};
  }

  [[nodiscard]] DecodeStatus decodeGroups(GroupDecoder& groups, std::uint64_t first,
                                          std::uint64_t end) {
    std::uint64_t checksum = 0;
    for (std::uint64_t group = first; group < end; ++group) {
      const std::uint64_t at = kGroupTiles * tileBytes_ * group;
      const DecodeStatus status =
          groups.decodeGroup(group, OutputSink{elements_.data() + at, tileBytes_});
      if (status != DecodeStatus::kOk) return status;
      if (!header_.spec.checksum) continue;
      const std::uint64_t bytes = std::min(kGroupTiles * tileBytes_, tilesBytes() - at);
      checksum += checksumOfPart(elements_.subspan(at, bytes), at);
    }
    checksum_.fetch_add(checksum, std::memory_order_relaxed);
    return DecodeStatus::kOk;
  }

  [[nodiscard]] bool decodeBy(CodecThreads::Pool& pool, std::uint64_t chunkCount,
                              DecodeStatus& status) {
    ChunkDealer dealer(layout_.groupCount);
    FirstFault<DecodeStatus> fault;
    const bool hasRun = pool.tryRun(chunkCount, [&](unsigned /*worker*/) {
      GroupDecoder groups = groupDecoder();
      for (ChunkDealer::Chunk chunk; dealer.next(chunk) && !fault.isBefore(chunk.index);) {
        const DecodeStatus found = decodeGroups(groups, chunk.firstGroup, chunk.endGroup);
        if (found != DecodeStatus::kOk) fault.add(chunk.index, found);
      }
    });
    status = fault.get();
    return hasRun;
  }

  [[nodiscard]] std::uint64_t tilesBytes() const { return tileBytes_ * layout_.tileCount; }

  void copyTail() const {
    const std::span<const std::byte> tail = groupDecoder().tail();
    std::copy(tail.begin(), tail.end(), elements_.last(tail.size()).begin());
  }

  [[nodiscard]] bool isChecksumRight() const {
    const FrameSpec& spec = header_.spec;
    if (!spec.checksum) return true;
    return header_.checksum == checksum_.load(std::memory_order_relaxed) +
                                   checksumOfKind(spec.datatype, spec.elementCount) +
                                   checksumOfPart(elements_.subspan(tilesBytes()), tilesBytes());
  }

  const TileCodec& codec_;
  const FrameHeader& header_;
  const FrameParts& parts_;
  std::span<std::byte> elements_;
  FrameLayout layout_;
  std::uint64_t tileBytes_ = kTileElements * bytesPerElement(header_.spec.datatype);
  std::atomic<std::uint64_t> checksum_{0};  ///< of the tiles decoded
};

}  // namespace

DecodeStatus checkFrame(const FrameSpec& expected, const FrameParts& parts,
                        std::uint64_t outputBytes, FrameHeader& header) noexcept {
  FrameHeader read;
  if (const DecodeStatus status = readHeader(parts.staticPart, read); status != DecodeStatus::kOk) {
    return status;
  }
  if (!agree(read.spec, expected)) return DecodeStatus::kSpecMismatch;
  if (parts.staticPart.size() < read.staticBytes || parts.dynamicPart.size() < read.dynamicBytes) {
    return DecodeStatus::kTruncated;
  }
  if (outputBytes < read.spec.elementCount * bytesPerElement(read.spec.datatype)) {
    return DecodeStatus::kOutputTooSmall;
  }
  header = read;
  return DecodeStatus::kOk;
}

DecodeStatus decodeWith(const TileCodec& codec, const FrameSpec& expected,
                        std::span<const std::byte> staticPart,
                        std::span<const std::byte> dynamicPart, std::span<std::byte> output,
                        CodecThreads* threads) noexcept {
  const FrameParts parts = {staticPart, dynamicPart};
  FrameHeader header;
  const DecodeStatus status = checkFrame(expected, parts, output.size(), header);
  if (status != DecodeStatus::kOk) return status;
  const std::span<std::byte> elements =
      output.first(header.spec.elementCount * bytesPerElement(header.spec.datatype));
  return FrameDecoder(codec, header, parts, elements).decodeContent(threads);
}

DecodeStatus decodeFrameWith(const TileCodec& codec, std::span<const std::byte> frame,
                             std::span<std::byte> output, CodecThreads* threads) noexcept {
  FrameHeader header;
  if (const DecodeStatus status = readHeader(frame, header); status != DecodeStatus::kOk) {
    return status;
  }
  if (frame.size() < header.staticBytes) return DecodeStatus::kTruncated;
  return decodeWith(codec, header.spec, frame.first(header.staticBytes),
                    frame.subspan(header.staticBytes), output, threads);
}

DecodeStatus decode(const FrameSpec& expected, std::span<const std::byte> staticPart,
                    std::span<const std::byte> dynamicPart, std::span<std::byte> output,
                    CodecThreads* threads) noexcept {
  return decodeWith(defaultTileCodec(), expected, staticPart, dynamicPart, output, threads);
}

DecodeStatus decodeFrame(std::span<const std::byte> frame, std::span<std::byte> output,
                         CodecThreads* threads) noexcept {
  return decodeFrameWith(defaultTileCodec(), frame, output, threads);
}

}  // namespace zipccl::codec
