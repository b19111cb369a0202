// SPDX-License-Identifier: Apache-2.0
//
// Bytes that are no frame: every truncation, a hundred thousand mutations, and every status. Inputs
// end where their allocations end and outputs stand between guards, so that a sanitizer sees each
// byte that is read or written out of bounds.

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <set>
#include <string>

#include "codec/bytes.hpp"
#include "codec/codec_testing.hpp"
#include "codec/layout.hpp"
#include "golden/golden_cases.hpp"
#include "support/guarded_buffer.hpp"
#include "support/seeded_test.hpp"

namespace zipccl::codec::testing {
namespace {

using golden::nameOf;
using zipccl::testing::ExactBuffer;
using zipccl::testing::GuardedBuffer;

constexpr int kMutations = 100'000;
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

/// Frames of each format, without checksums, and what is done to them.
class Mutations : public BadBytes {
 protected:
  Mutations() {
    for (const Format& format : kFormats) {
      for (const std::uint64_t poolTiles : {0, 1, 3}) {
        // Three tiles, or with the middle pool nine, so two groups.
        const std::uint64_t tiles = poolTiles == 1 ? 9 : 3;
        Words words =
            mixedWords(format.datatype, random_, tiles * kTileElements + random_.below(100));
        fillWords(format.datatype, random_, Content::kGaussian, LowHalves::kRare,
                  std::span(words).first(2 * kTileElements));
        Base base;
        base.spec = specOf(format, words.size());
        base.spec.poolBytes = elementFormat(format.datatype).maxEscapes() * poolTiles;
        base.frame = encodeChecked(base.spec, elementsOf(format.datatype, words)).frame;
        bases_.push_back(std::move(base));
      }
    }
  }

  struct Base {
    FrameSpec spec;
    Bytes frame;
  };

  /// A place in the header, a descriptor or a group offset half the time, else anywhere.
  std::size_t place(const Base& base) {
    if (random_.chance(0.5)) return random_.below(base.frame.size());
    const FrameLayout layout = frameLayout(base.spec.datatype, base.spec.layout,
                                           base.spec.elementCount, base.spec.poolBytes);
    switch (random_.below(3)) {
      case 0:
        return random_.below(kHeaderBytes);
      case 1:
        return layout.descriptorsAt + random_.below(4 * layout.tileCount);
      default:
        return layout.groupsAt + random_.below(8 * layout.groupCount);
    }
  }

  void mutate(const Base& base, Bytes& frame) {
    const std::size_t at = std::min(place(base), frame.size() - 1);
    const std::size_t left = frame.size() - at;
    switch (random_.below(6)) {
      case 0:
        frame[at] ^= static_cast<std::byte>(1U << random_.below(8));
        break;
      case 1:
        frame[at] = static_cast<std::byte>(random_());
        break;
      case 2:
        frame[at] = random_.chance(0.5) ? std::byte{0} : std::byte{0xFF};
        break;
      case 3: {  // a 16-bit number, a little more or less
        if (left < 2) return;
        const auto delta = static_cast<std::uint32_t>(random_.below(5)) - 2;
        const std::uint32_t value = loadWord<std::uint16_t>(frame.data() + at) + delta;
        storeWord(frame.data() + at, static_cast<std::uint16_t>(value));
        break;
      }
      case 4:  // an offset or a size as it might be
        if (left < 8) return;
        storeWord(frame.data() + (at & ~std::size_t{7}), 16 * random_.below(frame.size() / 8));
        break;
      default:  // one field over another
        if (left < 8) return;
        std::copy_n(frame.begin() + static_cast<std::ptrdiff_t>(random_.below(frame.size() - 8)), 8,
                    frame.begin() + static_cast<std::ptrdiff_t>(at));
    }
  }

  /// In two parts as agreed, or in one piece by its own header.
  DecodeStatus decodeSomehow(const Base& base, const Bytes& frame, bool inParts,
                             std::uint8_t poison, Bytes& output) {
    const std::uint64_t agreedBytes = base.spec.elementCount * elementBytes(base.spec.datatype);
    GuardedBuffer guarded(agreedBytes, 0, poison);
    DecodeStatus status{};
    if (inParts) {
      const std::size_t split = std::min<std::size_t>(frame.size(), staticBytes(base.spec));
      status = decodeParts(base.spec, std::span(frame).first(split),
                           std::span(frame).subspan(split), guarded.bytes());
    } else {
      const ExactBuffer exact(frame);
      status = decodeFrame(exact.bytes(), guarded.bytes());
    }
    EXPECT_TRUE(guarded.isIntact());
    output.assign(guarded.bytes().begin(), guarded.bytes().end());
    return status;
  }

  std::vector<Base> bases_;
  std::array<int, kStatusCount> reached_{};
};

TEST_F(Mutations, GiveAStatusAndStayInBounds) {
  for (int i = 0; i < kMutations && !HasFailure(); ++i) {
    const Base& base = bases_[random_.below(bases_.size())];
    Bytes frame = base.frame;
    for (std::uint64_t n = 1 + random_.below(3); n > 0; --n) mutate(base, frame);
    if (random_.below(32) == 0) frame.resize(random_.below(frame.size()));
    const bool inParts = random_.chance(0.5);
    Bytes first;
    Bytes second;
    const DecodeStatus status = decodeSomehow(base, frame, inParts, 0x00, first);
    ASSERT_LT(static_cast<std::size_t>(status), kStatusCount);
    ++reached_[static_cast<std::size_t>(status)];
    if (status != DecodeStatus::kOk) continue;
    // What is accepted is a frame: its elements do not depend on what stood in the output before.
    ASSERT_EQ(decodeSomehow(base, frame, inParts, 0xFF, second), DecodeStatus::kOk);
    FrameHeader header;
    ASSERT_EQ(readHeader(frame, header), DecodeStatus::kOk);
    const auto written =
        static_cast<std::ptrdiff_t>(header.spec.elementCount * elementBytes(header.spec.datatype));
    EXPECT_TRUE(std::equal(first.begin(), first.begin() + written, second.begin()));
  }
  // Two of the statuses say that checksums or outputs do not fit, which no mutation here aims at.
  for (std::size_t i = 0; i < kStatusCount; ++i) {
    const auto status = static_cast<DecodeStatus>(i);
    std::printf("{\"status\":\"%s\",\"mutations\":%d}\n", std::string(nameOf(status)).c_str(),
                reached_[i]);
    if (status == DecodeStatus::kChecksumMismatch || status == DecodeStatus::kOutputTooSmall) {
      continue;
    }
    EXPECT_GT(reached_[i], 0) << nameOf(status);
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
