// SPDX-License-Identifier: Apache-2.0
//
// The statistics that all ranks share: what a call's frames needed, and for how long it is
// remembered.

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "base/random.hpp"
#include "policy/facts.hpp"
#include "policy_samples.hpp"

namespace zipccl::policy {
namespace {

using testing::bfloat16Geometry;
using testing::float32Geometry;

TEST(CallObservation, KeepsTheMostDemandingFrame) {
  CallObservation observation(bfloat16Geometry());
  observation.add({.tileCount = 4, .extraBytes = 128});
  observation.add({.tileCount = 4, .extraBytes = 256});
  observation.add({.tileCount = 4, .extraBytes = 64});
  EXPECT_EQ(observation.extra().narrow, 64 * kPerTileUnit);
  EXPECT_EQ(observation.extra().wide, 64 * kPerTileUnit);
}

TEST(CallObservation, RoundsUpSoThatThePoolSuffices) {
  CallObservation observation(bfloat16Geometry());
  observation.add({.tileCount = 3, .extraBytes = 16});
  EXPECT_EQ(observation.extra().narrow, (16 * kPerTileUnit + 2) / 3);
}

TEST(CallObservation, IgnoresFramesWithoutTiles) {
  CallObservation observation(bfloat16Geometry());
  observation.add({.tileCount = 0, .extraBytes = 0});
  EXPECT_EQ(observation.extra(), ExtraSpace{});
}

TEST(CallObservation, TellsLowHalvesFromTheRestInBothLayouts) {
  CallObservation narrow(float32Geometry());
  narrow.add({.layout = FrameLayout::kNarrow,
              .tileCount = 10,
              .extraBytes = 10 * 30 + 4 * 2048,
              .lowTiles = 4});
  CallObservation wide(float32Geometry());
  wide.add({.layout = FrameLayout::kWide, .tileCount = 10, .extraBytes = 10 * 30, .lowTiles = 4});
  EXPECT_EQ(narrow.extra(), wide.extra());
  EXPECT_EQ(wide.extra().wide, 30 * kPerTileUnit);
  EXPECT_EQ(wide.extra().narrow, ((10 * 30 + 4 * 2048) * kPerTileUnit + 9) / 10);
}

TEST(ClassStatistics, RemembersTheLastCallsOfTheWindowOnly) {
  ClassStatistics statistics;
  statistics = afterStaged(statistics, {.narrow = 9000, .wide = 900});
  for (std::uint32_t i = 1; i < ClassStatistics::kWindow; ++i) {
    statistics = afterStaged(statistics, {.narrow = 100 + i, .wide = 10});
    EXPECT_EQ(statistics.largest(), (ExtraSpace{.narrow = 9000, .wide = 900}));
  }
  statistics = afterStaged(statistics, {.narrow = 50, .wide = 5});
  EXPECT_EQ(statistics.largest(),
            (ExtraSpace{.narrow = 100 + ClassStatistics::kWindow - 1, .wide = 10}));
  EXPECT_EQ(statistics.observed, ClassStatistics::kWindow);
}

TEST(ClassStatistics, ForgetsWhatIsOlderThanAStreakOfNativeCalls) {
  ClassStatistics statistics = afterStaged({}, {.narrow = 9000, .wide = 9000});
  statistics = afterNative(afterNative(statistics));
  EXPECT_EQ(statistics.nativeStreak, 2U);
  EXPECT_EQ(statistics.largest().narrow, 9000U);
  statistics = afterStaged(statistics, {.narrow = 7, .wide = 7});
  EXPECT_EQ(statistics.nativeStreak, 0U);
  EXPECT_EQ(statistics.largest(), (ExtraSpace{.narrow = 7, .wide = 7}));
}

TEST(ClassStatistics, IsTheSameOnRanksThatReadFramesInAnyOrder) {
  const std::uint64_t seed = freshSeed();
  SCOPED_TRACE(::testing::Message() << "seed " << seed);
  Random random(seed);
  constexpr std::size_t kRanks = 5;
  std::vector<ClassStatistics> byRank(kRanks);
  for (int call = 0; call < 2000; ++call) {
    if (random.chance(0.2)) {
      for (ClassStatistics& statistics : byRank) statistics = afterNative(statistics);
      continue;
    }
    std::vector<FrameFacts> frames(random.between(1, 12));
    for (FrameFacts& frame : frames) {
      frame.layout = random.chance(0.5) ? FrameLayout::kNarrow : FrameLayout::kWide;
      frame.tileCount = random.below(5000);
      frame.lowTiles = random.below(frame.tileCount + 1);
      frame.extraBytes = random.below(frame.tileCount * 2688 + 1);
    }
    for (ClassStatistics& statistics : byRank) {
      for (std::size_t i = frames.size(); i > 1; --i) {
        std::swap(frames[i - 1], frames[random.below(i)]);
      }
      CallObservation observation(float32Geometry());
      for (const FrameFacts& frame : frames) observation.add(frame);
      statistics = afterStaged(statistics, observation.extra());
    }
    for (const ClassStatistics& statistics : byRank) ASSERT_EQ(statistics, byRank[0]);
  }
}

}  // namespace
}  // namespace zipccl::policy
