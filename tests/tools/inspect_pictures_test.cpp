// SPDX-License-Identifier: Apache-2.0
//
// What the page of `zipccl inspect` draws: a Gaussian's exponents against samples, and bars that
// add up.

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <numeric>
#include <span>
#include <vector>

#include "inspect/gaussian.hpp"
#include "inspect/pictures.hpp"
#include "inspect/scan.hpp"
#include "support/seeded_test.hpp"
#include "support/small_floats.hpp"

namespace zipccl::tools::inspect {
namespace {

using codec::Datatype;

constexpr Datatype kPictured[] = {Datatype::kBfloat16, Datatype::kFloat16, Datatype::kFloat32};

void append(Datatype datatype, float value, std::vector<std::byte>& bytes) {
  auto bits = std::bit_cast<std::uint32_t>(value);
  if (datatype == Datatype::kBfloat16) bits = zipccl::testing::bfloat16Bits(value);
  if (datatype == Datatype::kFloat16) bits = zipccl::testing::float16Bits(value);
  const auto* const begin = reinterpret_cast<const std::byte*>(&bits);
  bytes.insert(bytes.end(), begin, begin + codec::elementBytes(datatype));
}

template <class Number>
Number sum(std::span<const Number> numbers) {
  return std::accumulate(numbers.begin(), numbers.end(), Number{});
}

class InspectPictures : public zipccl::testing::SeededTest {
 protected:
  /// Of up to a piece of elements.
  Statistics statisticsOf(Datatype datatype, std::size_t count, double sigma, double zeroShare) {
    std::vector<std::byte> bytes;
    for (std::size_t n = 0; n < count; ++n) {
      const bool isZero = random_.chance(zeroShare);
      append(datatype, isZero ? 0.0F : static_cast<float>(sigma * random_.normal()), bytes);
    }
    return PieceMeter(false).measure(datatype, bytes);
  }
};

TEST_F(InspectPictures, GaussianFieldsAreThoseOfSamples) {
  constexpr std::size_t kCount = 1 << 18;
  for (const Datatype datatype : kPictured) {
    // In fp16 also where subnormal numbers and infinities have their share.
    const double octave = datatype == Datatype::kFloat16 ? 32.0 * random_.uniform() - 17.0
                                                         : 60.0 * random_.uniform() - 30.0;
    const double sigma = std::exp2(octave);
    const Statistics statistics = statisticsOf(datatype, kCount, sigma, 0.0);
    const auto shares = gaussianFields(datatype, sigma);
    EXPECT_NEAR(sum(std::span<const double>(shares)), 1.0, 1e-12);
    for (std::size_t field = 0; field < Statistics::kFields; ++field) {
      const double found = static_cast<double>(statistics.exponents[field]) / kCount;
      // Six standard errors.
      const double error = 6.0 * std::sqrt(shares[field] / kCount) + 6.0 / kCount;
      EXPECT_NEAR(found, shares[field], error) << "field " << field << ", sigma " << sigma;
    }
  }
  EXPECT_EQ(gaussianFields(Datatype::kBfloat16, 0.0)[0], 1.0);
}

TEST_F(InspectPictures, BarsAddUp) {
  for (const Datatype datatype : kPictured) {
    // Zeros enough for zero codes in some tiles, and a tail.
    const std::size_t count = random_.between(100'000, 200'000);
    const Statistics statistics =
        statisticsOf(datatype, count, 0.02, random_.chance(0.5) ? 0.1 : 0);
    const Picture picture = pictureOf(datatype, statistics);
    const std::uint64_t coded =
        sum(std::span<const std::uint64_t>(picture.coded)) + picture.codedZeroField;
    const std::uint64_t escaped =
        sum(std::span<const std::uint64_t>(picture.escaped)) + picture.escapedZeroField;
    EXPECT_EQ(sum(std::span<const std::uint64_t>(picture.counts)) + picture.zeroField, count);
    EXPECT_EQ(escaped, statistics.encoded.escapes);
    const codec::EncodeResult& encoded = statistics.encoded;
    EXPECT_EQ(coded + escaped, 1024 * (encoded.tiles - encoded.rawTiles - encoded.emptyTiles));
    ASSERT_TRUE(picture.window.has_value());
    EXPECT_EQ(picture.window->second, encoded.zeroCodeTiles > encoded.tiles / 2 ? 6 : 7);
    // 0.02 is 1.28 times 2^-6.
    EXPECT_NEAR(picture.window->first + picture.window->second, -6 + 2, 1);
  }
}

TEST_F(InspectPictures, LinedUpWindowsHoldWhatTheirGaussiansSay) {
  Statistics all;
  for (int n = 0; n < 6; ++n) {
    all.add(statisticsOf(Datatype::kBfloat16, 40 * 1024, std::exp2(-8.0 * random_.uniform()), 0.0));
  }
  const std::optional<Picture> picture = relativePictureOf(all);
  ASSERT_TRUE(picture.has_value());
  EXPECT_EQ(picture->window, std::pair(0, 7));
  const auto elements =
      static_cast<double>(1024 * sum(std::span<const std::uint64_t>(all.sevenTiles)));
  EXPECT_EQ(static_cast<double>(sum(std::span<const std::uint64_t>(picture->counts)) +
                                picture->zeroField),
            elements);
  EXPECT_EQ(sum(std::span<const std::uint64_t>(picture->escaped)) + picture->escapedZeroField,
            all.encoded.escapes);
  for (std::size_t i = 0; i < picture->counts.size(); ++i) {
    // The scale of a tile is known to a sixteenth of an octave.
    EXPECT_NEAR(static_cast<double>(picture->counts[i]) / elements, picture->expected[i], 0.01)
        << picture->firstExponent + static_cast<int>(i);
  }
  EXPECT_FALSE(relativePictureOf(Statistics{}).has_value());
}

}  // namespace
}  // namespace zipccl::tools::inspect
