// SPDX-License-Identifier: Apache-2.0
//
// The rule by which an encoder chooses a tile's window, and the codes that follow from it.

#include "codec/tile_window.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>

#include "codec/bytes.hpp"
#include "codec/codec_testing.hpp"
#include "support/seeded_test.hpp"

namespace zipccl::codec::testing {
namespace {

std::uint32_t bitsOf(float value) { return std::bit_cast<std::uint32_t>(value); }

TEST(TileWindow, FollowsTheMeanMagnitude) {
  // All values 1, sums 32: mean magnitude 1 is that of sigma = 1.2533, whose window begins at 2^-5.
  EXPECT_EQ(sevenWindowBase(32ULL * bitsOf(32.0F), 32), 127U - 5U);
  EXPECT_EQ(sevenWindowBase(bitsOf(32.0F), 1), 127U - 5U);
  // 0.70 octaves below the next power of two the window moves up: at a piecewise linear log2 of
  // 0.30.
  EXPECT_EQ(sevenWindowBase(bitsOf(32.0F * 1.2999F), 1), 127U - 5U);
  EXPECT_EQ(sevenWindowBase(bitsOf(32.0F * 1.3001F), 1), 127U - 4U);
}

TEST(TileWindow, StaysInsideTheFormatsRange) {
  EXPECT_EQ(sevenWindowBase(0, 0), 0U);
  EXPECT_EQ(sevenWindowBase(1, 1), 0U);
  EXPECT_EQ(sevenWindowBase(bitsOf(0x1p-126F), 1), 0U);
  EXPECT_EQ(sevenWindowBase(0x7F7FFFFFU, 1), 245U);
}

TEST(TileWindow, SixLooksAtTheValuesThatAreNotZero) {
  const std::uint64_t bits = bitsOf(32.0F * 1.2F);  // in the middle of its octave for both kinds
  EXPECT_EQ(sixWindowBase(32 * bits, 32, 0), sevenWindowBase(32 * bits, 32) + 1);
  EXPECT_EQ(sixWindowBase(32 * bits, 32, 512), sevenWindowBase(32 * bits, 32) + 2);
  // Lanes of zeros alone are not among the measurable: no correction for them.
  EXPECT_EQ(sixWindowBase(16 * bits, 16, 512), sevenWindowBase(16 * bits, 16) + 1);
  // Between the ties of seven (mean 1.300) and of six (1.433).
  EXPECT_EQ(sixWindowBase(bitsOf(32.0F * 1.37F), 1, 1024 - 32),
            sevenWindowBase(bitsOf(32.0F * 1.37F), 1));
  EXPECT_EQ(sixWindowBase(0, 0, 0), 1U);
  EXPECT_EQ(sixWindowBase(1, 1, 0), 1U);
  EXPECT_EQ(sixWindowBase(32 * bits, 32, 1024), 1U);
  EXPECT_EQ(sixWindowBase(0x7F7FFFFFU, 1, 0), 246U);
  EXPECT_LE(sixWindowBase(32 * std::uint64_t{0x7F7FFFFFU}, 32, 1023), kMaxWindowBase);
}

TEST(TileWindow, LeavesOutLanesThatCannotBeMeasured) {
  EXPECT_FALSE(isMeasurableLane(0));
  EXPECT_TRUE(isMeasurableLane(1));
  EXPECT_TRUE(isMeasurableLane(0x7F7FFFFFU));
  EXPECT_FALSE(isMeasurableLane(0x7F800000U));
  EXPECT_FALSE(isMeasurableLane(0x7FC00000U));
  EXPECT_FALSE(isMeasurableLane(0xFFC00000U));
}

TEST(TileWindow, GivesEveryExponentItsCode) {
  for (const TileKind kind : {TileKind::kSeven, TileKind::kSixAndZero}) {
    const std::uint32_t width = kind == TileKind::kSeven ? 7 : 6;
    for (std::uint32_t base = 0; base <= kMaxWindowBase; ++base) {
      for (std::uint32_t exponent = 0; exponent < 256; ++exponent) {
        const bool inWindow = exponent >= base && exponent < base + width;
        const bool isZero = kind == TileKind::kSixAndZero && exponent == 0;
        const std::uint32_t code = codeOfExponent(kind, base, exponent);
        ASSERT_EQ(code == kEscapeCode, !inWindow && !isZero) << base << " " << exponent;
        if (code == kEscapeCode) continue;
        ASSERT_EQ(exponentOfCode(kind, base, code), exponent) << base << " " << code;
      }
    }
  }
}

class TileWindowOfTile : public zipccl::testing::SeededTest {
 protected:
  /// The window base that an encoder gave to a tile of these words.
  static std::uint32_t baseOf(const Words& words) {
    const FrameSpec spec = specOf(kFormats[0], words.size());
    const Encoded encoded = encodeChecked(spec, elementsOf(spec.datatype, words));
    return windowBaseOf(loadWord<std::uint32_t>(encoded.frame.data() + kHeaderBytes));
  }

  Words gaussianWords(float sigma) {
    Words words(kTileElements);
    for (std::uint32_t& word : words) {
      word = bfloat16Word(sigma * static_cast<float>(random_.normal()));
    }
    return words;
  }
};

TEST_F(TileWindowOfTile, IsTheWindowOfItsSigma) {
  // In the middle between two thresholds, where 1024 values cannot miss.
  const float fraction = std::exp2(0.178F);
  for (int octave = -100; octave <= 100; octave += 10) {
    const Words words = gaussianWords(fraction * std::exp2(static_cast<float>(octave)));
    EXPECT_EQ(baseOf(words), static_cast<std::uint32_t>(127 + octave - 5)) << octave;
  }
}

TEST_F(TileWindowOfTile, IsNotMovedByOneOutlier) {
  for (const std::uint32_t outlier : {0x7F7F0000U, 0x7F800000U, 0x7FC10000U, 0xFF800000U}) {
    Words words = gaussianWords(std::exp2(0.178F));
    words[random_.below(kTileElements)] = outlier;
    EXPECT_NEAR(baseOf(words), 122, 4) << std::hex << outlier;
    if (outlier >= 0x7F800000U) {
      EXPECT_EQ(baseOf(words), 122U) << std::hex << outlier;
    }
  }
}

}  // namespace
}  // namespace zipccl::codec::testing
