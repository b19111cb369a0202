// SPDX-License-Identifier: Apache-2.0
//
// What a communicator learns from its calls: pools, layouts, and when compression does not pay.

#include <gtest/gtest.h>

#include <vector>

#include "all_gather_check.hpp"
#include "local_group.hpp"
#include "support/seeded_test.hpp"

namespace zipccl::collectives {
namespace {

using policy::FrameLayout;
using policy::Reason;
using testing::AllGatherCase;
using testing::checkAllGather;
using testing::Content;
using testing::LocalGroup;
using testing::makeShards;
using testing::testSettings;

class Adaptation : public zipccl::testing::SeededTest {
 protected:
  /// One verified call, with fresh data unless the case has a seed; what was decided on must be
  /// equal on all ranks.
  policy::Decision call(LocalGroup& group, AllGatherCase test) {
    if (test.seed == 0) test.seed = random_();
    const std::vector<testing::Shard> shards = makeShards(test, group.rankCount());
    group.runAll([&](Communicator& communicator) { checkAllGather(communicator, test, shards); });
    const policy::Decision decision = *group[0].statistics().lastDecision;
    for (int rank = 1; rank < group.rankCount(); ++rank) {
      EXPECT_EQ(*group[rank].statistics().lastDecision, decision) << "rank " << rank;
    }
    return decision;
  }

  static std::uint64_t dynamicCalls(LocalGroup& group) {
    return group[0].statistics().dynamicCalls;
  }
};

TEST_F(Adaptation, SecondCallOfAClassNeedsNoDynamicPart) {
  LocalGroup group(3, testSettings());
  // Rank 1 alone needs more than the first pool. The same data in each call, here and below: fresh
  // data may by chance have a few escapes more than the pool's margin has room for.
  AllGatherCase test{.elementCount = 50 * 1024,
                     .contents = {Content::kGaussian, Content::kManyEscapes, Content::kGaussian}};
  test.seed = random_() | 1;
  const std::uint64_t firstPool = call(group, test).poolBytes;
  EXPECT_EQ(dynamicCalls(group), 1U);
  const std::uint64_t secondPool = call(group, test).poolBytes;
  EXPECT_GT(secondPool, 5 * firstPool);
  EXPECT_EQ(dynamicCalls(group), 1U);
}

TEST_F(Adaptation, ClassesLearnApart) {
  LocalGroup group(2, testSettings());
  AllGatherCase large{.elementCount = 50 * 1024, .contents = {Content::kManyEscapes}};
  large.seed = random_() | 1;
  AllGatherCase small = large;
  small.elementCount = 5 * 1024;
  static_cast<void>(call(group, large));
  EXPECT_EQ(dynamicCalls(group), 1U);
  static_cast<void>(call(group, small));
  EXPECT_EQ(dynamicCalls(group), 2U);
  static_cast<void>(call(group, small));
  static_cast<void>(call(group, large));
  EXPECT_EQ(dynamicCalls(group), 2U);
}

TEST_F(Adaptation, ThePoolShrinksOnceDemandIsLongPast) {
  LocalGroup group(2, testSettings());
  const AllGatherCase demanding{.elementCount = 20 * 1024, .contents = {Content::kManyEscapes}};
  AllGatherCase modest = demanding;
  modest.contents = {Content::kGaussian};
  modest.seed = random_() | 1;
  static_cast<void>(call(group, demanding));
  const std::uint64_t largePool = call(group, modest).poolBytes;
  for (std::uint32_t i = 0; i < policy::ClassStatistics::kWindow; ++i) {
    static_cast<void>(call(group, modest));
  }
  EXPECT_LT(call(group, modest).poolBytes, largePool / 5);
  EXPECT_EQ(dynamicCalls(group), 1U);
}

TEST_F(Adaptation, FullFloat32GoesWideAndWidenedFloat32Narrow) {
  LocalGroup group(3, testSettings());
  AllGatherCase full{
      .datatype = Datatype::kFloat32, .elementCount = 20 * 1024, .contents = {Content::kGaussian}};
  full.seed = random_() | 1;
  AllGatherCase widened = full;
  widened.contents = {Content::kWidened};

  EXPECT_EQ(call(group, widened).layout, FrameLayout::kNarrow);
  EXPECT_EQ(call(group, widened).layout, FrameLayout::kNarrow);
  EXPECT_EQ(dynamicCalls(group), 0U);

  EXPECT_EQ(call(group, full).layout, FrameLayout::kNarrow);
  EXPECT_EQ(dynamicCalls(group), 1U) << "low halves in the dynamic part";
  EXPECT_EQ(call(group, full).layout, FrameLayout::kWide);
  EXPECT_EQ(call(group, full).layout, FrameLayout::kWide);
  EXPECT_EQ(dynamicCalls(group), 1U);

  for (std::uint32_t i = 0; i < policy::ClassStatistics::kWindow; ++i) {
    static_cast<void>(call(group, widened));
  }
  EXPECT_EQ(call(group, widened).layout, FrameLayout::kNarrow);
  EXPECT_EQ(dynamicCalls(group), 1U);
}

TEST_F(Adaptation, OneRankWithLowHalvesDecidesTheLayoutForAll) {
  LocalGroup group(3, testSettings());
  AllGatherCase test{.datatype = Datatype::kFloat32,
                     .elementCount = 20 * 1024,
                     .contents = {Content::kWidened, Content::kWidened, Content::kGaussian}};
  test.seed = random_() | 1;  // the same data in each call, as above
  static_cast<void>(call(group, test));
  EXPECT_EQ(call(group, test).layout, FrameLayout::kWide);
  EXPECT_EQ(dynamicCalls(group), 1U);
}

TEST_F(Adaptation, AutoStopsCompressingWhatDoesNotCompressAndTriesAgain) {
  CommunicatorSettings settings = testSettings(StrategyChoice::kAuto);
  settings.profile =
      policy::Profile{.encodeGBps = 100, .decodeGBps = 100, .frameUs = 0.1, .allGather = {}};
  settings.profile->allGather.pointCount = 2;
  settings.profile->allGather.points[0] = {0, 1.0};
  settings.profile->allGather.points[1] = {1'000'000, 1'000'001.0};
  LocalGroup group(2, settings);
  AllGatherCase test{.elementCount = 9 * 1024, .contents = {Content::kRandomBits}};
  EXPECT_EQ(call(group, test).reason, Reason::kStagedIsFaster);
  for (std::uint64_t i = 0; i + 1 < policy::kProbeInterval; ++i) {
    ASSERT_EQ(call(group, test).reason, Reason::kNativeIsFaster) << "native call " << i;
  }
  EXPECT_EQ(call(group, test).reason, Reason::kProbe);
  EXPECT_EQ(call(group, test).reason, Reason::kNativeIsFaster);
  test.contents = {Content::kGaussian};
  for (std::uint64_t i = 0; i + 2 < policy::kProbeInterval; ++i) {
    ASSERT_EQ(call(group, test).reason, Reason::kNativeIsFaster) << "native call " << i;
  }
  EXPECT_EQ(call(group, test).reason, Reason::kProbe);
  EXPECT_EQ(call(group, test).reason, Reason::kStagedIsFaster);
}

}  // namespace
}  // namespace zipccl::collectives
