// SPDX-License-Identifier: Apache-2.0
//
// Every bit comes back: all bf16 patterns, every count and alignment, every kind of tile, every
// place of the border between pool and dynamic part.

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "codec/bytes.hpp"
#include "codec/codec_testing.hpp"
#include "codec/layout.hpp"
#include "codec/tile_window.hpp"
#include "support/guarded_buffer.hpp"
#include "support/sanitized.hpp"
#include "support/seeded_test.hpp"

namespace zipccl::codec::testing {
namespace {

using zipccl::testing::sweepStep;

class RoundTrip : public zipccl::testing::SeededTest {
 protected:
  Bytes mixedElements(const Format& format, std::uint64_t count) {
    return elementsOf(format.datatype, mixedWords(format.datatype, random_, count));
  }

  /// Pools that put the border between pool and dynamic part into every kind of place.
  static std::vector<std::uint64_t> poolsFor(const Format& format, std::uint64_t count) {
    const std::uint64_t most = maxPoolBytes(format.datatype, format.layout, count);
    std::vector<std::uint64_t> pools;
    for (std::uint64_t pool = 0; pool <= most;
         pool += std::max<std::uint64_t>(128, most / 4 / 128 * 128)) {
      pools.push_back(pool);
    }
    pools.push_back(most);
    return pools;
  }
};

/// All 65,536 upper halves in several orders.
std::array<Words, 4> arrangementsOfAllPatterns(const ElementFormat& element, Random& random) {
  const std::uint32_t mantissaBits = 15 - element.exponentBits;
  const std::uint32_t valuesOfExponent = 2U << mantissaBits;
  std::array<Words, 4> arrangements;
  for (Words& words : arrangements) words.resize(65536);
  for (std::uint32_t pattern = 0; pattern < 65536; ++pattern) {
    arrangements[0][pattern] = pattern << 16;
    // Tiles of one exponent or two, with every sign and mantissa.
    arrangements[1][(pattern * 256 + pattern / 256) % 65536] = pattern << 16;
    // Tiles of neighbouring exponents: coded, not raw.
    const std::uint32_t exponent = exponentOf(element, pattern);
    const std::uint32_t rest = (pattern & ((1U << mantissaBits) - 1)) | (pattern >> 15)
                                                                            << mantissaBits;
    arrangements[2][(exponent / 4 * valuesOfExponent + rest) * 4 + exponent % 4] = pattern << 16;
    arrangements[3][pattern] = pattern << 16;
  }
  for (std::uint32_t n = 65536; n > 1; --n) {
    std::swap(arrangements[3][n - 1], arrangements[3][random.below(n)]);
  }
  return arrangements;
}

TEST_F(RoundTrip, AllPatternsOfUpperHalves) {
  for (const Format& format : kFormats) {
    SCOPED_TRACE(format.name);
    std::uint64_t codedTiles = 0;
    for (const Words& words : arrangementsOfAllPatterns(elementFormat(format.datatype), random_)) {
      Words sorted = words;
      std::sort(sorted.begin(), sorted.end());
      ASSERT_EQ(std::unique(sorted.begin(), sorted.end()), sorted.end());
      const EncodeResult result =
          roundTrip(specOf(format, words.size()), elementsOf(format.datatype, words));
      codedTiles += result.tiles - result.rawTiles;
    }
    EXPECT_GE(codedTiles, 64U);  // those of neighbouring exponents
  }
}

TEST_F(RoundTrip, EveryCountUpToThreeTilesAndOne) {
  for (const Format& format : kFormats) {
    const Bytes elements = mixedElements(format, 3 * kTileElements + 1);
    for (std::uint64_t count = 0; count <= 3 * kTileElements + 1; count += sweepStep(random_, 6)) {
      SCOPED_TRACE(::testing::Message() << format << " count " << count);
      roundTrip(specOf(format, count),
                std::span(elements).first(count * elementBytes(format.datatype)));
      if (HasFailure()) return;
    }
  }
}

TEST_F(RoundTrip, EveryAlignment) {
  for (const Format& format : kFormats) {
    const Bytes elements = mixedElements(format, 9 * kTileElements + 5);
    FrameSpec spec = specOf(format, 9 * kTileElements + 5);
    spec.checksum = true;
    for (std::size_t i = 0; i < 16; ++i) {
      for (std::size_t j = 0; j < 16; j += sweepStep(random_, 4)) {
        const Misalignment misalignment = {i, j, (i + 5 * j) % 16};
        SCOPED_TRACE(::testing::Message()
                     << format << " source " << misalignment.source << " frame "
                     << misalignment.frame << " output " << misalignment.output);
        roundTrip(spec, elements, misalignment);
        if (HasFailure()) return;
      }
    }
  }
}

TEST_F(RoundTrip, EveryPairOfContents) {
  for (const Format& format : kFormats) {
    for (const Content first : kContents) {
      for (const Content second : kContents) {
        for (const LowHalves low : kLowHalves) {
          SCOPED_TRACE(::testing::Message()
                       << format << " contents " << static_cast<int>(first)
                       << static_cast<int>(second) << " low " << static_cast<int>(low));
          Words words(2 * kTileElements);
          fillWords(format.datatype, random_, first, low, std::span(words).first(kTileElements));
          fillWords(format.datatype, random_, second, low, std::span(words).last(kTileElements));
          const EncodeResult result =
              roundTrip(specOf(format, words.size()), elementsOf(format.datatype, words));
          const bool storesLow = format.datatype == Datatype::kFloat32 && low == LowHalves::kAny;
          if (storesLow) {
            EXPECT_EQ(result.lowTiles, 2U);
          }
          if (low == LowHalves::kZero) {
            EXPECT_EQ(result.lowTiles, 0U);
          }
          const auto tilesOf = [&](Content content) {
            return (first == content ? 1U : 0U) + (second == content ? 1U : 0U);
          };
          EXPECT_EQ(result.emptyTiles, tilesOf(Content::kZero));
          EXPECT_GE(result.rawTiles, tilesOf(Content::kRandomBits));
          EXPECT_GE(result.zeroCodeTiles, tilesOf(Content::kManyZeros));
        }
      }
    }
  }
}

TEST_F(RoundTrip, EveryPlaceOfTheBorderInsideOneGroup) {
  for (const Format& format : kFormats) {
    // Raw, escapes of several tiles, low halves: 600 bytes and more of one region.
    const std::uint32_t most = elementFormat(format.datatype).maxEscapes();
    Words words = wordsWithEscapes(format.datatype, random_, 100);
    const Words raw = wordsWithEscapes(format.datatype, random_, most + 20);
    const Words manyEscapes = wordsWithEscapes(format.datatype, random_, most - 40);
    words.insert(words.end(), raw.begin(), raw.end());
    words.insert(words.end(), manyEscapes.begin(), manyEscapes.end());
    for (std::size_t n = 0; n < 2 * kTileElements; ++n) words[n] |= n & 0xFFFF;
    const Bytes elements = elementsOf(format.datatype, words);
    FrameSpec spec = specOf(format, words.size());
    const std::uint64_t mostPool = maxPoolBytes(format.datatype, format.layout, words.size());
    std::uint64_t withinRegion = 0;
    for (spec.poolBytes = 0; spec.poolBytes <= mostPool; spec.poolBytes += 128) {
      SCOPED_TRACE(::testing::Message() << format << " pool " << spec.poolBytes);
      const EncodeResult result = roundTrip(spec, elements);
      EXPECT_EQ(result.rawTiles, 1U);
      EXPECT_EQ(result.escapes, 60U + most);
      withinRegion += spec.poolBytes > 0 && result.dynamicBytes > 0 ? 1 : 0;
    }
    EXPECT_GE(withinRegion, 2 * most / 128);
  }
}

TEST_F(RoundTrip, ManyGroupsWithEveryPool) {
  for (const Format& format : kFormats) {
    for (int repeat = 0; repeat < 4; ++repeat) {
      const std::uint64_t count = 40 * kTileElements + random_.below(kTileElements);
      const Bytes elements = mixedElements(format, count);
      FrameSpec spec = specOf(format, count);
      for (const std::uint64_t pool : poolsFor(format, count)) {
        SCOPED_TRACE(::testing::Message() << format << " count " << count << " pool " << pool);
        spec.poolBytes = pool;
        const EncodeResult result = roundTrip(spec, elements);
        EXPECT_EQ(result.dynamicBytes, result.extraBytes - std::min(result.extraBytes, pool));
      }
    }
  }
}

TEST_F(RoundTrip, SpecialWordsInEveryLaneAndSlot) {
  // One escape in a tile of ones, at each place of the tile: the order of escapes and of lanes.
  for (const Format& format : kFormats) {
    Words words(kTileElements, 0x3F800000U);
    for (std::uint64_t n = 0; n < kTileElements; n += sweepStep(random_, 4)) {
      words[n] = 0xFF810001U + static_cast<std::uint32_t>(n);
      const EncodeResult result =
          roundTrip(specOf(format, words.size()), elementsOf(format.datatype, words));
      EXPECT_EQ(result.escapes, 1U);
      words[n] = 0x3F800000U;
      if (HasFailure()) return;
    }
  }
}

TEST_F(RoundTrip, ChecksumIsThatOfTheElements) {
  // docs/format.md section 8 once more, byte by byte.
  const auto mix = [](std::uint64_t x) {
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9U;
    x = (x ^ (x >> 27)) * 0x94D049BB133111EBU;
    return x ^ (x >> 31);
  };
  for (const Format& format : kFormats) {
    for (const std::uint64_t count : {0, 1, 2, 3, 4, 5, 1023, 1024, 3001}) {
      const Bytes elements = mixedElements(format, count);
      std::uint64_t expected = mix(count + (static_cast<std::uint64_t>(format.datatype) << 56));
      std::uint64_t word = 0;
      for (std::size_t i = 0; i < elements.size(); ++i) {
        word |= std::to_integer<std::uint64_t>(elements[i]) << (8 * (i % 8));
        if (i % 8 != 7 && i + 1 != elements.size()) continue;
        expected += mix(word + (i / 8 + 1) * 0x9E3779B97F4A7C15U);
        word = 0;
      }
      FrameSpec spec = specOf(format, count);
      spec.checksum = true;
      const Encoded encoded = encodeChecked(spec, elements);
      FrameHeader header;
      ASSERT_EQ(readHeader(encoded.frame, header), DecodeStatus::kOk);
      EXPECT_EQ(header.checksum, expected) << format << " " << count;
      EXPECT_TRUE(header.spec.checksum);
      expectDecodes(spec, encoded, elements);
    }
  }
}

TEST_F(RoundTrip, ChecksumShowsEveryFlippedBitOfTheElements) {
  for (const Format& format : kFormats) {
    const std::uint64_t count = kTileElements + 3;
    const Bytes elements = mixedElements(format, count);
    FrameSpec spec = specOf(format, count);
    spec.checksum = true;
    const Encoded good = encodeChecked(spec, elements);
    Bytes output(elements.size());
    // The tail is stored as it is.
    const FrameLayout layout = frameLayout(spec.datatype, spec.layout, count, spec.poolBytes);
    for (std::uint64_t bit = 0; bit < 8 * layout.tailBytes; ++bit) {
      Bytes bad = good.frame;
      bad[layout.tailAt + bit / 8] ^= static_cast<std::byte>(1U << (bit % 8));
      EXPECT_EQ(decodeFrame(bad, output), DecodeStatus::kChecksumMismatch) << bit;
    }
    for (std::uint64_t bit = 0; bit < 64; ++bit) {
      Bytes bad = good.frame;
      bad[40 + bit / 8] ^= static_cast<std::byte>(1U << (bit % 8));
      EXPECT_EQ(decodeFrame(bad, output), DecodeStatus::kChecksumMismatch) << bit;
    }
  }
}

TEST_F(RoundTrip, ChecksumAndApplicationWordsChangeTheHeaderOnly) {
  for (const Format& format : kFormats) {
    const std::uint64_t count = 3 * kTileElements + 17;
    const Bytes elements = mixedElements(format, count);
    const FrameSpec plain = specOf(format, count);
    FrameSpec checked = plain;
    checked.checksum = true;
    const ApplicationWords application = {random_(), random_(), random_(), random_()};
    const Encoded a = encodeChecked(plain, elements);
    const Encoded b = encodeChecked(checked, elements, application);
    expectDecodes(checked, b, elements);
    expectDecodes(plain, b, elements);  // a decoder goes by the frame's own flag
    FrameHeader header;
    ASSERT_EQ(readHeader(b.frame, header), DecodeStatus::kOk);
    EXPECT_EQ(header.application, application);
    EXPECT_EQ(header.spec, checked);
    EXPECT_TRUE(std::equal(a.frame.begin() + kHeaderBytes, a.frame.end(),
                           b.frame.begin() + kHeaderBytes, b.frame.end()));
  }
}

TEST_F(RoundTrip, LargerOutputIsLeftAlone) {
  const Format& format = kBfloat16Format;
  const Bytes elements = mixedElements(format, 1500);
  const Encoded encoded = encodeChecked(specOf(format, 1500), elements);
  zipccl::testing::GuardedBuffer output(elements.size() + 100);
  ASSERT_EQ(decodeFrame(encoded.frame, output.bytes()), DecodeStatus::kOk);
  const auto rest = output.bytes().subspan(elements.size());
  EXPECT_TRUE(std::all_of(rest.begin(), rest.end(),
                          [](std::byte byte) { return byte == std::byte{0xA5}; }));
  EXPECT_TRUE(output.isIntact());
}

TEST_F(RoundTrip, EncodeStaysInsideABufferThatIsTooSmall) {
  for (const Format& format : kFormats) {
    Words words = mixedWords(format.datatype, random_, 17 * kTileElements + 9);
    fillWords(format.datatype, random_, Content::kRandomBits, LowHalves::kAny,
              std::span(words).first(4096));
    const Bytes elements = elementsOf(format.datatype, words);
    FrameSpec spec = specOf(format, words.size());
    spec.poolBytes = 128;
    const Encoded whole = encodeChecked(spec, elements);
    const std::uint64_t frameBytes = whole.frame.size();
    ASSERT_GT(whole.result.dynamicBytes, 800U);
    for (const std::uint64_t missing :
         {std::uint64_t{1}, std::uint64_t{15}, std::uint64_t{700}, whole.result.dynamicBytes,
          whole.result.dynamicBytes + 1, frameBytes - 128, frameBytes - 1, frameBytes}) {
      SCOPED_TRACE(::testing::Message() << format << " missing " << missing);
      zipccl::testing::GuardedBuffer frame(frameBytes - missing);
      try {
        (void)encode(spec, elements.data(), frame.bytes());
        FAIL() << "nothing was thrown";
      } catch (const Error& error) {
        EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
        const std::string text = error.what();
        const std::uint64_t needed =
            missing > whole.result.dynamicBytes ? whole.result.staticBytes : frameBytes;
        EXPECT_NE(text.find(std::to_string(needed)), std::string::npos) << text;
        EXPECT_NE(text.find(std::to_string(frameBytes - missing)), std::string::npos) << text;
      }
      EXPECT_TRUE(frame.isIntact());
    }
    // Exactly enough is enough.
    zipccl::testing::GuardedBuffer frame(frameBytes);
    EXPECT_EQ(encode(spec, elements.data(), frame.bytes()).frameBytes(), frameBytes);
    EXPECT_TRUE(frame.isIntact());
  }
}

}  // namespace
}  // namespace zipccl::codec::testing
