// SPDX-License-Identifier: Apache-2.0
//
// Generated numbers: the normal distribution held against its moments and its distribution
// function, and the rounding to every datatype held against the values of all its bit patterns.

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <vector>

#include "perf/element_writer.hpp"
#include "perf/random_bits.hpp"
#include "support/seeded_test.hpp"

namespace zipccl::tools::perf {
namespace {

class Normal : public zipccl::testing::SeededTest {};

TEST_F(Normal, HasTheMomentsOfItsDistribution) {
  constexpr int kCount = 1'000'000;
  RandomBits bits(random_(), 1, 2);
  double sums[5] = {};
  for (int i = 0; i < kCount; ++i) {
    const double x = standardNormal(bits);
    double power = 1.0;
    for (int moment = 1; moment <= 4; ++moment) sums[moment] += power *= x;
  }
  // Within six standard deviations of what a sample of this size gives.
  const double unit = 6.0 / std::sqrt(kCount);
  EXPECT_NEAR(sums[1] / kCount, 0.0, unit);
  EXPECT_NEAR(sums[2] / kCount, 1.0, unit * std::sqrt(2.0));
  EXPECT_NEAR(sums[3] / kCount, 0.0, unit * std::sqrt(15.0));
  EXPECT_NEAR(sums[4] / kCount, 3.0, unit * std::sqrt(96.0));
}

TEST_F(Normal, FollowsItsDistributionFunctionIntoTheTails) {
  constexpr int kCount = 4'000'000;
  // Around the seams of the ziggurat too: its tail begins at 3.654.
  const std::vector<double> places = {-4.5, -4.0, -3.7, -3.6, -3.0, -2.0, -1.0, -0.3, -0.05, 0.0,
                                      0.05, 0.2,  0.7,  1.5,  2.5,  3.5,  3.65, 3.66, 3.8,   4.2};
  std::vector<int> below(places.size(), 0);
  RandomBits bits(random_(), 3, 4);
  for (int i = 0; i < kCount; ++i) {
    const double x = standardNormal(bits);
    for (std::size_t place = 0; place < places.size(); ++place) below[place] += x < places[place];
  }
  for (std::size_t place = 0; place < places.size(); ++place) {
    const double probability = 0.5 * std::erfc(-places[place] / std::sqrt(2.0));
    const double deviation = std::sqrt(kCount * probability * (1.0 - probability));
    EXPECT_NEAR(below[place], kCount * probability, 6.0 * deviation + 1.0) << places[place];
  }
}

TEST_F(Normal, RepeatsForASeedAndDiffersBetweenStreams) {
  const std::uint64_t seed = random_();
  const auto draw = [](RandomBits bits) {
    std::vector<double> numbers(100);
    std::generate(numbers.begin(), numbers.end(), [&bits] { return standardNormal(bits); });
    return numbers;
  };
  const std::vector<double> numbers = draw(RandomBits(seed, 1, 2));
  EXPECT_EQ(numbers, draw(RandomBits(seed, 1, 2)));
  EXPECT_NE(numbers, draw(RandomBits(seed, 2, 2)));
  EXPECT_NE(numbers, draw(RandomBits(seed, 1, 3)));
  EXPECT_NE(numbers, draw(RandomBits(seed, 2, 1)));
  EXPECT_NE(numbers, draw(RandomBits(seed + 1, 1, 2)));
}

/// A small floating-point format, and what its bits mean: IEEE rules but for the top of the range.
struct Format {
  zipcclDataType_t datatype;
  int exponentBits;
  int mantissaBits;
  std::uint32_t largestBits;
};

constexpr Format kFormats[] = {{zipcclBfloat16, 8, 7, 0x7F7F},
                               {zipcclFloat16, 5, 10, 0x7BFF},
                               {zipcclFloat8e4m3, 4, 3, 0x7E},
                               {zipcclFloat8e5m2, 5, 2, 0x7B}};

double valueOf(const Format& format, std::uint32_t bits) {
  const int bias = (1 << (format.exponentBits - 1)) - 1;
  const auto exponent = static_cast<int>(bits >> format.mantissaBits);
  const auto mantissa = static_cast<double>(bits & ((1U << format.mantissaBits) - 1));
  const double unit = std::ldexp(1.0, 1 - bias - format.mantissaBits);
  if (exponent == 0) return mantissa * unit;
  return std::ldexp(mantissa * unit + std::ldexp(1.0, 1 - bias), exponent - 1);
}

std::uint32_t written(const Format& format, double value) {
  std::byte bytes[2] = {};
  writeElement(format.datatype, value, bytes);
  std::uint16_t bits = 0;
  std::memcpy(&bits, bytes, sizeof(bits));
  return bits;
}

TEST(WriteElement, KeepsEveryFiniteValueAndRoundsBetweenThem) {
  for (const Format& format : kFormats) {
    const std::uint32_t sign = 1U << (format.exponentBits + format.mantissaBits);
    for (std::uint32_t bits = 0; bits < format.largestBits; ++bits) {
      const double low = valueOf(format, bits);
      const double high = valueOf(format, bits + 1);
      ASSERT_LT(low, high);
      const double middle = (low + high) / 2;
      const std::uint32_t even = bits % 2 == 0 ? bits : bits + 1;
      ASSERT_EQ(written(format, low), bits) << format.datatype;
      ASSERT_EQ(written(format, middle), even) << format.datatype << ' ' << bits;
      ASSERT_EQ(written(format, -middle), sign | even) << format.datatype << ' ' << bits;
      // A double is wide enough to stand beside the middle; fp32, through which bf16 goes, is too.
      ASSERT_EQ(written(format, low + (middle - low) * 0.99), bits) << format.datatype;
      ASSERT_EQ(written(format, low + (middle - low) * 1.01), bits + 1) << format.datatype;
    }
    ASSERT_EQ(written(format, valueOf(format, format.largestBits)), format.largestBits);
    ASSERT_EQ(written(format, -0.0), sign);
  }
}

TEST(WriteElement, StopsAtTheLargestFiniteNumber) {
  EXPECT_EQ(written(kFormats[1], 1e6), 0x7BFFU);
  EXPECT_EQ(written(kFormats[2], -1e6), 0xFEU);
  EXPECT_EQ(written(kFormats[3], 1e6), 0x7BU);
}

TEST(WriteElement, WritesFp32AndFp64) {
  std::byte bytes[8] = {};
  float single = 0.0F;
  writeElement(zipcclFloat32, 0.1, bytes);
  std::memcpy(&single, bytes, sizeof(single));
  EXPECT_EQ(single, 0.1F);
  double twice = 0.0;
  writeElement(zipcclFloat64, 0.1, bytes);
  std::memcpy(&twice, bytes, sizeof(twice));
  EXPECT_EQ(twice, 0.1);
}

}  // namespace
}  // namespace zipccl::tools::perf
