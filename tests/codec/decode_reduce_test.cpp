// SPDX-License-Identifier: Apache-2.0
//
// Frames decoded and added up: by every implementation the bits of a sum that is written out here,
// element by element, from the contract in zipccl/codec.hpp.

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include "codec/bytes.hpp"
#include "codec/codec_testing.hpp"
#include "codec/layout.hpp"
#include "codec/number.hpp"
#include "support/guarded_buffer.hpp"
#include "support/sanitized.hpp"
#include "support/seeded_test.hpp"
#include "support/small_floats.hpp"

namespace zipccl::codec::testing {
namespace {

using zipccl::testing::ExactBuffer;
using zipccl::testing::GuardedBuffer;
using zipccl::testing::isVisited;
using zipccl::testing::kIsSanitized;
using zipccl::testing::sweepStep;

/// fp16 by its definition.
float halfOf(std::uint32_t bits) {
  const float sign = (bits & 0x8000U) != 0 ? -1.0F : 1.0F;
  const auto exponent = static_cast<int>(bits >> 10 & 31U);
  const auto fraction = static_cast<float>(bits & 0x3FFU);
  if (exponent == 31) {
    return fraction != 0 ? std::numeric_limits<float>::quiet_NaN()
                         : sign * std::numeric_limits<float>::infinity();
  }
  return exponent == 0 ? sign * std::ldexp(fraction, -24)
                       : sign * std::ldexp(1024.0F + fraction, exponent - 25);
}

/// The number that a word (as of Words) stands for.
float numberOf(Datatype datatype, std::uint32_t word) {
  return datatype == Datatype::kFloat16 ? halfOf(word >> 16) : std::bit_cast<float>(word);
}

/// The word that a number is rounded to.
std::uint32_t roundedWord(Datatype datatype, float value) {
  if (datatype == Datatype::kFloat32) {
    return std::isnan(value) ? 0x7FFFFFFFU : std::bit_cast<std::uint32_t>(value);
  }
  return std::isnan(value) ? 0x7FFF0000U : wordOfNumber(datatype, value);
}

Words sumOf(Datatype datatype, const std::vector<Words>& addends, float factor) {
  Words sum(addends.front().size());
  for (std::size_t i = 0; i < sum.size(); ++i) {
    float total = 0;
    for (std::size_t a = 0; a < addends.size(); ++a) {
      float value = numberOf(datatype, addends[a][i]);
      if (factor != 1.0F) value = numberOf(datatype, roundedWord(datatype, value * factor));
      total = a == 0 ? value : total + value;
    }
    sum[i] = roundedWord(datatype, total);
  }
  return sum;
}

TEST(Numbers, OfFp16AreWhatTheirBitsSay) {
  using Half = Number<Datatype::kFloat16>;
  for (std::uint32_t bits = 0; bits < 65536; ++bits) {
    const float exact = halfOf(bits);
    const float widened = Half::widen(static_cast<std::uint16_t>(bits));
    if (std::isnan(exact)) {
      EXPECT_TRUE(std::isnan(widened)) << bits;
      EXPECT_EQ(Half::round(widened), 0x7FFF) << bits;
      continue;
    }
    ASSERT_EQ(widened, exact) << bits;
    ASSERT_EQ(std::signbit(widened), (bits & 0x8000U) != 0);
    ASSERT_EQ(Half::round(widened), bits);
  }
}

class NumbersRounded : public zipccl::testing::SeededTest {};

TEST_F(NumbersRounded, AreTheNearest) {
  for (int i = 0; i < 300'000; ++i) {
    // Any number, one near those of fp16, and one half way between two of them.
    auto bits = static_cast<std::uint32_t>(random_());
    const auto nearField = static_cast<std::uint32_t>(random_.between(127 - 27, 127 + 17));
    if (i % 3 != 0) bits = (bits & 0x807FFFFFU) | nearField << 23;
    if (i % 3 == 2) bits = (bits & 0xFFFFE000U) | 0x1000U;
    const auto value = std::bit_cast<float>(bits);
    ASSERT_EQ(Number<Datatype::kFloat16>::round(value),
              std::isnan(value) ? 0x7FFF : zipccl::testing::float16Bits(value))
        << bits;
    ASSERT_EQ(Number<Datatype::kBfloat16>::round(value),
              std::isnan(value) ? 0x7FFF : zipccl::testing::bfloat16Bits(value))
        << bits;
  }
}

class DecodeReduce : public zipccl::testing::SeededTest {
 protected:
  std::vector<Words> inputs(Datatype datatype, std::size_t addendCount, std::uint64_t count) {
    std::vector<Words> all;
    for (std::size_t i = 0; i < addendCount; ++i) {
      all.push_back(mixedWords(datatype, random_, count));
      if (datatype == Datatype::kFloat32) continue;
      for (std::uint32_t& word : all.back()) word &= 0xFFFF0000U;
    }
    return all;
  }

  static float factorNear(Datatype datatype, float value) {
    return numberOf(datatype, roundedWord(datatype, value));
  }

  /// Frames, or elements, whose buffers end where their contents end.
  class Addends {
   public:
    void addFrame(const FrameSpec& spec, std::span<const std::byte> frame,
                  std::size_t misalignment = 0) {
      const std::uint64_t split = std::min<std::uint64_t>(staticBytes(spec), frame.size());
      buffers_.emplace_back(frame.first(split), misalignment);
      buffers_.emplace_back(frame.subspan(split), misalignment);
      list_.push_back(
          {{buffers_[buffers_.size() - 2].bytes(), buffers_.back().bytes()}, spec, nullptr});
    }
    void addElements(std::span<const std::byte> elements, std::size_t misalignment = 0) {
      buffers_.emplace_back(elements, misalignment);
      // Not null, even where there are none.
      static constexpr std::byte kNothing{};
      const std::byte* const at = buffers_.back().bytes().data();
      list_.push_back({{}, {}, at != nullptr ? at : &kNothing});
    }
    [[nodiscard]] std::span<const Addend> list() const { return list_; }

   private:
    std::vector<ExactBuffer> buffers_;
    std::vector<Addend> list_;
  };

  /// By every implementation.
  static void expectSum(Datatype datatype, const Addends& addends, float factor,
                        std::span<const std::byte> expected, std::size_t misalignment = 0) {
    const std::uint64_t count = expected.size() / elementBytes(datatype);
    for (const TileCodec* codec : tileCodecs()) {
      GuardedBuffer output(expected.size(), misalignment);
      const ReduceResult result =
          decodeReduceWith(*codec, datatype, count, addends.list(), factor, output.bytes());
      ASSERT_EQ(result.status, DecodeStatus::kOk) << codec->name() << " addend " << result.addend;
      ASSERT_TRUE(output.isIntact()) << codec->name();
      const auto got = output.bytes();
      const auto [at, wanted] =
          std::mismatch(got.begin(), got.end(), expected.begin(), expected.end());
      ASSERT_EQ(at, got.end()) << codec->name() << " differs in element "
                               << static_cast<std::uint64_t>(at - got.begin()) /
                                      elementBytes(datatype);
    }
  }
};

TEST_F(DecodeReduce, EveryCountUpToThreeTilesAndOne) {
  constexpr std::uint64_t kMost = 3 * kTileElements + 1;
  for (const Format& format : kFormats) {
    const std::vector<Words> words = inputs(format.datatype, 2, kMost);
    const float factor = random_.chance(0.5) ? 1.0F : factorNear(format.datatype, 1.0F / 3);
    const Bytes sum = elementsOf(format.datatype, sumOf(format.datatype, words, factor));
    for (std::uint64_t count = 0; count <= kMost && !HasFailure(); count += sweepStep(random_, 6)) {
      SCOPED_TRACE(::testing::Message() << format << " count " << count << " factor " << factor);
      const FrameSpec spec = specOf(format, count);
      const std::uint64_t bytes = count * elementBytes(format.datatype);
      Addends addends;
      for (const Words& each : words) {
        const Bytes elements = elementsOf(format.datatype, std::span(each).first(count));
        Bytes frame(maxFrameBytes(format.datatype, count));
        frame.resize(encode(spec, elements.data(), frame).frameBytes());
        addends.addFrame(spec, frame);
      }
      expectSum(format.datatype, addends, factor, std::span(sum).first(bytes));
    }
  }
}

TEST_F(DecodeReduce, EveryAlignment) {
  for (const Format& format : kFormats) {
    const std::uint64_t count = 9 * kTileElements + 5;
    const std::vector<Words> words = inputs(format.datatype, 3, count);
    const FrameSpec spec = specOf(format, count);
    std::vector<Bytes> frames;
    for (const Words& each : words) {
      frames.push_back(encodeChecked(spec, elementsOf(format.datatype, each)).frame);
    }
    const Bytes expected = elementsOf(format.datatype, sumOf(format.datatype, words, 1.0F));
    for (std::size_t i = 0; i < 16; ++i) {
      for (std::size_t j = 0; j < 16 && !HasFailure(); j += sweepStep(random_, 4)) {
        SCOPED_TRACE(::testing::Message() << format << " addends " << i << " output " << j);
        Addends addends;
        addends.addFrame(spec, frames[0], i);
        addends.addElements(elementsOf(format.datatype, words[1]), (i + j) % 16);
        addends.addFrame(spec, frames[2], 15 - i);
        expectSum(format.datatype, addends, 1.0F, expected, j);
      }
    }
  }
}

TEST_F(DecodeReduce, AddendsOfEveryKindInTheirOrder) {
  for (const Datatype datatype : kDatatypes) {
    for (const std::size_t addendCount : {1U, 2U, 3U, 8U, 17U}) {
      for (const float wish : {1.0F, 0.5F, 1.0F / 3, -3.0F, 1.0F / 4096}) {
        if (!isVisited(random_, 3)) continue;
        const std::uint64_t count = 17 * kTileElements + random_.below(2 * kTileElements);
        const float factor = factorNear(datatype, wish);
        SCOPED_TRACE(::testing::Message()
                     << "datatype " << static_cast<int>(datatype) << " count " << count
                     << " addends " << addendCount << " factor " << factor);
        const std::vector<Words> words = inputs(datatype, addendCount, count);
        Addends addends;
        for (const Words& each : words) {
          const Bytes elements = elementsOf(datatype, each);
          if (random_.chance(0.25)) {
            addends.addElements(elements, random_.below(16));
            continue;
          }
          const bool isWide = datatype == Datatype::kFloat32 && random_.chance(0.5);
          FrameSpec spec{.datatype = datatype,
                         .layout = isWide ? Layout::kWide : Layout::kNarrow,
                         .elementCount = count};
          spec.poolBytes =
              random_.below(maxPoolBytes(datatype, spec.layout, count) / 128 + 1) * 128;
          spec.checksum = random_.chance(0.3);
          addends.addFrame(spec, encodeChecked(spec, elements).frame, random_.below(16));
        }
        expectSum(datatype, addends, factor, elementsOf(datatype, sumOf(datatype, words, factor)),
                  random_.below(16));
        if (HasFailure()) return;
      }
    }
  }
}

TEST_F(DecodeReduce, IntoOneOfTheAddends) {
  for (const Datatype datatype : kDatatypes) {
    const std::uint64_t count = 9 * kTileElements + 100;
    const std::vector<Words> words = inputs(datatype, 3, count);
    const Bytes expected = elementsOf(datatype, sumOf(datatype, words, 1.0F));
    for (const TileCodec* codec : tileCodecs()) {
      for (std::size_t target = 0; target < words.size(); ++target) {
        std::vector<Bytes> buffers;
        std::vector<Addend> addends;
        for (const Words& each : words) buffers.push_back(elementsOf(datatype, each));
        for (const Bytes& each : buffers) addends.push_back({{}, {}, each.data()});
        const ReduceResult result =
            decodeReduceWith(*codec, datatype, count, addends, 1.0F, buffers[target]);
        EXPECT_EQ(result.status, DecodeStatus::kOk);
        EXPECT_TRUE(buffers[target] == expected) << codec->name() << " addend " << target;
      }
    }
  }
}

TEST_F(DecodeReduce, WithoutAddendsWritesNothing) {
  GuardedBuffer output(100, 0, 0x77);
  const ReduceResult result = decodeReduce(Datatype::kBfloat16, 50, {}, 1.0F, output.bytes());
  EXPECT_EQ(result.status, DecodeStatus::kOk);
  EXPECT_TRUE(std::all_of(output.bytes().begin(), output.bytes().end(),
                          [](std::byte byte) { return byte == std::byte{0x77}; }));
}

TEST_F(DecodeReduce, FindsWhatDecodeFinds) {
  std::uint32_t found = 0;
  for (const Format& format : kFormats) {
    FrameSpec spec = specOf(format, 18 * kTileElements);
    spec.poolBytes = 1280;
    const Bytes elements =
        elementsOf(format.datatype, mixedWords(format.datatype, random_, spec.elementCount));
    const Bytes good = encodeChecked(spec, elements).frame;
    const FrameLayout layout =
        frameLayout(spec.datatype, spec.layout, spec.elementCount, spec.poolBytes);
    for (int repeat = 0; repeat < (kIsSanitized ? 75 : 300) && !HasFailure(); ++repeat) {
      spec.checksum = repeat % 4 == 0;
      Bytes bad = spec.checksum ? encodeChecked(spec, elements).frame : good;
      // Half of the changes hit descriptors and offsets of groups.
      const std::uint64_t at = random_.chance(0.5)
                                   ? random_.below(layout.tilesAt)
                                   : random_.below(std::min(bad.size(), staticBytes(spec)));
      bad[at] ^= static_cast<std::byte>(1U << random_.below(8));
      Addends addends;
      addends.addFrame(spec, good);
      addends.addFrame(spec, bad);
      for (const TileCodec* codec : tileCodecs()) {
        GuardedBuffer output(elements.size());
        const FrameParts& parts = addends.list()[1].frame;
        const DecodeStatus expected =
            decodeWith(*codec, spec, parts.staticPart, parts.dynamicPart, output.bytes());
        const ReduceResult result = decodeReduceWith(*codec, spec.datatype, spec.elementCount,
                                                     addends.list(), 1.0F, output.bytes());
        EXPECT_EQ(result.status, expected)
            << format << ' ' << codec->name() << " byte " << at << ": " << describe(result.status);
        if (expected != DecodeStatus::kOk) {
          EXPECT_EQ(result.addend, 1U);
        }
        EXPECT_TRUE(output.isIntact());
        found |= 1U << static_cast<unsigned>(expected);
      }
    }
  }
  for (const DecodeStatus status :
       {DecodeStatus::kBadDescriptor, DecodeStatus::kBadGroupOffset, DecodeStatus::kBadEscapeCount,
        DecodeStatus::kChecksumMismatch, DecodeStatus::kBadReserved}) {
    EXPECT_NE(found & 1U << static_cast<unsigned>(status), 0U) << describe(status);
  }
}

TEST_F(DecodeReduce, NamesTheAddendThatIsBad) {
  const FrameSpec spec = specOf(kBfloat16Format, 3000);
  const Bytes elements = elementsOf(spec.datatype, mixedWords(spec.datatype, random_, 3000));
  const Bytes good = encodeChecked(spec, elements).frame;
  FrameSpec other = spec;
  other.elementCount = 3001;
  const Bytes longer =
      encodeChecked(other, elementsOf(spec.datatype, mixedWords(spec.datatype, random_, 3001)))
          .frame;
  for (std::size_t place = 0; place < 3; ++place) {
    const auto statusOf = [&](const FrameSpec& badSpec, std::span<const std::byte> bad,
                              std::uint64_t outputBytes) {
      Addends addends;
      for (std::size_t i = 0; i < 3; ++i) {
        if (i == place) {
          addends.addFrame(badSpec, bad);
        } else {
          addends.addFrame(spec, good);
        }
      }
      GuardedBuffer output(outputBytes);
      const ReduceResult result =
          decodeReduce(spec.datatype, 3000, addends.list(), 1.0F, output.bytes());
      EXPECT_TRUE(output.isIntact());
      EXPECT_EQ(result.addend, result.status == DecodeStatus::kOk ? 0 : place);
      return result.status;
    };
    Bytes bad = good;
    bad[kHeaderBytes + 1] |= std::byte{0x80};  // a reserved bit of the first descriptor
    EXPECT_EQ(statusOf(spec, good, 6000), DecodeStatus::kOk);
    EXPECT_EQ(statusOf(spec, bad, 6000), DecodeStatus::kBadDescriptor);
    EXPECT_EQ(statusOf(spec, std::span(good).first(staticBytes(spec) - 1), 6000),
              DecodeStatus::kTruncated);
    // Frames of another number of elements than are added up, whether or not their spec says so.
    EXPECT_EQ(statusOf(other, longer, 6002), DecodeStatus::kSpecMismatch);
    EXPECT_EQ(statusOf(spec, longer, 6002), DecodeStatus::kSpecMismatch);
  }
  Addends addends;
  addends.addElements(elements);
  addends.addFrame(spec, good);
  GuardedBuffer output(5999);
  const ReduceResult result =
      decodeReduce(spec.datatype, 3000, addends.list(), 1.0F, output.bytes());
  EXPECT_EQ(result.status, DecodeStatus::kOutputTooSmall);
  EXPECT_EQ(result.addend, 0U);
  EXPECT_TRUE(output.isIntact());
}

TEST_F(DecodeReduce, MinusZeroAloneStays) {
  for (const Format& format : kFormats) {
    const Words zeros(2 * kTileElements + 7, 0x80000000U);
    const FrameSpec spec = specOf(format, zeros.size());
    const Bytes elements = elementsOf(format.datatype, zeros);
    const Bytes frame = encodeChecked(spec, elements).frame;
    Addends one;
    one.addFrame(spec, frame);
    expectSum(format.datatype, one, 1.0F, elements);
    // With +0, which an empty tile holds, it does not.
    const Bytes plain = elementsOf(format.datatype, Words(zeros.size()));
    one.addFrame(spec, encodeChecked(spec, plain).frame);
    expectSum(format.datatype, one, 1.0F, plain);
  }
}

}  // namespace
}  // namespace zipccl::codec::testing
