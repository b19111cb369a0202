// SPDX-License-Identifier: Apache-2.0
//
// Bytes that are no frame, decoded on the device: no CUDA error, nothing written outside output and
// status, and nothing accepted that the host rejects. With exact buffers under compute-sanitizer
// every read out of bounds shows too.

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "codec/bytes.hpp"
#include "codec/layout.hpp"
#include "gpu/gpu_testing.hpp"

namespace zipccl::gpu::testing {
namespace {

using codec::DecodeStatus;
using codec::FrameLayout;
using codec::kHeaderBytes;
using codec::kTileElements;
using codec::storeWord;
using codec::TileKind;
using codec::testing::Content;
using codec::testing::elementsOf;
using codec::testing::LowHalves;
using codec::testing::specOf;

constexpr std::uint32_t bitOf(DecodeStatus status) {
  return 1U << static_cast<std::uint32_t>(status);
}
constexpr std::uint32_t kContentBits = bitOf(DecodeStatus::kBadDescriptor) |
                                       bitOf(DecodeStatus::kBadGroupOffset) |
                                       bitOf(DecodeStatus::kBadEscapeCount);

/// A frame that was made well.
struct Base {
  FrameSpec spec;
  Bytes frame;

  [[nodiscard]] FrameLayout layout() const {
    return codec::frameLayout(spec.datatype, spec.layout, spec.elementCount, spec.poolBytes);
  }
  [[nodiscard]] std::uint64_t outputBytes() const {
    return spec.elementCount * codec::elementBytes(spec.datatype);
  }
};

/// Decodes many frames of one spec and size, in two parts, each buffer made once.
class FrameDecoder {
 public:
  FrameDecoder(const Stream& stream, const Base& base)
      : stream_(stream),
        spec_(base.spec),
        staticPart_(stream, codec::staticBytes(base.spec)),
        dynamicPart_(stream, base.frame.size() - staticPart_.bytes()),
        output_(stream, base.outputBytes()),
        status_(stream, 0) {}

  struct Outcome {
    std::uint32_t statusWord;
    Bytes output;
  };

  Outcome decodeOnDevice(std::span<const std::byte> frame) {
    expects(frame.size() == staticPart_.bytes() + dynamicPart_.bytes(), "another frame's decoder");
    staticPart_.upload(frame.first(staticPart_.bytes()));
    dynamicPart_.upload(frame.subspan(staticPart_.bytes()));
    output_.poison();
    status_.set(0);
    decode(spec_, staticPart_.data(), dynamicPart_.data(), dynamicPart_.bytes(), output_.data(),
           status_.get(), stream_.get());
    Outcome outcome{status_.value(), output_.download()};
    EXPECT_TRUE(output_.isIntact()) << "decode wrote outside the output";
    return outcome;
  }

  /// Whether the last frame is as it was and nothing was written around it.
  void expectInputsUntouched(std::span<const std::byte> frame) const {
    EXPECT_TRUE(equalBytes(staticPart_.download(), frame.first(staticPart_.bytes())));
    EXPECT_TRUE(equalBytes(dynamicPart_.download(), frame.subspan(staticPart_.bytes())));
    EXPECT_TRUE(staticPart_.isIntact() && dynamicPart_.isIntact() && status_.isIntact());
  }

 private:
  const Stream& stream_;
  FrameSpec spec_;
  GuardedDeviceBuffer staticPart_;
  GuardedDeviceBuffer dynamicPart_;
  GuardedDeviceBuffer output_;
  DeviceWord<std::uint32_t> status_;
};

class BadBytes : public DeviceTest {
 protected:
  /// Tiles of every kind, with a region in the pool, one across its end, and ones behind it.
  Base makeBase(const Format& format, std::uint64_t tiles, std::uint64_t poolBytes) {
    Words words = codec::testing::mixedWords(format.datatype, random_,
                                             tiles * kTileElements + random_.below(100));
    const std::uint64_t gaussianTiles = std::min<std::uint64_t>(tiles, 2);
    fillWords(format.datatype, random_, Content::kGaussian, LowHalves::kRare,
              std::span(words).first(gaussianTiles * kTileElements));
    Base base;
    base.spec = specOf(format, words.size());
    base.spec.poolBytes = poolBytes;
    base.frame = encodeOnHost(base.spec, elementsOf(format.datatype, words));
    return base;
  }

  /// What the host says of the frame. The device does not look at checksums.
  static DecodeStatus decodeOnHost(const Base& base, Bytes frame, Bytes& output) {
    constexpr std::size_t kFlagsAt = 10;
    constexpr std::size_t kChecksumAt = 40;
    if ((frame[kFlagsAt] & std::byte{1}) != std::byte{0}) {
      frame[kFlagsAt] &= std::byte{0xFE};
      storeWord(frame.data() + kChecksumAt, std::uint64_t{0});
    }
    output.assign(base.outputBytes(), GuardedDeviceBuffer::kPoison);
    const std::span<const std::byte> bytes(frame);
    const std::uint64_t split = codec::staticBytes(base.spec);
    return codec::decode(base.spec, bytes.first(split), bytes.subspan(split), output);
  }

  /// Both accept, with the same elements; or both reject, for the same reason when that is the
  /// header's, and else for reasons of the content.
  DecodeStatus expectAgreement(const Base& base, const Bytes& frame, FrameDecoder& decoder) {
    Bytes expected;
    const DecodeStatus host = decodeOnHost(base, frame, expected);
    const FrameDecoder::Outcome outcome = decoder.decodeOnDevice(frame);
    if (host == DecodeStatus::kOk) {
      EXPECT_EQ(outcome.statusWord, 0U) << describeWord(outcome.statusWord);
      EXPECT_TRUE(equalBytes(outcome.output, expected));
    } else if (host < DecodeStatus::kBadDescriptor) {
      EXPECT_EQ(codec::describe(statusOf(outcome.statusWord)), codec::describe(host))
          << describeWord(outcome.statusWord);
    } else {
      EXPECT_NE(outcome.statusWord, 0U) << codec::describe(host);
      EXPECT_EQ(outcome.statusWord & ~kContentBits, 0U) << describeWord(outcome.statusWord);
    }
    return host;
  }
};

TEST_F(BadBytes, EveryByteOfTheHeader) {
  for (const Format& format : kGpuFormats) {
    for (const std::uint64_t tiles : {0, 2, 9}) {
      if (usesExactBuffers() && tiles != 9) continue;
      const Base base = makeBase(format, tiles, tiles == 9 ? 1280 : 0);
      FrameDecoder decoder(stream(), base);
      for (std::size_t at = 0; at < kHeaderBytes; ++at) {
        for (int change = 0; change < 11; ++change) {
          Bytes frame = base.frame;
          if (change < 8) frame[at] ^= static_cast<std::byte>(1U << change);
          if (change == 8) frame[at] = std::byte{0xFF};
          if (change == 9) frame[at] = std::byte{0};
          if (change == 10) frame[at] = static_cast<std::byte>(random_());
          SCOPED_TRACE(::testing::Message()
                       << format << " tiles " << tiles << " byte " << at << " change " << change);
          (void)expectAgreement(base, frame, decoder);
          decoder.expectInputsUntouched(frame);
          if (HasFailure()) return;
        }
      }
    }
  }
}

TEST_F(BadBytes, EveryBitOfADescriptorAndAGroupOffset) {
  for (const Format& format : kGpuFormats) {
    for (const std::uint64_t pool : {0, 640}) {
      const Base base = makeBase(format, 10, pool);
      const FrameLayout layout = base.layout();
      FrameDecoder decoder(stream(), base);
      const auto check = [&](std::uint64_t at, std::uint32_t bit) {
        Bytes frame = base.frame;
        frame[at + bit / 8] ^= static_cast<std::byte>(1U << (bit % 8));
        SCOPED_TRACE(::testing::Message()
                     << format << " pool " << pool << " byte " << at << " bit " << bit);
        (void)expectAgreement(base, frame, decoder);
      };
      for (std::uint64_t tile = 0; tile < layout.tileCount; ++tile) {
        for (std::uint32_t bit = 0; bit < 32; ++bit) check(layout.descriptorsAt + 4 * tile, bit);
      }
      for (std::uint64_t group = 0; group < layout.groupCount; ++group) {
        for (std::uint32_t bit = 0; bit < 64; ++bit) check(layout.groupsAt + 8 * group, bit);
      }
    }
  }
}

TEST_F(BadBytes, FaultsOfTheContentAreTold) {
  const Format& format = kGpuFormats[0];
  Words words = tileWithEscapes(random_, format.datatype, 100);
  append(words, Words(kTileElements, 0U));
  append(words, Words(7 * kTileElements, 0U));  // a group that needs no extra space begins in here
  Base base;
  base.spec = specOf(format, words.size());
  base.spec.poolBytes = 0;
  base.frame = encodeOnHost(base.spec, elementsOf(format.datatype, words));
  const FrameLayout layout = base.layout();
  ASSERT_EQ(layout.groupCount, 2U);
  FrameDecoder decoder(stream(), base);
  const auto expectWord = [&](std::uint64_t at, auto word, DecodeStatus status) {
    Bytes frame = base.frame;
    storeWord(frame.data() + at, word);
    EXPECT_EQ(describeWord(decoder.decodeOnDevice(frame).statusWord), codec::describe(status))
        << word;
    (void)expectAgreement(base, frame, decoder);
  };
  const auto good = codec::loadWord<std::uint32_t>(base.frame.data() + layout.descriptorsAt);
  const std::uint32_t window = codec::windowBaseOf(good);
  const auto descriptor = [](TileKind kind, std::uint32_t windowBase, std::uint32_t escapes,
                             bool low) {
    return codec::makeDescriptor(kind, windowBase, escapes, low);
  };
  for (const std::uint32_t bad :
       {descriptor(TileKind::kSeven, 250, 100, false),
        descriptor(TileKind::kSeven, 255, 100, false),
        descriptor(TileKind::kSeven, window, 641, false),
        descriptor(TileKind::kSeven, window, 65535, false),
        descriptor(TileKind::kSeven, window, 100, true), descriptor(TileKind::kEmpty, 1, 0, false),
        descriptor(TileKind::kEmpty, 0, 1, false), descriptor(TileKind::kRaw, 1, 0, false),
        descriptor(TileKind::kRaw, 0, 1, false), good | 1U << 11, good | 1U << 15}) {
    expectWord(layout.descriptorsAt, bad, DecodeStatus::kBadDescriptor);
  }
  expectWord(layout.descriptorsAt, descriptor(TileKind::kSeven, window, 99, false),
             DecodeStatus::kBadEscapeCount);
  expectWord(layout.descriptorsAt, descriptor(TileKind::kSeven, window, 101, false),
             DecodeStatus::kBadEscapeCount);
  expectWord(layout.descriptorsAt, descriptor(TileKind::kSeven, window, 112, false),
             DecodeStatus::kBadEscapeCount);
  // The region is 112 bytes; from here on it would not fit.
  expectWord(layout.descriptorsAt, descriptor(TileKind::kSeven, window, 113, false),
             DecodeStatus::kBadGroupOffset);
  for (const std::uint64_t bad :
       {std::uint64_t{8}, std::uint64_t{1}, std::uint64_t{16}, std::uint64_t{112},
        std::uint64_t{1} << 40, ~std::uint64_t{15}, ~std::uint64_t{0}, std::uint64_t{1} << 63}) {
    expectWord(layout.groupsAt, bad, DecodeStatus::kBadGroupOffset);
  }
  expectWord(layout.groupsAt + 8, std::uint64_t{16}, DecodeStatus::kBadGroupOffset);
  expectWord(layout.groupsAt + 8, ~std::uint64_t{0}, DecodeStatus::kBadGroupOffset);
}

TEST_F(BadBytes, ADynamicPartThatIsTooShort) {
  for (const Format& format : kGpuFormats) {
    const Base base = makeBase(format, 20, 128);
    const std::uint64_t split = codec::staticBytes(base.spec);
    const std::span<const std::byte> frame(base.frame);
    ASSERT_GT(frame.size(), split + 640);
    const GuardedDeviceBuffer staticPart(stream(), frame.first(split));
    for (const std::uint64_t missing :
         {std::uint64_t{1}, std::uint64_t{16}, std::uint64_t{640}, frame.size() - split}) {
      SCOPED_TRACE(::testing::Message() << format << " missing " << missing);
      const GuardedDeviceBuffer dynamicPart(stream(),
                                            frame.subspan(split, frame.size() - split - missing));
      const GuardedDeviceBuffer output(stream(), base.outputBytes());
      const DeviceWord<std::uint32_t> status(stream(), 0);
      decode(base.spec, staticPart.data(), dynamicPart.bytes() == 0 ? nullptr : dynamicPart.data(),
             dynamicPart.bytes(), output.data(), status.get(), stream().get());
      EXPECT_EQ(codec::describe(statusOf(status.value())),
                codec::describe(DecodeStatus::kTruncated))
          << describeWord(status.value());
      EXPECT_TRUE(output.isIntact());
    }
    // More than is needed does no harm.
    Bytes longer(frame.begin() + static_cast<std::ptrdiff_t>(split), frame.end());
    longer.insert(longer.end(), 400, std::byte{0xEE});
    const GuardedDeviceBuffer dynamicPart(stream(), longer);
    const GuardedDeviceBuffer output(stream(), base.outputBytes());
    const DeviceWord<std::uint32_t> status(stream(), 0);
    decode(base.spec, staticPart.data(), dynamicPart.data(), dynamicPart.bytes(), output.data(),
           status.get(), stream().get());
    EXPECT_EQ(status.value(), 0U) << describeWord(status.value());
  }
}

TEST_F(BadBytes, AFrameOfAnotherSpec) {
  for (const Format& format : kGpuFormats) {
    const Base base = makeBase(format, 9, 1280);
    for (int part = 0; part < 5; ++part) {
      SCOPED_TRACE(::testing::Message() << format << " part " << part);
      // The frame stands where one of the other spec should: padded or cut to its size.
      Base other = base;
      if (part == 0) other.spec.elementCount += 1;
      if (part == 1) other.spec.elementCount -= kTileElements;
      if (part == 2) other.spec.elementCount = 0;
      if (part == 3) other.spec.poolBytes += 128;
      if (part == 4) other.spec.poolBytes = 0;
      if (part == 2) other.spec.poolBytes = 0;
      other.frame.resize(std::max<std::size_t>(base.frame.size(), codec::staticBytes(other.spec)));
      random_.fill(std::span(other.frame).subspan(base.frame.size()));
      FrameDecoder decoder(stream(), other);
      EXPECT_EQ(codec::describe(statusOf(decoder.decodeOnDevice(other.frame).statusWord)),
                codec::describe(DecodeStatus::kSpecMismatch));
      decoder.expectInputsUntouched(other.frame);
    }
    // The same bytes as another datatype or in another layout.
    for (const Format& otherFormat : kGpuFormats) {
      if (&otherFormat == &format) continue;
      SCOPED_TRACE(::testing::Message() << format << " as " << otherFormat);
      Base other = base;
      other.spec.datatype = otherFormat.datatype;
      other.spec.layout = otherFormat.layout;
      other.frame.resize(std::max<std::size_t>(base.frame.size(), codec::staticBytes(other.spec)));
      FrameDecoder decoder(stream(), other);
      EXPECT_EQ(codec::describe(statusOf(decoder.decodeOnDevice(other.frame).statusWord)),
                codec::describe(DecodeStatus::kSpecMismatch));
      decoder.expectInputsUntouched(other.frame);
    }
    // A checksum that was not agreed is none of the decoder's business.
    Base other = base;
    other.spec.checksum = true;
    FrameDecoder decoder(stream(), other);
    EXPECT_EQ(decoder.decodeOnDevice(base.frame).statusWord, 0U);
  }
}

TEST_F(BadBytes, IgnoredBytesDoNotMatter) {
  for (const Format& format : kGpuFormats) {
    const Base base = makeBase(format, 19, 36 * 19 / 128 * 128);
    const FrameLayout layout = base.layout();
    Bytes frame = base.frame;
    const auto fill = [&](std::uint64_t from, std::uint64_t to) {
      random_.fill(std::span(frame).subspan(from, to - from));
    };
    fill(layout.descriptorsAt + 4 * layout.tileCount, layout.groupsAt);
    fill(layout.groupsAt + 8 * layout.groupCount, layout.tilesAt);
    fill(layout.tailAt + layout.tailBytes, layout.poolAt);
    for (std::uint64_t tile = 0; tile < layout.tileCount; ++tile) {
      const auto descriptor =
          codec::loadWord<std::uint32_t>(frame.data() + layout.descriptorsAt + 4 * tile);
      const std::uint64_t record = layout.tilesAt + layout.recordBytes * tile;
      if (codec::kindOf(descriptor) == TileKind::kEmpty) {
        fill(record, record + codec::elementFormat(format.datatype).upperRecordBytes());
      }
      if (!codec::hasLow(descriptor)) {
        fill(record + codec::elementFormat(format.datatype).upperRecordBytes(),
             record + layout.recordBytes);
      }
    }
    FrameDecoder decoder(stream(), base);
    EXPECT_EQ(expectAgreement(base, frame, decoder), DecodeStatus::kOk);
  }
}

TEST_F(BadBytes, RandomBytesBehindAGoodHeader) {
  for (const Format& format : kGpuFormats) {
    const Base base = makeBase(format, 33, 256);
    FrameDecoder decoder(stream(), base);
    const int repeats = usesExactBuffers() ? 20 : 300;
    for (int repeat = 0; repeat < repeats && !HasFailure(); ++repeat) {
      Bytes frame = base.frame;
      random_.fill(std::span(frame).subspan(kHeaderBytes));
      (void)expectAgreement(base, frame, decoder);
      decoder.expectInputsUntouched(frame);
    }
  }
}

/// Mutated frames, in parts of 2,000, so that some of them can be run by themselves.
class Mutations : public BadBytes, public ::testing::WithParamInterface<int> {
 protected:
  static constexpr int kParts = 10;
  static constexpr int kFramesPerPart = 2000;
};

TEST_P(Mutations, AreJudgedAsTheHostJudgesThem) {
  std::vector<Base> bases;
  std::vector<std::unique_ptr<FrameDecoder>> decoders;
  for (const Format& format : kGpuFormats) {
    for (const std::uint64_t pool : {0, 640, 1920}) {
      bases.push_back(makeBase(format, 10, pool));
      decoders.push_back(std::make_unique<FrameDecoder>(stream(), bases.back()));
    }
  }
  std::map<DecodeStatus, int> reached;
  for (int i = 0; i < kFramesPerPart && !HasFailure(); ++i) {
    const std::size_t which = random_.below(bases.size());
    const Base& base = bases[which];
    Bytes frame = base.frame;
    for (std::uint64_t n = 1 + random_.below(3); n > 0; --n) {
      codec::testing::mutateFrame(base.layout(), random_, frame);
    }
    SCOPED_TRACE(::testing::Message() << "part " << GetParam() << " frame " << i);
    ++reached[expectAgreement(base, frame, *decoders[which])];
    if (i % 16 == 0) decoders[which]->expectInputsUntouched(frame);
  }
  EXPECT_GT(reached[DecodeStatus::kOk], 0);
  EXPECT_GT(reached[DecodeStatus::kBadDescriptor], 0);
  EXPECT_GT(reached[DecodeStatus::kBadGroupOffset], 0);
  EXPECT_GT(reached[DecodeStatus::kBadEscapeCount], 0);
  EXPECT_GT(reached[DecodeStatus::kSpecMismatch], 0);
  EXPECT_GT(reached[DecodeStatus::kBadReserved], 0);
}

INSTANTIATE_TEST_SUITE_P(Parts, Mutations, ::testing::Range(0, 10));

}  // namespace
}  // namespace zipccl::gpu::testing
