// SPDX-License-Identifier: Apache-2.0
//
// The decision: every reason, forced strategies, and agreement of ranks that hold different data.

#include "policy/decide.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <string>
#include <vector>

#include "base/random.hpp"
#include "policy/chunks.hpp"
#include "policy/cost_model.hpp"
#include "policy_samples.hpp"

namespace zipccl::policy {
namespace {

using testing::bfloat16Call;
using testing::fastLink;
using testing::float32Call;
using testing::randomProfile;
using testing::slowLink;

constexpr std::uint64_t kLarge = 16U << 20;

void expectNative(const Decision& decision, Reason reason) {
  EXPECT_EQ(decision.strategy, Strategy::kNative) << describe(decision);
  EXPECT_EQ(decision.reason, reason) << describe(decision);
}

void expectStaged(const Decision& decision, Reason reason) {
  EXPECT_EQ(decision.strategy, Strategy::kStaged) << describe(decision);
  EXPECT_EQ(decision.reason, reason) << describe(decision);
  EXPECT_NE(decision.chunkCount, 0U);
}

TEST(Decide, CompressesOnASlowLinkOnly) {
  const Decision slow = decide(bfloat16Call(kLarge), slowLink());
  expectStaged(slow, Reason::kStagedIsFaster);
  EXPECT_LT(slow.stagedUs, slow.nativeUs);
  const Decision fast = decide(bfloat16Call(kLarge), fastLink());
  expectNative(fast, Reason::kNativeIsFaster);
  EXPECT_GT(fast.stagedUs, fast.nativeUs * kStagedGainNeeded);
}

TEST(Decide, LeavesSmallMessagesNativeWhereLatencyRules) {
  expectNative(decide(bfloat16Call(100), slowLink()), Reason::kNativeIsFaster);
}

TEST(Decide, HasNothingToDoForNoElementsOrOneRank) {
  expectNative(decide(bfloat16Call(0), slowLink()), Reason::kNothingToSend);
  CallFacts call = bfloat16Call(kLarge, 1);
  call.settings.strategy = StrategyChoice::kStaged;
  expectNative(decide(call, slowLink()), Reason::kNothingToSend);
}

TEST(Decide, StaysNativeWithoutAProfile) {
  expectNative(decide(bfloat16Call(kLarge), Profile{}), Reason::kNoProfile);
}

TEST(Decide, LeavesMemoryAloneUnlessToldOrGivenATable) {
  CallFacts call = bfloat16Call(kLarge);
  call.linkIsMemory = true;
  expectNative(decide(call, slowLink()), Reason::kLinkIsMemory);
  call.isProfileGiven = true;
  EXPECT_EQ(decide(call, slowLink()).reason, Reason::kStagedIsFaster);
  call.isProfileGiven = false;
  call.settings.strategy = StrategyChoice::kStaged;
  EXPECT_EQ(decide(call, slowLink()).reason, Reason::kStagedForced);
}

// As measured between two H200: 262 GB/s by NVLink, 25 through host memory.
TEST(Decide, LeavesLinksAloneThatAreNearlyAsFastAsACodecBesideThem) {
  const auto profileOf = [](double usOf8MiB, double usOf32MiB) {
    Profile profile{.encodeGBps = 1700.0, .decodeGBps = 1700.0, .frameUs = 10.0};
    profile.allGather.points = {
        {{4096, 20.0}, {std::uint64_t{8} << 20, usOf8MiB}, {std::uint64_t{32} << 20, usOf32MiB}}};
    profile.allGather.pointCount = 3;
    profile.allGather.overlap = 1.0F;
    return profile;
  };
  const Profile nvlink = profileOf(64.0, 160.0);
  const Profile hostMemory = profileOf(362.0, 1367.0);
  EXPECT_NEAR(codecLead(nvlink, 2), 3.24, 0.01);
  EXPECT_NEAR(codecLead(hostMemory, 2), 33.9, 0.1);
  EXPECT_LT(codecLead(hostMemory, 8), codecLead(hostMemory, 2));

  CallFacts call = bfloat16Call(std::uint64_t{64} << 20, 2);
  call.codecLeadNeeded = kSharedGpuLead;
  expectNative(decide(call, nvlink), Reason::kLinkIsFast);
  EXPECT_EQ(decide(call, hostMemory).reason, Reason::kStagedIsFaster);
  call.isProfileGiven = true;
  EXPECT_NE(decide(call, nvlink).reason, Reason::kLinkIsFast);
  call.isProfileGiven = false;
  call.settings.strategy = StrategyChoice::kStaged;
  EXPECT_EQ(decide(call, nvlink).reason, Reason::kStagedForced);
}

// As measured over TCP between two hosts, a rank's core moving what it compresses: at 1 Gbit/s and
// at 10, which the handshake may see as half as fast while TCP starts.
TEST(Decide, LeavesLinksAloneThatTakeTheCoreOfTheCodec) {
  const auto profileOf = [](double gbps) {
    Profile profile{.encodeGBps = 2.3, .decodeGBps = 2.6, .frameUs = 10.0};
    const auto usOf = [&](double mebibytes) { return mebibytes * 1048.576 / gbps; };
    profile.exchange.points = {
        {{4096, 50.0}, {std::uint64_t{2} << 20, usOf(2)}, {std::uint64_t{8} << 20, usOf(8)}}};
    profile.exchange.pointCount = 3;
    profile.exchange.overlap = 1.0F;
    profile.allGather = profile.exchange;
    return profile;
  };
  CallFacts call = bfloat16Call(std::uint64_t{64} << 20, 2);
  call.collective = CollectiveKind::kAlltoAll;
  call.codecLeadNeeded = kSharedCoreLead;
  expectNative(decide(call, profileOf(0.75)), Reason::kLinkIsFast);
  expectNative(decide(call, profileOf(0.375)), Reason::kLinkIsFast);
  EXPECT_EQ(decide(call, profileOf(0.119)).reason, Reason::kStagedIsFaster);
  call.codecLeadNeeded = 0.0;
  EXPECT_EQ(decide(call, profileOf(0.75)).reason, Reason::kStagedIsFaster);
}

TEST(Decide, FollowsAForcedStrategy) {
  CallFacts call = bfloat16Call(kLarge);
  call.settings.strategy = StrategyChoice::kNative;
  expectNative(decide(call, slowLink()), Reason::kNativeForced);
  call.settings.strategy = StrategyChoice::kStaged;
  expectStaged(decide(call, fastLink()), Reason::kStagedForced);
  expectStaged(decide(call, Profile{}), Reason::kStagedForced);
  call.elementCount = 1;
  expectStaged(decide(call, fastLink()), Reason::kStagedForced);
}

TEST(Decide, GoesNativeWhereAForcedStrategyCannotBe) {
  CallFacts call = bfloat16Call(kLarge);
  call.settings.strategy = StrategyChoice::kStaged;

  CallFacts disagreed = call;
  disagreed.compressionAgreed = false;
  expectNative(decide(disagreed, slowLink()), Reason::kSettingsDiffer);

  CallFacts otherType = call;
  otherType.hasFormat = false;
  expectNative(decide(otherType, slowLink()), Reason::kNoFormat);

  CallFacts switchedOff = call;
  switchedOff.settings.collectives.erase(CollectiveKind::kAllGather);
  expectNative(decide(switchedOff, slowLink()), Reason::kCollectiveOff);

  CallFacts noScratch = call;
  noScratch.settings.maxScratchBytes = 4096;
  expectNative(decide(noScratch, slowLink()), Reason::kScratchTooSmall);
}

TEST(Decide, TakesTheMinimumOfBytesLiterally) {
  CallFacts call = bfloat16Call(500);
  call.settings.strategy = StrategyChoice::kStaged;
  call.settings.minBytes = 1001;
  expectNative(decide(call, slowLink()), Reason::kBelowMinBytes);
  call.settings.minBytes = 1000;
  expectStaged(decide(call, slowLink()), Reason::kStagedForced);
}

TEST(Decide, LeavesMessagesNativeThatScratchWouldCutTooFine) {
  CallFacts call = bfloat16Call(kLarge, 512);
  expectNative(decide(call, slowLink()), Reason::kChunksTooSmall);
  call.settings.strategy = StrategyChoice::kStaged;
  expectStaged(decide(call, slowLink()), Reason::kStagedForced);
  CallFacts small = bfloat16Call(200'000, 512);
  small.settings.maxScratchBytes = std::uint64_t{512} << 20;
  EXPECT_NE(decide(small, slowLink()).reason, Reason::kChunksTooSmall);
}

TEST(Decide, SizesThePoolByWhatEarlierCallsNeeded) {
  CallFacts call = bfloat16Call(1000 * 1024);
  call.settings.strategy = StrategyChoice::kStaged;
  EXPECT_EQ(decide(call, {}).poolBytes, 36'096U);
  call.statistics = afterStaged({}, {.narrow = 64 * kPerTileUnit, .wide = 64 * kPerTileUnit});
  EXPECT_EQ(decide(call, {}).poolBytes, 65'024U);
}

TEST(Decide, ChoosesTheLayoutThatIsExpectedToBeSmaller) {
  CallFacts call = float32Call(kLarge);
  call.settings.strategy = StrategyChoice::kStaged;
  EXPECT_EQ(decide(call, {}).layout, FrameLayout::kNarrow);
  const auto withLowShare = [&](double share) {
    const auto low = static_cast<std::uint64_t>(2048.0 * share * kPerTileUnit);
    call.statistics =
        afterStaged({}, {.narrow = 30 * kPerTileUnit + low, .wide = 30 * kPerTileUnit});
    return decide(call, {}).layout;
  };
  EXPECT_EQ(withLowShare(0.0), FrameLayout::kNarrow);
  EXPECT_EQ(withLowShare(0.5), FrameLayout::kNarrow);
  EXPECT_EQ(withLowShare(0.95), FrameLayout::kNarrow);
  EXPECT_EQ(withLowShare(1.0), FrameLayout::kWide);
}

TEST(Decide, NeverChoosesWideWhereThereIsNone) {
  CallFacts call = bfloat16Call(kLarge);
  call.settings.strategy = StrategyChoice::kStaged;
  call.statistics = afterStaged({}, {.narrow = 640 * kPerTileUnit, .wide = 0});
  EXPECT_EQ(decide(call, {}).layout, FrameLayout::kNarrow);
}

TEST(Decide, ProbesDataThatDidNotCompressAfterAWhile) {
  CallFacts call = bfloat16Call(kLarge);
  call.statistics = afterStaged({}, {.narrow = 640 * kPerTileUnit, .wide = 640 * kPerTileUnit});
  std::uint64_t nativeCalls = 0;
  while (decide(call, slowLink()).strategy == Strategy::kNative) {
    expectNative(decide(call, slowLink()), Reason::kNativeIsFaster);
    call.statistics = afterNative(call.statistics);
    ASSERT_LT(++nativeCalls, 1000U);
  }
  EXPECT_EQ(nativeCalls, kProbeInterval - 1);
  expectStaged(decide(call, slowLink()), Reason::kProbe);

  CallFacts still = call;
  still.statistics =
      afterStaged(still.statistics, {.narrow = 640 * kPerTileUnit, .wide = 640 * kPerTileUnit});
  expectNative(decide(still, slowLink()), Reason::kNativeIsFaster);
  CallFacts better = call;
  better.statistics = afterStaged(better.statistics, {.narrow = 30 * kPerTileUnit, .wide = 30});
  expectStaged(decide(better, slowLink()), Reason::kStagedIsFaster);
}

TEST(Decide, NeverProbesWhereNoDataWouldPay) {
  CallFacts call = bfloat16Call(kLarge);
  for (int i = 0; i < 200; ++i) {
    expectNative(decide(call, fastLink()), Reason::kNativeIsFaster);
    call.statistics = afterNative(call.statistics);
  }
}

TEST(Decide, DescribesEveryReason) {
  for (int reason = 0; reason <= static_cast<int>(Reason::kProbe); ++reason) {
    Decision decision;
    decision.reason = static_cast<Reason>(reason);
    const std::string text = describe(decision);
    EXPECT_TRUE(text.starts_with("native: ")) << text;
    EXPECT_GT(text.size(), std::string("native: ").size());
  }
  EXPECT_EQ(describe({.strategy = Strategy::kStaged,
                      .reason = Reason::kStagedIsFaster,
                      .nativeUs = 1240.4,
                      .stagedUs = 811.6}),
            "staged: predicted 812 us staged, 1240 us native");
}

/// One rank: its own copy of everything, its own data, its own order of reading frames.
struct SimulatedRank {
  Random random;
  ClassStatistics statistics;
};

TEST(DecideProperty, RanksWithDifferentDataDecideAlike) {
  const std::uint64_t seed = freshSeed();
  SCOPED_TRACE(::testing::Message() << "seed " << seed);
  Random random(seed);
  constexpr int kCalls = 100'000;
  constexpr int kRanks = 4;
  std::vector<SimulatedRank> ranks;
  for (int rank = 0; rank < kRanks; ++rank) {
    ranks.push_back({Random(seed, static_cast<std::uint64_t>(rank) + 1), {}});
  }
  Profile profile = randomProfile(random);
  int stagedCalls = 0;
  int probes = 0;
  for (int i = 0; i < kCalls; ++i) {
    if (i % 1000 == 0) profile = random.chance(0.5) ? slowLink() : randomProfile(random);
    const std::uint64_t count = random.below(std::uint64_t{1} << random.between(10, 26));
    CallFacts facts = random.chance(0.5) ? bfloat16Call(count, kRanks) : float32Call(count, kRanks);
    facts.settings.maxScratchBytes = std::uint64_t{1} << random.between(12, 30);
    if (random.chance(0.2)) facts.settings.strategy = StrategyChoice::kStaged;

    std::vector<Decision> decisions;
    for (const SimulatedRank& rank : ranks) {
      facts.statistics = rank.statistics;
      decisions.push_back(decide(facts, profile));
      ASSERT_EQ(decisions.back(), decisions.front()) << "call " << i;
    }
    const Decision& decision = decisions.front();
    if (decision.strategy == Strategy::kNative) {
      for (SimulatedRank& rank : ranks) rank.statistics = afterNative(rank.statistics);
      continue;
    }
    ++stagedCalls;
    probes += decision.reason == Reason::kProbe ? 1 : 0;
    std::vector<FrameFacts> frames;
    for (SimulatedRank& rank : ranks) {
      const std::uint64_t tiles = count / 1024;
      FrameFacts frame{.layout = decision.layout, .tileCount = tiles};
      frame.lowTiles = facts.geometry.wideTileBytes == 0 ? 0 : rank.random.below(tiles + 1);
      const std::uint64_t upperBytes =
          tiles * (rank.random.chance(0.02) ? 640 : rank.random.between(20, 40));
      frame.extraBytes = upperBytes + (decision.layout == FrameLayout::kNarrow
                                           ? frame.lowTiles * facts.geometry.lowPlaneBytes
                                           : 0);
      frames.push_back(frame);
    }
    for (SimulatedRank& rank : ranks) {
      CallObservation observation(facts.geometry);
      const std::uint64_t first = rank.random.below(kRanks);
      for (std::uint64_t k = 0; k < kRanks; ++k) observation.add(frames[(first + k) % kRanks]);
      rank.statistics = afterStaged(rank.statistics, observation.extra());
    }
  }
  EXPECT_GT(stagedCalls, kCalls / 10);
  EXPECT_LT(stagedCalls, kCalls);
  RecordProperty("stagedCalls", stagedCalls);
  RecordProperty("probes", probes);
}

/// What an extravagant profile predicts must not be cast to an integer that cannot hold it.
TEST(Decide, DescribesPredictionsBeyondAllIntegers) {
  Decision decision;
  decision.reason = Reason::kNativeIsFaster;
  decision.nativeUs = 1e300;
  decision.stagedUs = std::numeric_limits<double>::infinity();
  EXPECT_EQ(describe(decision),
            "native: predicted more than 30000 years staged, more than 30000 years native");
  decision.stagedUs = 2.5;
  EXPECT_EQ(describe(decision), "native: predicted 3 us staged, more than 30000 years native");
}

}  // namespace
}  // namespace zipccl::policy
