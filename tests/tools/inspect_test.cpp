// SPDX-License-Identifier: Apache-2.0
//
// What `zipccl inspect` says of values: sizes against frames that were really made, moments and
// entropy against other computations and against what theory says of a Gaussian.

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <numbers>
#include <stdexcept>
#include <string>
#include <vector>

#include "inspect/inputs.hpp"
#include "inspect/scan.hpp"
#include "inspect/summary.hpp"
#include "inspect/zstd.hpp"
#include "support/seeded_test.hpp"
#include "support/small_floats.hpp"

namespace zipccl::tools::inspect {
namespace {

using codec::Datatype;
using codec::Layout;

constexpr Datatype kDatatypes[] = {Datatype::kBfloat16, Datatype::kFloat16, Datatype::kFloat32};

/// The bits of `value` as an element of `datatype`.
std::uint32_t bitsOf(Datatype datatype, float value) {
  switch (datatype) {
    case Datatype::kBfloat16:
      return zipccl::testing::bfloat16Bits(value);
    case Datatype::kFloat16:
      return zipccl::testing::float16Bits(value);
    case Datatype::kFloat32:
      break;
  }
  return std::bit_cast<std::uint32_t>(value);
}

/// The value of an element, by ldexp; NaN and infinity as such.
double valueOf(Datatype datatype, std::uint32_t bits) {
  const ElementFormat format = elementFormat(datatype);
  const std::uint32_t field = bits >> format.mantissaBits & (format.fields() - 1);
  const std::uint32_t mantissa = bits & ((1U << format.mantissaBits) - 1);
  const double sign = (bits >> (format.elementBits - 1) & 1U) != 0 ? -1.0 : 1.0;
  if (field == format.fields() - 1) {
    return mantissa == 0 ? sign * HUGE_VAL : std::numeric_limits<double>::quiet_NaN();
  }
  const std::uint32_t hidden = field == 0 ? 0 : 1U << format.mantissaBits;
  const int exponent = format.leastExponent() + static_cast<int>(field == 0 ? 0 : field - 1);
  return sign * std::ldexp(static_cast<double>(hidden + mantissa),
                           exponent - static_cast<int>(format.mantissaBits));
}

class Elements {
 public:
  explicit Elements(Datatype datatype) : datatype_(datatype) {}

  void add(std::uint32_t bits) {
    words_.push_back(bits);
    const auto* const begin = reinterpret_cast<const std::byte*>(&words_.back());
    bytes_.insert(bytes_.end(), begin, begin + codec::elementBytes(datatype_));
  }

  [[nodiscard]] Datatype datatype() const { return datatype_; }
  [[nodiscard]] const std::vector<std::uint32_t>& words() const { return words_; }
  [[nodiscard]] std::span<const std::byte> bytes() const { return bytes_; }

 private:
  Datatype datatype_;
  std::vector<std::uint32_t> words_;
  std::vector<std::byte> bytes_;
};

Elements gaussian(Random& random, Datatype datatype, double sigma, std::size_t count) {
  Elements elements(datatype);
  for (std::size_t n = 0; n < count; ++n) {
    elements.add(bitsOf(datatype, static_cast<float>(sigma * random.normal())));
  }
  return elements;
}

InputTensor tensorOf(const Elements& elements) {
  return {.name = "x",
          .dtype = "any",
          .shape = {elements.words().size()},
          .elementCount = elements.words().size(),
          .datatype = elements.datatype(),
          .bytes = elements.bytes()};
}

/// The statistics of each tensor.
std::vector<Statistics> scanned(std::span<const InputTensor> tensors, unsigned threads = 2,
                                bool usesZstd = false) {
  std::vector<Statistics> all;
  scan(tensors, {.threads = threads, .usesZstd = usesZstd, .progress = {}},
       [&all](std::size_t place, const Statistics& statistics) {
         EXPECT_EQ(place, all.size());
         all.push_back(statistics);
       });
  return all;
}

Statistics statisticsOf(const Elements& elements) {
  const InputTensor tensor = tensorOf(elements);
  return scanned(std::span(&tensor, 1)).at(0);
}

class Inspect : public zipccl::testing::SeededTest {
 protected:
  /// Runs of tiles of all kinds: Gaussians of many scales, zeros, zeros among values, any bits.
  Elements mixed(Datatype datatype, std::size_t count) {
    Elements elements(datatype);
    while (elements.words().size() < count) {
      const double sigma = std::exp2(-20.0 * random_.uniform());
      const double zeroShare = random_.chance(0.3) ? random_.uniform() : 0.0;
      const bool isWidened = random_.chance(0.5);
      const std::uint64_t kind = random_.below(8);
      const std::size_t end = std::min(count, elements.words().size() + random_.between(1, 9000));
      while (elements.words().size() < end) {
        auto bits = static_cast<std::uint32_t>(random_());
        if (kind > 1) bits = bitsOf(datatype, static_cast<float>(sigma * random_.normal()));
        if (kind == 1 || random_.chance(zeroShare)) bits = 0;
        if (datatype == Datatype::kFloat32 && isWidened) bits &= 0xFFFF0000U;
        elements.add(bits);
      }
    }
    return elements;
  }
};

TEST_F(Inspect, SizesAreThoseOfRealFrames) {
  std::uint64_t kinds[4] = {};
  for (const Datatype datatype : kDatatypes) {
    for (int round = 0; round < 12; ++round) {
      // Several pieces, and counts at the edges of tiles, groups and pieces.
      const std::uint64_t pieceElements = kPieceBytes / codec::elementBytes(datatype);
      std::uint64_t count = random_.between(1, 3 * pieceElements);
      if (round < 6) {
        const std::uint64_t edges[] = {1, 1023, 1024, 8192, pieceElements, 2 * pieceElements};
        count = edges[round] + (round == 0 ? 0 : random_.below(3));
      }
      const Elements elements = mixed(datatype, count);
      const Statistics statistics = statisticsOf(elements);
      ASSERT_EQ(statistics.elementCount, count);
      for (const Layout layout : {Layout::kNarrow, Layout::kWide}) {
        if (layout == Layout::kWide && datatype != Datatype::kFloat32) continue;
        codec::FrameSpec spec = {.datatype = datatype, .layout = layout, .elementCount = count};
        std::vector<std::byte> frame(codec::maxFrameBytes(datatype, count));
        const codec::EncodeResult any = codec::encode(spec, elements.bytes().data(), frame);
        for (const bool isFirstCall : {false, true}) {
          SCOPED_TRACE(::testing::Message() << static_cast<int>(datatype) << " " << count);
          spec.poolBytes = isFirstCall
                               ? codec::defaultPoolBytes(datatype, layout, count)
                               : codec::steadyPoolBytes(datatype, layout, count, any.extraBytes);
          const codec::EncodeResult real = codec::encode(spec, elements.bytes().data(), frame);
          EXPECT_EQ(wholeFrameBytes(datatype, layout, count, statistics.encoded, isFirstCall),
                    real.frameBytes());
          EXPECT_EQ(statistics.encoded.tiles, real.tiles);
          EXPECT_EQ(statistics.encoded.rawTiles, real.rawTiles);
          EXPECT_EQ(statistics.encoded.emptyTiles, real.emptyTiles);
          EXPECT_EQ(statistics.encoded.zeroCodeTiles, real.zeroCodeTiles);
          EXPECT_EQ(statistics.encoded.lowTiles, real.lowTiles);
          EXPECT_EQ(statistics.encoded.escapes, real.escapes);
          kinds[0] += real.rawTiles;
          kinds[1] += real.emptyTiles;
          kinds[2] += real.zeroCodeTiles;
          kinds[3] += real.lowTiles;
        }
      }
    }
  }
  for (const std::uint64_t tiles : kinds) EXPECT_GT(tiles, 0U);
}

TEST_F(Inspect, TheSmallerLayoutIsTaken) {
  Elements low(Datatype::kFloat32);
  Elements widened(Datatype::kFloat32);
  for (int n = 0; n < 64 * 1024; ++n) {
    const auto bits = std::bit_cast<std::uint32_t>(static_cast<float>(random_.normal()));
    low.add(bits | 1U);
    widened.add(bits & 0xFFFF0000U);
  }
  const TensorSummary wide = summarize(tensorOf(low), statisticsOf(low));
  EXPECT_EQ(wide.layout, Layout::kWide);
  EXPECT_EQ(wide.sizes.lowTiles, wide.sizes.tiles);
  EXPECT_NEAR(wide.sizes.bitsPerValue(), 27.3, 0.3);
  const TensorSummary narrow = summarize(tensorOf(widened), statisticsOf(widened));
  EXPECT_EQ(narrow.layout, Layout::kNarrow);
  EXPECT_NEAR(narrow.sizes.bitsPerValue(), 11.3, 0.2);
  EXPECT_NEAR(narrow.sizes.limitPerValue(), 10.54, 0.05);
  EXPECT_NEAR(wide.sizes.limitPerValue(), 26.54, 0.05);
}

TEST_F(Inspect, CountsFieldsAndTilesAsTheyAre) {
  for (const Datatype datatype : kDatatypes) {
    const Elements elements = mixed(datatype, random_.between(1, 1'500'000));
    const Statistics statistics = statisticsOf(elements);
    const ElementFormat format = elementFormat(datatype);
    std::array<std::uint64_t, Statistics::kFields> fields{};
    std::uint64_t zeros = 0;
    for (const std::uint32_t bits : elements.words()) {
      ++fields[bits >> format.mantissaBits & (format.fields() - 1)];
      zeros += valueOf(datatype, bits) == 0.0 ? 1 : 0;
    }
    EXPECT_EQ(statistics.exponents, fields);
    EXPECT_EQ(statistics.zeros, zeros);
    EXPECT_EQ(statistics.nonFinite, fields[format.fields() - 1]);
    const auto sum = [](const auto& counts) {
      std::uint64_t all = 0;
      for (const std::uint64_t count : counts) all += count;
      return all;
    };
    const codec::EncodeResult& encoded = statistics.encoded;
    EXPECT_EQ(sum(statistics.sixTiles), encoded.zeroCodeTiles);
    const std::uint64_t sevenTiles =
        encoded.tiles - encoded.zeroCodeTiles - encoded.rawTiles - encoded.emptyTiles;
    EXPECT_EQ(sum(statistics.sevenTiles), sevenTiles);
    EXPECT_EQ(sum(statistics.relative) + statistics.relativeZeroField, 1024 * sevenTiles);
  }
}

TEST_F(Inspect, TheWindowHoldsWhatIsNoEscape) {
  // Without zeros in it, so that all tiles are of kind seven.
  const Elements elements = gaussian(random_, Datatype::kBfloat16, 0.02, 64 * 1024);
  const Statistics statistics = statisticsOf(elements);
  ASSERT_EQ(statistics.encoded.zeroCodeTiles, 0U);
  std::uint64_t inside = 0;
  for (std::size_t code = 0; code < 7; ++code) {
    inside += statistics.relative[Statistics::kRelativeBase + code];
  }
  EXPECT_EQ(inside + statistics.encoded.escapes, statistics.elementCount);
  const TensorSummary summary = summarize(tensorOf(elements), statistics);
  EXPECT_DOUBLE_EQ(summary.sizes.insideShare().value(),
                   static_cast<double>(inside) / static_cast<double>(statistics.elementCount));
}

TEST_F(Inspect, MomentsOfEveryKindOfValue) {
  for (const Datatype datatype : kDatatypes) {
    const Elements elements = mixed(datatype, random_.between(1, 800'000));
    const Statistics statistics = statisticsOf(elements);
    // In two passes, with more digits.
    long double sum = 0;
    long double magnitudes = 0;
    std::uint64_t count = 0;
    for (const std::uint32_t bits : elements.words()) {
      const double value = valueOf(datatype, bits);
      if (!std::isfinite(value)) continue;
      sum += value;
      magnitudes += std::fabs(value);
      ++count;
    }
    const long double mean = sum / static_cast<long double>(count);
    long double squares = 0;
    for (const std::uint32_t bits : elements.words()) {
      const double value = valueOf(datatype, bits);
      if (std::isfinite(value)) squares += (value - mean) * (value - mean);
    }
    const auto number = static_cast<long double>(count);
    const auto meanMagnitude = static_cast<double>(magnitudes / number);
    const auto sigma = static_cast<double>(std::sqrt(squares / number));
    ASSERT_EQ(statistics.moments.count, count);
    EXPECT_NEAR(statistics.moments.mean, static_cast<double>(mean), 1e-12 * meanMagnitude);
    EXPECT_NEAR(statistics.moments.meanMagnitude(), meanMagnitude, 1e-12 * meanMagnitude);
    EXPECT_NEAR(statistics.moments.sigma(), sigma, 1e-10 * sigma);
  }
}

TEST_F(Inspect, EveryFloat16HasItsValue) {
  for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {
    Elements one(Datatype::kFloat16);
    one.add(bits);
    Statistics statistics;
    measureElements(Datatype::kFloat16, one.bytes(), {}, statistics);
    const double value = valueOf(Datatype::kFloat16, bits);
    ASSERT_EQ(statistics.nonFinite, std::isfinite(value) ? 0U : 1U) << bits;
    ASSERT_EQ(statistics.moments.mean, std::isfinite(value) ? value : 0.0) << bits;
  }
}

TEST_F(Inspect, EqualValuesHaveNoSpread) {
  for (const std::size_t count : {std::size_t{1}, std::size_t{777}, std::size_t{600'001}}) {
    for (const Datatype datatype : kDatatypes) {
      const auto value = static_cast<float>(random_.normal());
      Elements elements(datatype);
      for (std::size_t n = 0; n < count; ++n) elements.add(bitsOf(datatype, value));
      const Statistics statistics = statisticsOf(elements);
      EXPECT_EQ(statistics.moments.sigma(), 0.0) << value;
      EXPECT_EQ(statistics.moments.mean, valueOf(datatype, bitsOf(datatype, value)));
    }
  }
}

/// P(2^k <= |X| < 2^(k + 1)) for a centred Gaussian.
double octaveShare(double sigma, int k) {
  const double low = std::ldexp(1.0, k) / (sigma * std::numbers::sqrt2);
  return std::erf(2.0 * low) - std::erf(low);
}

TEST_F(Inspect, GaussianHasTheClosedForms) {
  constexpr std::size_t kCount = 1 << 20;
  for (const Datatype datatype : kDatatypes) {
    // Where neither end of the exponents of fp16 has a noticeable share.
    const double sigma = std::exp2(6.0 * random_.uniform() - 4.0);
    const Elements elements = gaussian(random_, datatype, sigma, kCount);
    const TensorSummary summary = summarize(tensorOf(elements), statisticsOf(elements));
    // Standard errors of a sample of that size, six of them.
    const double error = 6.0 / std::sqrt(static_cast<double>(kCount));
    EXPECT_NEAR(summary.sigma, sigma, sigma * error / std::numbers::sqrt2);
    EXPECT_NEAR(summary.mean, 0.0, sigma * error);
    EXPECT_NEAR(summary.meanMagnitude, sigma * std::sqrt(2.0 / std::numbers::pi),
                sigma * error * 0.61);
    double entropy = 0.0;
    double inside = 0.0;
    const double octave = std::floor(std::log2(sigma));
    for (int k = -60; k < 60; ++k) {
      const double share = octaveShare(sigma, k);
      if (share > 0.0) entropy -= share * std::log2(share);
    }
    // The best of all windows of seven (docs/theory.md section 3).
    for (int low = -8; low < -1; ++low) {
      double share = 0.0;
      for (int j = 0; j < 7; ++j) share += octaveShare(sigma, static_cast<int>(octave) + low + j);
      inside = std::max(inside, share);
    }
    const ElementFormat format = elementFormat(datatype);
    const double otherBits = format.elementBits - format.exponentBits;
    // Rounding to bf16 moves entropy by less than 0.002; a sample's entropy is off by some 1e-3.
    EXPECT_NEAR(summary.sizes.limitPerValue(), otherBits + entropy, 0.01) << sigma;
    EXPECT_NEAR(summary.sizes.insideShare().value(), inside, 0.0025) << sigma;
    EXPECT_LT(summary.sizes.limitPerValue(), summary.sizes.bitsPerValue());
  }
}

TEST_F(Inspect, EntropyOfKnownDistributions) {
  EXPECT_EQ(entropyBits({}), 0.0);
  EXPECT_EQ(entropyBits(std::vector<std::uint64_t>{0, 17, 0}), 0.0);
  EXPECT_NEAR(entropyBits(std::vector<std::uint64_t>(256, 3)), 8.0, 1e-12);
  EXPECT_NEAR(entropyBits(std::vector<std::uint64_t>{1, 1, 2, 4}), 1.75, 1e-12);
}

TEST_F(Inspect, ThreadsChangeNothing) {
  std::vector<Elements> all;
  for (int n = 0; n < 20; ++n) {
    all.push_back(
        mixed(kDatatypes[random_.below(3)], random_.below(n % 5 == 0 ? 2'000'000 : 3000)));
  }
  std::vector<InputTensor> tensors;
  tensors.reserve(all.size());
  for (const Elements& elements : all) tensors.push_back(tensorOf(elements));
  tensors[3].datatype.reset();  // not encoded
  const std::vector<Statistics> expected = scanned(tensors, 1);
  for (const unsigned threads : {2U, 7U}) {
    const std::vector<Statistics> found = scanned(tensors, threads);
    ASSERT_EQ(found.size(), expected.size());
    for (std::size_t i = 0; i < found.size(); ++i) {
      EXPECT_EQ(found[i].exponents, expected[i].exponents);
      EXPECT_EQ(found[i].encoded.escapes, expected[i].encoded.escapes);
      // Every bit: sums are made in the order of the pieces.
      EXPECT_EQ(found[i].moments.mean, expected[i].moments.mean);
      EXPECT_EQ(found[i].moments.squares, expected[i].moments.squares);
    }
  }
}

TEST_F(Inspect, WhatTheHandlerThrowsEndsTheScan) {
  const Elements elements = mixed(Datatype::kBfloat16, 3'000'000);
  const std::vector<InputTensor> tensors(5, tensorOf(elements));
  int calls = 0;
  EXPECT_THROW(scan(tensors, {.threads = 3, .usesZstd = false, .progress = {}},
                    [&calls](std::size_t, const Statistics&) {
                      if (++calls == 2) throw std::runtime_error("enough");
                    }),
               std::runtime_error);
  EXPECT_EQ(calls, 2);
}

TEST_F(Inspect, ZstdIsAskedForOtherDatatypesToo) {
  if (Zstd::version().empty()) GTEST_SKIP() << "built without zstd";
  const Elements elements = gaussian(random_, Datatype::kBfloat16, 1.0, 700'000);
  std::vector<InputTensor> tensors(2, tensorOf(elements));
  tensors[1].datatype.reset();
  const std::vector<Statistics> found = scanned(tensors, 2, true);
  // Exponents alone compress, to 10.6 bits at best.
  const double bits = 8.0 * static_cast<double>(found[0].zstdBytes) / 700'000;
  EXPECT_GT(bits, 10.5);
  EXPECT_LT(bits, 16.0);
  EXPECT_EQ(found[1].zstdBytes, found[0].zstdBytes);
  EXPECT_EQ(found[1].elementCount, 0U);
}

// ---- What is made of it -------------------------------------------------------------------------

TensorSummary summaryNamed(const std::string& name, std::uint64_t elements, double sigma,
                           bool isEncoded = true) {
  TensorSummary summary;
  summary.name = name;
  summary.dtype = isEncoded ? "BF16" : "I32";
  summary.elementCount = elements;
  summary.bytes = isEncoded ? 2 * elements : 4 * elements;
  summary.sigma = sigma;
  if (isEncoded) {
    summary.datatype = Datatype::kBfloat16;
    summary.sizes.elementCount = elements;
    summary.sizes.valueBytes = 2 * elements;
    summary.sizes.frameBytes = elements;
  }
  return summary;
}

TEST(InspectOrder, SortsWithWhatHasNoValueLast) {
  const std::vector<TensorSummary> tensors = {
      summaryNamed("b", 10, 3.0), summaryNamed("c", 30, 0.0, false), summaryNamed("a", 20, 7.0),
      summaryNamed("d", 20, 5.0)};
  using Places = std::vector<std::size_t>;
  EXPECT_EQ(sortedPlaces(tensors, SortKey::kFile, false), (Places{0, 1, 2, 3}));
  EXPECT_EQ(sortedPlaces(tensors, SortKey::kFile, true), (Places{3, 2, 1, 0}));
  EXPECT_EQ(sortedPlaces(tensors, SortKey::kName, false), (Places{2, 0, 1, 3}));
  EXPECT_EQ(sortedPlaces(tensors, SortKey::kElements, false), (Places{1, 2, 3, 0}));
  EXPECT_EQ(sortedPlaces(tensors, SortKey::kElements, true), (Places{0, 2, 3, 1}));
  EXPECT_EQ(sortedPlaces(tensors, SortKey::kSigma, false), (Places{2, 3, 0, 1}));
  EXPECT_EQ(sortedPlaces(tensors, SortKey::kSigma, true), (Places{0, 3, 2, 1}));
}

TEST(InspectTotals, AddUpByDatatype) {
  const std::vector<TensorSummary> tensors = {
      summaryNamed("a", 10, 1.0), summaryNamed("b", 5, 1.0, false), summaryNamed("c", 40, 1.0)};
  const std::vector<DtypeTotal> totals = totalsOf(tensors);
  ASSERT_EQ(totals.size(), 2U);
  EXPECT_EQ(totals[0].dtype, "BF16");
  EXPECT_EQ(totals[0].tensors, 2U);
  EXPECT_EQ(totals[0].elementCount, 50U);
  EXPECT_EQ(totals[0].wireBytes(), 50U);
  EXPECT_DOUBLE_EQ(totals[0].sizes.bitsPerValue(), 8.0);
  EXPECT_EQ(totals[1].dtype, "I32");
  EXPECT_EQ(totals[1].bytes, 20U);
  EXPECT_EQ(totals[1].wireBytes(), 20U);
}

TEST(InspectPatterns, FitPartsOrWholeNames) {
  EXPECT_TRUE(fitsPatterns("model.layers.0.mlp.up", {}));
  EXPECT_TRUE(fitsPatterns("model.layers.0.mlp.up", {"mlp"}));
  EXPECT_FALSE(fitsPatterns("model.layers.0.mlp.up", {"attn"}));
  EXPECT_TRUE(fitsPatterns("model.layers.0.mlp.up", {"attn", "layers.0"}));
  EXPECT_TRUE(fitsPatterns("model.layers.0.mlp.up", {"*.mlp.*"}));
  EXPECT_FALSE(fitsPatterns("model.layers.0.mlp.up", {"mlp.*"}));
  EXPECT_TRUE(fitsPatterns("model.layers.0.mlp.up", {"model.layers.[0-3].*"}));
  EXPECT_FALSE(fitsPatterns("model.layers.4.mlp.up", {"model.layers.[0-3].*"}));
}

}  // namespace
}  // namespace zipccl::tools::inspect
