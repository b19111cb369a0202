// SPDX-License-Identifier: Apache-2.0
//
// A frame is never larger than its input plus 1 % plus 512 bytes (docs/format.md section 10), which
// encodeChecked() states for every input of every test; here are the inputs that come nearest to
// it.

#include <gtest/gtest.h>

#include "codec/codec_testing.hpp"
#include "codec/layout.hpp"
#include "support/sanitized.hpp"
#include "support/seeded_test.hpp"

namespace zipccl::codec::testing {
namespace {

using zipccl::testing::sweepStep;

class Bound : public zipccl::testing::SeededTest {
 protected:
  /// With the smallest and the largest pool.
  EncodeResult roundTripWithPools(const Format& format, const Words& words) {
    const Bytes elements = elementsOf(format.datatype, words);
    FrameSpec spec = specOf(format, words.size());
    spec.poolBytes = maxPoolBytes(format.datatype, format.layout, words.size());
    const EncodeResult result = roundTrip(spec, elements);
    EXPECT_EQ(result.frameBytes(), maxFrameBytes(format.datatype, words.size()));
    spec.poolBytes = 0;
    return roundTrip(spec, elements);
  }
};

TEST_F(Bound, RandomBits) {
  Words words(100 * kTileElements + 1023);
  random_.fill(std::as_writable_bytes(std::span(words)));
  for (const Format& format : kFormats) {
    SCOPED_TRACE(format.name);
    const EncodeResult result = roundTripWithPools(format, words);
    EXPECT_EQ(result.rawTiles, result.tiles);
    EXPECT_EQ(result.frameBytes(), maxFrameBytes(format.datatype, words.size()));
  }
}

TEST_F(Bound, RandomBitsOfEveryCount) {
  Words words(5000);
  random_.fill(std::as_writable_bytes(std::span(words)));
  for (const Format& format : kFormats) {
    const Bytes elements = elementsOf(format.datatype, words);
    for (std::uint64_t count = 0; count <= words.size(); count += sweepStep(random_, 6)) {
      SCOPED_TRACE(::testing::Message() << format << " count " << count);
      (void)encodeChecked(specOf(format, count),
                          std::span(elements).first(count * elementBytes(format.datatype)));
      if (HasFailure()) return;
    }
  }
}

TEST_F(Bound, AtTheTieOfEscapesAndRaw) {
  for (const Format& format : kFormats) {
    const std::uint32_t most = elementFormat(format.datatype).maxEscapes();
    for (const std::uint32_t escapes : {most - 1, most, most + 1, kTileElements}) {
      SCOPED_TRACE(::testing::Message() << format << " escapes " << escapes);
      Words words;
      for (int tile = 0; tile < 20; ++tile) {
        const Words more = wordsWithEscapes(format.datatype, random_, escapes);
        words.insert(words.end(), more.begin(), more.end());
      }
      const bool raw = escapes > most;
      const EncodeResult result = roundTripWithPools(format, words);
      EXPECT_EQ(result.rawTiles, raw ? 20U : 0U);
      EXPECT_EQ(result.escapes, raw ? 0U : 20U * escapes);
      // With one escape less the regions of the three groups are rounded up to the same.
      EXPECT_EQ(result.extraBytes, 20U * most);
    }
  }
}

TEST_F(Bound, AlternatingRawAndEmptyTiles) {
  Words words(64 * kTileElements);
  for (std::uint32_t tile = 0; tile < 64; tile += 2) {
    random_.fill(
        std::as_writable_bytes(std::span(words).subspan(tile * kTileElements, kTileElements)));
  }
  for (const Format& format : kFormats) {
    SCOPED_TRACE(format.name);
    const EncodeResult result = roundTripWithPools(format, words);
    EXPECT_EQ(result.rawTiles, 32U);
    EXPECT_EQ(result.emptyTiles, 32U);
  }
}

TEST_F(Bound, OneElement) {
  for (const Format& format : kFormats) {
    SCOPED_TRACE(format.name);
    const EncodeResult result =
        roundTripWithPools(format, Words{static_cast<std::uint32_t>(random_())});
    EXPECT_EQ(result.frameBytes(), 256U);
  }
}

}  // namespace
}  // namespace zipccl::codec::testing
