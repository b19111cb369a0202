// SPDX-License-Identifier: Apache-2.0
//
// Bytes that are no frame: every truncation, a hundred thousand mutations for each implementation
// (a million in the long form), and every status. Inputs end where their allocations end and
// outputs stand between guards, so that a sanitizer sees each byte that is read or written out of
// bounds.

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "codec/bytes.hpp"
#include "codec/codec_testing.hpp"
#include "codec/layout.hpp"
#include "codec/mutations.hpp"
#include "golden/golden_cases.hpp"
#include "support/guarded_buffer.hpp"
#include "support/sanitized.hpp"
#include "support/seeded_test.hpp"

namespace zipccl::codec::testing {
namespace {

using golden::nameOf;
using zipccl::testing::ExactBuffer;
using zipccl::testing::GuardedBuffer;
using zipccl::testing::kIsSanitized;

constexpr std::size_t kStatusCount = static_cast<std::size_t>(DecodeStatus::kChecksumMismatch) + 1;

class BadBytes : public zipccl::testing::SeededTest {
 protected:
  static DecodeStatus decodeParts(const FrameSpec& spec, std::span<const std::byte> staticPart,
                                  std::span<const std::byte> dynamicPart,
                                  std::span<std::byte> output) {
    const ExactBuffer exactStatic(staticPart);
    const ExactBuffer exactDynamic(dynamicPart);
    return decode(spec, exactStatic.bytes(), exactDynamic.bytes(), output);
  }
};

TEST_F(BadBytes, EveryTruncation) {
  for (const golden::Frame& good : golden::frames(random_)) {
    SCOPED_TRACE(good.name);
    GuardedBuffer output(good.elements.size());
    const std::span<const std::byte> frame(good.frame);
    const std::uint64_t split = staticBytes(good.spec);
    for (std::size_t bytes = 0; bytes < frame.size(); ++bytes) {
      const ExactBuffer cut(frame.first(bytes));
      ASSERT_EQ(decodeFrame(cut.bytes(), output.bytes()), DecodeStatus::kTruncated) << bytes;
      const DecodeStatus status =
          bytes < split
              ? decodeParts(good.spec, frame.first(bytes), frame.subspan(split), output.bytes())
              : decodeParts(good.spec, frame.first(split), frame.subspan(split, bytes - split),
                            output.bytes());
      ASSERT_EQ(status, DecodeStatus::kTruncated) << bytes;
    }
    EXPECT_TRUE(output.isIntact());
  }
}

TEST_F(BadBytes, BytesBehindThePartsDoNotMatter) {
  for (const golden::Frame& good : golden::frames(random_)) {
    SCOPED_TRACE(good.name);
    const std::uint64_t split = staticBytes(good.spec);
    Bytes longStatic(good.frame.begin(), good.frame.begin() + static_cast<std::ptrdiff_t>(split));
    Bytes longDynamic(good.frame.begin() + static_cast<std::ptrdiff_t>(split), good.frame.end());
    longStatic.insert(longStatic.end(), 130, std::byte{0xEE});
    longDynamic.insert(longDynamic.end(), 50, std::byte{0xEE});
    Bytes output(good.elements.size());
    EXPECT_EQ(decodeParts(good.spec, longStatic, longDynamic, output), DecodeStatus::kOk);
    EXPECT_EQ(output, good.elements);
  }
}

TEST_F(BadBytes, IgnoredBytesDoNotMatter) {
  for (const golden::Frame& good : golden::frames(random_)) {
    SCOPED_TRACE(good.name);
    const FrameLayout layout = frameLayout(good.spec.datatype, good.spec.layout,
                                           good.spec.elementCount, good.spec.poolBytes);
    Bytes frame = good.frame;
    const auto fill = [&](std::uint64_t from, std::uint64_t to) {
      for (std::uint64_t at = from; at < to; ++at) frame[at] = static_cast<std::byte>(random_());
    };
    FrameHeader header;
    ASSERT_EQ(readHeader(frame, header), DecodeStatus::kOk);
    fill(layout.descriptorsAt + 4 * layout.tileCount, layout.groupsAt);
    fill(layout.groupsAt + 8 * layout.groupCount, layout.tilesAt);
    fill(layout.tailAt + layout.tailBytes, layout.poolAt);
    fill(layout.poolAt + std::min(header.extraBytes, layout.poolBytes), layout.staticBytes);
    for (std::uint64_t tile = 0; tile < layout.tileCount; ++tile) {
      const auto descriptor =
          loadWord<std::uint32_t>(frame.data() + layout.descriptorsAt + 4 * tile);
      const std::uint64_t record = layout.tilesAt + layout.recordBytes * tile;
      const std::uint64_t upperBytes = elementFormat(good.spec.datatype).upperRecordBytes();
      if (kindOf(descriptor) == TileKind::kEmpty) fill(record, record + upperBytes);
      if (!hasLow(descriptor)) fill(record + upperBytes, record + layout.recordBytes);
    }
    Bytes output(good.elements.size());
    EXPECT_EQ(decodeFrame(frame, output), DecodeStatus::kOk);
    EXPECT_EQ(output, good.elements);
  }
}

class Mutations : public zipccl::testing::SeededTest {};

TEST_F(Mutations, GiveAStatusAndStayInBounds) {
  for (const TileCodec* codec : tileCodecs()) {
    expectStatusesOfMutations(*codec, random_,
                              zipccl::testing::repeats(kIsSanitized ? 10'000 : 100'000, 1'000'000));
    if (HasFailure()) return;
  }
}

TEST_F(BadBytes, EveryStatusIsReached) {
  std::set<DecodeStatus> reached;
  const auto frames = golden::frames(random_);
  for (const golden::Fault& fault : golden::faults(random_)) {
    const ExactBuffer exact(fault.frame);
    GuardedBuffer output(4 * kTileElements);
    EXPECT_EQ(nameOf(decodeFrame(exact.bytes(), output.bytes())), nameOf(fault.status))
        << fault.name;
    EXPECT_TRUE(output.isIntact());
    reached.insert(fault.status);
  }
  for (const golden::Frame& good : frames) {
    GuardedBuffer output(good.elements.size());
    const std::span<std::byte> bytes = output.bytes();
    EXPECT_EQ(decodeFrame(good.frame, bytes), DecodeStatus::kOk);
    reached.insert(DecodeStatus::kOk);
    if (bytes.empty()) continue;
    EXPECT_EQ(decodeFrame(good.frame, bytes.first(bytes.size() - 1)),
              DecodeStatus::kOutputTooSmall);
    EXPECT_EQ(decodeFrame(good.frame, {}), DecodeStatus::kOutputTooSmall);
    reached.insert(DecodeStatus::kOutputTooSmall);
    FrameSpec other = good.spec;
    other.elementCount += 1;
    EXPECT_EQ(decode(other, good.frame, {}, bytes), DecodeStatus::kSpecMismatch);
    reached.insert(DecodeStatus::kSpecMismatch);
    EXPECT_TRUE(output.isIntact());
  }
  EXPECT_EQ(reached.size(), kStatusCount);
}

TEST_F(BadBytes, EveryPartOfTheSpecIsCompared) {
  for (const Format& format : kFormats) {
    SCOPED_TRACE(format.name);
    const FrameSpec spec = specOf(format, 2048);
    const Bytes elements = elementsOf(format.datatype, mixedWords(format.datatype, random_, 2048));
    const Encoded encoded = encodeChecked(spec, elements);
    const auto statusFor = [&](const FrameSpec& expected, std::uint64_t outputBytes) {
      const std::span frame(encoded.frame);
      Bytes output(outputBytes);
      return decodeParts(expected, frame.first(encoded.result.staticBytes),
                         frame.subspan(encoded.result.staticBytes), output);
    };
    FrameSpec other = spec;
    other.checksum = true;
    EXPECT_EQ(statusFor(other, elements.size()), DecodeStatus::kOk);

    for (int part = 0; part < 4; ++part) {
      other = spec;
      const bool isFloat16 = spec.datatype == Datatype::kFloat16;
      if (part == 0) other.datatype = isFloat16 ? Datatype::kBfloat16 : Datatype::kFloat16;
      if (part == 1) other.layout = spec.layout == Layout::kWide ? Layout::kNarrow : Layout::kWide;
      if (part == 2) other.elementCount += random_.chance(0.5) ? 1 : -1ULL;
      if (part == 3) other.poolBytes += 128;
      EXPECT_EQ(statusFor(other, elements.size()), DecodeStatus::kSpecMismatch) << part;
      // It comes before what is said of the buffers.
      EXPECT_EQ(statusFor(other, 0), DecodeStatus::kSpecMismatch) << part;
    }
  }
}

TEST_F(BadBytes, PartsThatAreMissingComeBeforeTheOutput) {
  const FrameSpec spec = specOf(kBfloat16Format, 1024);
  const Encoded encoded =
      encodeChecked(spec, elementsOf(spec.datatype, wordsWithEscapes(spec.datatype, random_, 300)));
  const std::span frame(encoded.frame);
  ASSERT_GT(encoded.result.dynamicBytes, 0U);
  const auto staticPart = frame.first(encoded.result.staticBytes);
  EXPECT_EQ(decodeParts(spec, staticPart, {}, {}), DecodeStatus::kTruncated);
  EXPECT_EQ(decodeParts(spec, staticPart, frame.subspan(staticPart.size()), {}),
            DecodeStatus::kOutputTooSmall);
}

}  // namespace
}  // namespace zipccl::codec::testing
