// SPDX-License-Identifier: Apache-2.0
//
// The cost model: exact on points it was given, and monotonic in everything that should cost.

#include "policy/cost_model.hpp"

#include <gtest/gtest.h>

#include <limits>

#include "base/random.hpp"
#include "policy_samples.hpp"

namespace zipccl::policy {
namespace {

using testing::affineLink;
using testing::bfloat16Call;
using testing::bfloat16Geometry;
using testing::float32Call;
using testing::randomProfile;
using testing::slowLink;

constexpr double kInfinity = std::numeric_limits<double>::infinity();

LinkProfile threePoints() {
  LinkProfile link;
  link.pointCount = 3;
  link.points[0] = {1000, 10.0};
  link.points[1] = {2000, 14.0};
  link.points[2] = {10'000, 94.0};
  return link;
}

TEST(LinkUs, IsExactOnItsPointsAndStraightBetweenThem) {
  const LinkProfile link = threePoints();
  EXPECT_DOUBLE_EQ(linkUs(link, 0), 10.0);
  EXPECT_DOUBLE_EQ(linkUs(link, 1000), 10.0);
  EXPECT_DOUBLE_EQ(linkUs(link, 1500), 12.0);
  EXPECT_DOUBLE_EQ(linkUs(link, 2000), 14.0);
  EXPECT_DOUBLE_EQ(linkUs(link, 6000), 54.0);
  EXPECT_DOUBLE_EQ(linkUs(link, 10'000), 94.0);
}

TEST(LinkUs, GoesOnWithTheLastSlope) { EXPECT_DOUBLE_EQ(linkUs(threePoints(), 20'000), 194.0); }

TEST(StagedUs, AddsEncodeLinkAndDecodeOfEveryChunk) {
  CallFacts call = bfloat16Call(2'097'152, 3);
  const ChunkPlan plan{.chunkElements = 1'048'576, .chunkCount = 2};
  const Profile profile{
      .encodeGBps = 2.0, .decodeGBps = 4.0, .frameUs = 10.0, .allGather = affineLink(100, 1.0)};
  const double chunkBytes = 2'097'152;
  const double encodeUs = 10 + chunkBytes / 2000;
  const double decodeUs = 2 * (10 + chunkBytes / 4000);
  const double wireUs = 100 + (512 + 1024 * (1413 + 36)) / 1000.0;
  EXPECT_NEAR(stagedUs(call, profile, plan, FrameLayout::kNarrow, {}),
              2 * (encodeUs + wireUs + decodeUs), 1e-6);
}

TEST(StagedUs, CountsTheLastChunkByItsOwnSize) {
  const CallFacts call = bfloat16Call(8192 + 1, 2);
  const Profile profile = slowLink();
  const double both = stagedUs(call, profile, {8192, 2}, FrameLayout::kNarrow, {});
  const double first =
      stagedUs(bfloat16Call(8192, 2), profile, {8192, 1}, FrameLayout::kNarrow, {});
  const double last = stagedUs(bfloat16Call(1, 2), profile, {1, 1}, FrameLayout::kNarrow, {});
  EXPECT_DOUBLE_EQ(both, first + last);
}

TEST(StagedUs, HidesTheShorterOfCodecAndLinkBehindTheOther) {
  const CallFacts call = bfloat16Call(3'000'000, 3);
  const ChunkPlan plan{.chunkElements = 1'048'576, .chunkCount = 3, .chunksInFlight = 2};
  for (const double linkGBps : {0.01, 100.0}) {
    Profile profile{.encodeGBps = 2.0,
                    .decodeGBps = 4.0,
                    .frameUs = 10.0,
                    .allGather = affineLink(100, linkGBps)};
    const auto us = [&](const ChunkPlan& planned) {
      return stagedUs(call, profile, planned, FrameLayout::kNarrow, {});
    };
    const auto codecUs = [](double elements) {
      const double bytes = 2 * elements;
      return 10 + bytes / 2000 + 2 * (10 + bytes / 4000);
    };
    const double lastElements = 3'000'000 - 2 * 1'048'576;
    const double serialUs = us(plan);
    profile.allGather.overlap = 1.0F;
    ChunkPlan oneByOne = plan;
    oneByOne.chunksInFlight = 1;
    EXPECT_DOUBLE_EQ(us(oneByOne), serialUs);
    const double hiddenUs = serialUs - us(plan);
    if (linkGBps < 1.0) {
      EXPECT_NEAR(hiddenUs, codecUs(1'048'576) + codecUs(lastElements), 1e-6 * serialUs);
    } else {
      const double transfersUs = serialUs - 2 * codecUs(1'048'576) - codecUs(lastElements);
      EXPECT_GT(hiddenUs, 0.5 * transfersUs);
      EXPECT_LT(hiddenUs, transfersUs) << "the first transfer has nothing to hide behind";
    }
    profile.allGather.overlap = 0.5F;
    EXPECT_NEAR(serialUs - us(plan), hiddenUs / 2, 1e-6 * serialUs);
    profile.exchange = affineLink(100, linkGBps);
    EXPECT_NEAR(serialUs - us(plan), hiddenUs / 2, 1e-6 * serialUs) << "the other link's overlap";
  }
}

/// A message to one rank is no exchange with all: taken for one, its native time would be several
/// times too long, and compression would look better than it is.
TEST(NativeUs, CountsAMessageBetweenTwoRanksOnce) {
  Profile profile = slowLink();
  profile.exchange = affineLink(50, 0.1);
  CallFacts call = bfloat16Call(3 << 20, 4);
  call.collective = CollectiveKind::kAlltoAll;
  const double exchangeUs = nativeUs(call, profile);
  call.collective = CollectiveKind::kSendRecv;
  EXPECT_NEAR(nativeUs(call, profile) - 50, (exchangeUs - 50) / 3, 1e-6 * exchangeUs);
  call.rankCount = 2;
  EXPECT_DOUBLE_EQ(nativeUs(call, profile), exchangeUs);
}

TEST(StagedUs, OverlapsTheChunksOfAnExchangeWithinThePairs) {
  CallFacts call = bfloat16Call(4 << 20, 4);
  call.collective = CollectiveKind::kAlltoAll;
  const ChunkPlan plan = planChunks(call.collective, call.geometry, call.rankCount,
                                    call.settings.maxScratchBytes, call.elementCount);
  ASSERT_GT(plan.chunkCount, 1U);
  Profile profile = slowLink();
  profile.exchange = affineLink(50, 0.1);
  const double serialUs = stagedUs(call, profile, plan, FrameLayout::kNarrow, {});
  profile.exchange.overlap = 1.0F;
  EXPECT_LT(stagedUs(call, profile, plan, FrameLayout::kNarrow, {}), serialUs);
  // An AllReduce gathers too, over a link that does not work by itself here.
  call.collective = CollectiveKind::kAllReduce;
  Profile none = profile;
  none.exchange.overlap = 0.0F;
  EXPECT_DOUBLE_EQ(stagedUs(call, profile, plan, FrameLayout::kNarrow, {}),
                   stagedUs(call, none, plan, FrameLayout::kNarrow, {}));
}

class CostModelProperty : public ::testing::Test {
 protected:
  const std::uint64_t seed = freshSeed();
  ::testing::ScopedTrace trace{__FILE__, __LINE__, ::testing::Message() << "seed " << seed};
  Random random{seed};
};

TEST_F(CostModelProperty, LinkTimeNeverFallsAsBytesRise) {
  for (int round = 0; round < 20000; ++round) {
    const Profile profile = randomProfile(random);
    ASSERT_TRUE(isUsable(profile));
    const std::uint64_t bytes = random.below(std::uint64_t{1} << random.between(1, 40));
    const std::uint64_t more = bytes + random.below(1 << 24);
    // Two lines meet in a point; their values there may differ in the last bits.
    ASSERT_LE(linkUs(profile.allGather, bytes), linkUs(profile.allGather, more) * (1 + 1e-12));
  }
}

TEST_F(CostModelProperty, StagedTimeRisesWithWhatCosts) {
  for (int round = 0; round < 20000; ++round) {
    const std::uint64_t count = random.between(1, std::uint64_t{1} << random.between(1, 34));
    CallFacts call = random.chance(0.5) ? bfloat16Call(count) : float32Call(count);
    call.rankCount = static_cast<int>(random.between(2, 64));
    const ChunkPlan plan = planChunks(CollectiveKind::kAllGather, call.geometry, call.rankCount,
                                      call.settings.maxScratchBytes, count);
    ASSERT_NE(plan.chunkCount, 0U);
    const ExtraSpace extra{.narrow = random.below(600 * kPerTileUnit),
                           .wide = random.below(600 * kPerTileUnit)};
    const ClassStatistics statistics = afterStaged({}, extra);
    const FrameLayout layout = call.geometry.wideTileBytes != 0 && random.chance(0.5)
                                   ? FrameLayout::kWide
                                   : FrameLayout::kNarrow;
    Profile profile = randomProfile(random);
    profile.allGather.overlap = static_cast<float>(random.uniform());
    const double us = stagedUs(call, profile, plan, layout, statistics);
    const auto isNotLess = [&](double other) { return us <= other * (1 + 1e-12); };

    Profile slower = profile;
    slower.encodeGBps *= 0.5;
    ASSERT_TRUE(isNotLess(stagedUs(call, slower, plan, layout, statistics)));
    slower = profile;
    slower.decodeGBps *= 0.5;
    ASSERT_TRUE(isNotLess(stagedUs(call, slower, plan, layout, statistics)));
    slower = profile;
    for (LinkPoint& point : slower.allGather.points) point.elapsedUs *= 2;
    ASSERT_TRUE(isNotLess(stagedUs(call, slower, plan, layout, statistics)));
    slower = profile;
    slower.allGather.overlap *= 0.5F;
    ASSERT_TRUE(isNotLess(stagedUs(call, slower, plan, layout, statistics)));

    const ClassStatistics worse =
        afterStaged({}, {.narrow = extra.narrow + 1000, .wide = extra.wide + 1000});
    ASSERT_TRUE(isNotLess(stagedUs(call, profile, plan, layout, worse)));

    CallFacts wider = call;
    ++wider.rankCount;
    ASSERT_TRUE(isNotLess(stagedUs(wider, profile, plan, layout, statistics)));
  }
}

TEST_F(CostModelProperty, StagedTimeRisesWithTheCountOnAnAffineLink) {
  for (int round = 0; round < 20000; ++round) {
    Profile profile = randomProfile(random);
    profile.allGather = affineLink(1 + random.uniform() * 100, 0.01 + random.uniform() * 100);
    const auto us = [&](std::uint64_t count) {
      const CallFacts call = bfloat16Call(count, 4);
      const ChunkPlan plan = planChunks(CollectiveKind::kAllGather, call.geometry, 4,
                                        call.settings.maxScratchBytes, count);
      return stagedUs(call, profile, plan, FrameLayout::kNarrow, {});
    };
    // A tile that just became whole is smaller than the tail it was, so compare a tile apart.
    const std::uint64_t count = random.between(1, std::uint64_t{1} << random.between(1, 32));
    const std::uint64_t more = count + 1024 + random.below(1 << 20);
    ASSERT_LE(us(count), us(more) * (1 + 1e-12)) << count << " and " << more << " elements";
  }
}

TEST(Profile, IsUsableOnlyIfEveryNumberIs) {
  const Profile good = slowLink();
  EXPECT_TRUE(isUsable(good));
  EXPECT_FALSE(isUsable(Profile{}));
  const auto with = [&](auto change) {
    Profile profile = good;
    change(profile);
    return isUsable(profile);
  };
  EXPECT_FALSE(with([](Profile& p) { p.encodeGBps = 0; }));
  EXPECT_FALSE(with([](Profile& p) { p.encodeGBps = kInfinity; }));
  EXPECT_FALSE(with([](Profile& p) { p.decodeGBps = -1; }));
  EXPECT_FALSE(with([](Profile& p) { p.frameUs = std::numeric_limits<double>::quiet_NaN(); }));
  EXPECT_FALSE(with([](Profile& p) { p.frameUs = -1; }));
  EXPECT_FALSE(with([](Profile& p) { p.allGather.pointCount = 0; }));
  EXPECT_FALSE(with([](Profile& p) { p.allGather.pointCount = 1; }))
      << "a latency taken for a bandwidth";
  EXPECT_FALSE(with([](Profile& p) { p.allGather.pointCount = LinkProfile::kMaxPoints + 1; }));
  EXPECT_FALSE(with([](Profile& p) { p.allGather.points[0].elapsedUs = 0; }));
  EXPECT_FALSE(with([](Profile& p) { p.allGather.points[1].elapsedUs = kInfinity; }));
  EXPECT_FALSE(with([](Profile& p) { p.allGather.points[1].bytesPerRank = 0; }));
  EXPECT_FALSE(with([](Profile& p) { p.allGather.points[1].elapsedUs = 49; }));
  EXPECT_TRUE(with([](Profile& p) { p.allGather.overlap = 1.0F; }));
  EXPECT_FALSE(with([](Profile& p) { p.allGather.overlap = 1.01F; }));
  EXPECT_FALSE(with([](Profile& p) { p.allGather.overlap = -0.01F; }));
  EXPECT_FALSE(
      with([](Profile& p) { p.allGather.overlap = std::numeric_limits<float>::quiet_NaN(); }));
}

}  // namespace
}  // namespace zipccl::policy
