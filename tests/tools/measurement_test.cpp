// SPDX-License-Identifier: Apache-2.0
//
// Medians, spreads, bandwidths, and what is derived from samples.

#include "perf/measurement.hpp"

#include <gtest/gtest.h>

namespace zipccl::tools::perf {
namespace {

TEST(Spread, OrdersAndInterpolates) {
  const Spread odd = spreadOf({5.0, 1.0, 4.0, 2.0, 3.0});
  EXPECT_EQ(odd.least, 1.0);
  EXPECT_EQ(odd.lowerQuartile, 2.0);
  EXPECT_EQ(odd.median, 3.0);
  EXPECT_EQ(odd.upperQuartile, 4.0);
  EXPECT_EQ(odd.most, 5.0);
  const Spread even = spreadOf({4.0, 1.0, 3.0, 2.0});
  EXPECT_EQ(even.median, 2.5);
  EXPECT_EQ(even.lowerQuartile, 1.75);
  EXPECT_EQ(spreadOf({7.0}).median, 7.0);
  EXPECT_EQ(spreadOf({7.0}).percent(), 0.0);
  EXPECT_EQ(spreadOf({}).median, 0.0);
  EXPECT_DOUBLE_EQ(odd.percent(), 100.0 / 3.0);
  EXPECT_EQ(spreadOf({0.0, 0.0}).percent(), 0.0);
}

TEST(PairRatios, DividesPairByPair) {
  EXPECT_EQ(pairRatios({2.0, 9.0, 1.0}, {1.0, 3.0, 0.0}), (std::vector<double>{2.0, 3.0}));
}

TEST(Bandwidth, IsThatOfNcclTests) {
  // 64 MiB in 10 ms.
  EXPECT_DOUBLE_EQ(algorithmBandwidth(67108864, 10000.0), 6.7108864);
  EXPECT_EQ(algorithmBandwidth(100, 0.0), 0.0);
}

SizeResult sampleResult() {
  SizeResult result;
  result.outOfPlace.samples = {{.nativeUs = 10.0,
                                .zipcclUs = 40.0,
                                .nativeWireBytes = 300.0,
                                .zipcclWireBytes = 210.0,
                                .wasStaged = true},
                               {.nativeUs = 30.0,
                                .zipcclUs = 60.0,
                                .nativeWireBytes = 300.0,
                                .zipcclWireBytes = 190.0,
                                .wasStaged = true}};
  result.inPlace.samples = {{.nativeUs = 20.0,
                             .zipcclUs = 50.0,
                             .nativeWireBytes = 300.0,
                             .zipcclWireBytes = 200.0,
                             .wasStaged = true}};
  return result;
}

TEST(SizeResult, DerivesRatioAndSpeedup) {
  const SizeResult result = sampleResult();
  EXPECT_EQ(result.outOfPlace.speedups(), (std::vector<double>{0.25, 0.5}));
  EXPECT_EQ(result.nativeWireBytes(), 300.0);
  EXPECT_EQ(result.zipcclWireBytes(), 200.0);
  EXPECT_EQ(result.ratio(), 1.5);
  EXPECT_EQ(SizeResult().ratio(), 0.0);
}

TEST(SizeResult, NamesTheStrategyThatWasTaken) {
  SizeResult result = sampleResult();
  EXPECT_STREQ(result.strategy(), "staged");
  result.inPlace.samples.front().wasStaged = false;
  EXPECT_STREQ(result.strategy(), "mixed");
  for (PairSample& sample : result.outOfPlace.samples) sample.wasStaged = false;
  EXPECT_STREQ(result.strategy(), "native");
}

TEST(SizeResult, AddsUpEveryWrongElement) {
  SizeResult result;
  EXPECT_EQ(result.wrongElements(), 0U);
  result.outOfPlace.nativeWrong = 1;
  result.outOfPlace.zipcclWrong = 10;
  result.inPlace.nativeWrong = 100;
  result.inPlace.zipcclWrong = 1000;
  EXPECT_EQ(result.wrongElements(), 1111U);
}

}  // namespace
}  // namespace zipccl::tools::perf
