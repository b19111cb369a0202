// SPDX-License-Identifier: Apache-2.0
//
// Ten million random and ten million special fp32 words, in both layouts; a tenth of them with a
// sanitizer, a hundred million of each in the long form.

#include <gtest/gtest.h>

#include <algorithm>

#include "codec/codec_testing.hpp"
#include "codec/layout.hpp"
#include "support/sanitized.hpp"
#include "support/seeded_test.hpp"

namespace zipccl::codec::testing {
namespace {

constexpr std::uint64_t kWordCount = zipccl::testing::kIsSanitized ? 300'000 : 10'000'000;
constexpr std::uint64_t kChunkWords = kWordCount / 10 + 3;

class Float32Words : public zipccl::testing::SeededTest {
 protected:
  /// Round trips of words that `fill` makes, each chunk with another pool.
  template <typename Fill>
  void roundTripAll(Fill fill) {
    const std::uint64_t wordCount = zipccl::testing::repeats(kWordCount, 100'000'000);
    for (std::uint64_t done = 0; done < wordCount && !HasFailure();) {
      Words words(std::min(kChunkWords, wordCount - done));
      fill(std::span(words));
      const Bytes elements = elementsOf(Datatype::kFloat32, words);
      for (const Format& format : {kFloat32Narrow, kFloat32Wide}) {
        FrameSpec spec = specOf(format, words.size());
        const std::uint64_t most = maxPoolBytes(spec.datatype, spec.layout, words.size());
        spec.poolBytes = random_.below(most / kSectionAlignment + 1) * kSectionAlignment;
        spec.checksum = random_.chance(0.5);
        SCOPED_TRACE(::testing::Message() << format << " from word " << done);
        roundTrip(spec, elements);
      }
      done += words.size();
    }
  }
};

TEST_F(Float32Words, Random) {
  roundTripAll(
      [this](std::span<std::uint32_t> words) { random_.fill(std::as_writable_bytes(words)); });
}

TEST_F(Float32Words, Special) {
  roundTripAll([this](std::span<std::uint32_t> words) {
    for (std::size_t first = 0; first < words.size();) {
      // Not a whole tile, so that kinds meet inside tiles too.
      const std::size_t run = std::min<std::size_t>(1 + random_.below(2500), words.size() - first);
      const Content content =
          random_.chance(0.6) ? Content::kSpecialValues : kContents[random_.below(5)];
      fillWords(Datatype::kFloat32, random_, content, kLowHalves[random_.below(3)],
                words.subspan(first, run));
      first += run;
    }
  });
}

}  // namespace
}  // namespace zipccl::codec::testing
