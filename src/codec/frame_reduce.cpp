// SPDX-License-Identifier: Apache-2.0
//
// Decoding frames and adding them up, a group after the other: of each addend in its order a tile
// is decoded and added while it is in the cache, and so are the group's sums. The arithmetic is
// that of scaled_sum.hpp.

#include <algorithm>
#include <array>

#include "codec/checksum.hpp"
#include "codec/frame.hpp"
#include "codec/group_decode.hpp"
#include "codec/thread_pool.hpp"

namespace zipccl::codec {
namespace {

constexpr std::size_t kGroupElements = kGroupTiles * kTileElements;

/// A tile at a time.
struct alignas(64) TileBuffer {
  std::array<std::byte, sizeof(float) * kTileElements> bytes;
};

/// Adds a tile to the sums of its group once it is decoded.
struct AddingSink {
  const TileCodec& codec;
  const ScaledAddend& how;
  TileBuffer& tile;
  std::span<float> sums;  ///< of the group

  [[nodiscard]] std::byte* room(std::uint64_t /*i*/) const { return tile.bytes.data(); }
  void take(std::uint64_t i) const {
    codec.addScaled(how, tile.bytes.data(), sums.subspan(kTileElements * i, kTileElements));
  }
};

/// Adds a tile to a checksum once it is decoded.
struct ChecksumSink {
  TileBuffer& tile;
  std::uint64_t tileBytes;
  std::uint64_t firstByte;  ///< of the group
  std::uint64_t& checksum;

  [[nodiscard]] std::byte* room(std::uint64_t /*i*/) const { return tile.bytes.data(); }
  void take(std::uint64_t i) const {
    checksum += checksumOfPart(std::span(tile.bytes).first(tileBytes), firstByte + tileBytes * i);
  }
};

/// One call of decodeReduce.
class FrameReducer {
 public:
  FrameReducer(const TileCodec& codec, Datatype datatype, std::uint64_t elementCount,
               std::span<const Addend> addends, float factor, std::span<std::byte> output)
      : codec_(codec),
        datatype_(datatype),
        elementCount_(elementCount),
        addends_(addends),
        factor_(factor),
        output_(output) {}

  /// The checks that come before all sums. A checksum is known when its frame is decoded, which is
  /// when the sums are written, so a frame that has one is decoded twice.
  [[nodiscard]] ReduceResult checkAddends() const {
    for (std::size_t i = 0; i < addends_.size(); ++i) {
      if (const DecodeStatus status = check(addends_[i]); status != DecodeStatus::kOk) {
        return {status, i};
      }
    }
    return {};
  }

  [[nodiscard]] ReduceResult reduce(CodecThreads* threads) {
    const std::uint64_t chunkCount = chunkCountOf(groupCount_);
    ReduceResult result;
    if (threads == nullptr || threads->count() == 1 || chunkCount < 2 ||
        !reduceBy(threads->pool(), chunkCount, result)) {
      result = reduceGroups(0, groupCount_);
    }
    if (result.status == DecodeStatus::kOk) reduceTail();
    return result;
  }

 private:
  [[nodiscard]] DecodeStatus check(const Addend& addend) const {
    if (addend.elements != nullptr) {
      return output_.size() < elementBytes_ * elementCount_ ? DecodeStatus::kOutputTooSmall
                                                            : DecodeStatus::kOk;
    }
    FrameHeader header;
    const DecodeStatus status = checkFrame(addend.spec, addend.frame, output_.size(), header);
    if (status != DecodeStatus::kOk) return status;
    if (header.spec.datatype != datatype_ || header.spec.elementCount != elementCount_) {
      return DecodeStatus::kSpecMismatch;
    }
    return header.spec.checksum ? checkChecksum(header, addend.frame) : DecodeStatus::kOk;
  }

  [[nodiscard]] DecodeStatus checkChecksum(const FrameHeader& header,
                                           const FrameParts& parts) const {
    TileBuffer tile;
    GroupDecoder groups(codec_, header.spec, header.extraBytes, parts);
    std::uint64_t checksum = checksumOfKind(datatype_, elementCount_);
    for (std::uint64_t group = 0; group < groupCount_; ++group) {
      const std::uint64_t firstByte = kGroupElements * elementBytes_ * group;
      const DecodeStatus status = groups.decodeGroup(
          group, ChecksumSink{tile, kTileElements * elementBytes_, firstByte, checksum});
      if (status != DecodeStatus::kOk) return status;
    }
    checksum += checksumOfPart(groups.tail(), kTileElements * elementBytes_ * tileCount_);
    return checksum == header.checksum ? DecodeStatus::kOk : DecodeStatus::kChecksumMismatch;
  }

  [[nodiscard]] bool reduceBy(CodecThreads::Pool& pool, std::uint64_t chunkCount,
                              ReduceResult& result) {
    ChunkDealer dealer(groupCount_);
    FirstFault<ReduceResult> fault;
    const bool hasRun = pool.tryRun(chunkCount, [&](unsigned /*worker*/) {
      for (ChunkDealer::Chunk chunk; dealer.next(chunk) && !fault.isBefore(chunk.index);) {
        const ReduceResult found = reduceGroups(chunk.firstGroup, chunk.endGroup);
        if (found.status != DecodeStatus::kOk) fault.add(chunk.index, found);
      }
    });
    result = fault.get();
    return hasRun;
  }

  [[nodiscard]] ReduceResult reduceGroups(std::uint64_t first, std::uint64_t end) const {
    alignas(64) std::array<float, kGroupElements> room;
    for (std::uint64_t group = first; group < end; ++group) {
      const std::uint64_t tiles =
          std::min<std::uint64_t>(kGroupTiles, tileCount_ - kGroupTiles * group);
      const std::span<float> sums = std::span(room).first(kTileElements * tiles);
      const std::uint64_t at = kGroupElements * elementBytes_ * group;
      for (std::size_t i = 0; i < addends_.size(); ++i) {
        const DecodeStatus status = addGroup(i, group, at, sums);
        if (status != DecodeStatus::kOk) return {status, i};
      }
      codec_.roundSums(datatype_, sums, output_.data() + at);
    }
    return {};
  }

  [[nodiscard]] DecodeStatus addGroup(std::size_t i, std::uint64_t group, std::uint64_t at,
                                      std::span<float> sums) const {
    const Addend& addend = addends_[i];
    const ScaledAddend how = howOf(i);
    if (addend.elements != nullptr) {
      codec_.addScaled(how, static_cast<const std::byte*>(addend.elements) + at, sums);
      return DecodeStatus::kOk;
    }
    TileBuffer tile;
    // Its header was checked; to keep what it said would take memory for any number of addends.
    GroupDecoder groups(codec_, addend.spec, extraBytesOf(addend), addend.frame);
    return groups.decodeGroup(group, AddingSink{codec_, how, tile, sums});
  }

  void reduceTail() const {
    std::array<float, kTileElements> room;
    const std::span<float> sums = std::span(room).first(elementCount_ % kTileElements);
    const std::uint64_t at = kTileElements * elementBytes_ * tileCount_;
    for (std::size_t i = 0; i < addends_.size(); ++i) {
      const Addend& addend = addends_[i];
      const std::byte* const tail =
          addend.elements != nullptr
              ? static_cast<const std::byte*>(addend.elements) + at
              : addend.frame.staticPart.data() + layoutOf(addend.spec).tailAt;
      codec_.addScaled(howOf(i), tail, sums);
    }
    codec_.roundSums(datatype_, sums, output_.data() + at);
  }

  [[nodiscard]] ScaledAddend howOf(std::size_t i) const { return {datatype_, factor_, i == 0}; }

  /// What the header said, within what there is even if it changed meanwhile.
  [[nodiscard]] static std::uint64_t extraBytesOf(const Addend& addend) {
    const auto header = loadWord<HeaderBytes>(addend.frame.staticPart.data());
    return std::min<std::uint64_t>(header.extraBytes,
                                   addend.spec.poolBytes + addend.frame.dynamicPart.size());
  }

  const TileCodec& codec_;
  Datatype datatype_;
  std::uint64_t elementCount_;
  std::span<const Addend> addends_;
  float factor_;
  std::span<std::byte> output_;
  std::uint64_t elementBytes_ = bytesPerElement(datatype_);
  std::uint64_t tileCount_ = elementCount_ / kTileElements;
  std::uint64_t groupCount_ = (tileCount_ + kGroupTiles - 1) / kGroupTiles;
};

}  // namespace

ReduceResult decodeReduceWith(const TileCodec& codec, Datatype datatype, std::uint64_t elementCount,
                              std::span<const Addend> addends, float factor,
                              std::span<std::byte> output, CodecThreads* threads) noexcept {
  if (addends.empty()) return {};
  FrameReducer reducer(codec, datatype, elementCount, addends, factor, output);
  if (const ReduceResult bad = reducer.checkAddends(); bad.status != DecodeStatus::kOk) return bad;
  return reducer.reduce(threads);
}

ReduceResult decodeReduce(Datatype datatype, std::uint64_t elementCount,
                          std::span<const Addend> addends, float factor,
                          std::span<std::byte> output, CodecThreads* threads) noexcept {
  return decodeReduceWith(defaultTileCodec(), datatype, elementCount, addends, factor, output,
                          threads);
}

}  // namespace zipccl::codec
