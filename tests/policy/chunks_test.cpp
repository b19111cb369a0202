// SPDX-License-Identifier: Apache-2.0
//
// Chunks and pools: within their bounds, whatever the call.

#include "policy/chunks.hpp"

#include <gtest/gtest.h>

#include <algorithm>

#include "base/random.hpp"
#include "policy_samples.hpp"

namespace zipccl::policy {
namespace {

using testing::bfloat16Geometry;
using testing::float32Geometry;

std::uint64_t largestChunk(const ChunkPlan& plan) { return plan.chunkElements; }

TEST(Chunks, OneWhereEverythingFits) {
  const ChunkPlan plan =
      planChunks(CollectiveKind::kAllGather, bfloat16Geometry(), 4, 256U << 20, 1'000'001);
  EXPECT_EQ(plan, (ChunkPlan{.chunkElements = 1'000'001, .chunkCount = 1}));
}

TEST(Chunks, NoneForNothing) {
  EXPECT_EQ(planChunks(CollectiveKind::kAllGather, bfloat16Geometry(), 4, 256U << 20, 0),
            ChunkPlan{});
}

TEST(Chunks, NoneWhereNotOneGroupFits) {
  const FrameGeometry geometry = bfloat16Geometry();
  const std::uint64_t oneGroupBytes = frameBoundBytes(geometry, geometry.groupElements);
  EXPECT_EQ(planChunks(CollectiveKind::kAllGather, geometry, 4, 5 * oneGroupBytes - 1, 1'000'000),
            ChunkPlan{});
  const ChunkPlan plan =
      planChunks(CollectiveKind::kAllGather, geometry, 4, 5 * oneGroupBytes, 1'000'000);
  EXPECT_EQ(plan.chunkElements, geometry.groupElements);
  EXPECT_EQ(plan.chunkCount, 1'000'000 / geometry.groupElements + 1);
}

TEST(Chunks, FitAFewElementsIntoAScratchBelowOneGroup) {
  const FrameGeometry geometry = bfloat16Geometry();
  const std::uint64_t bytes = 5 * frameBoundBytes(geometry, 1500);
  EXPECT_EQ(planChunks(CollectiveKind::kAllGather, geometry, 4, bytes, 1500),
            (ChunkPlan{.chunkElements = 1500, .chunkCount = 1}));
}

TEST(Chunks, CoverEveryElementWithinTheScratch) {
  const std::uint64_t seed = freshSeed();
  SCOPED_TRACE(::testing::Message() << "seed " << seed);
  Random random(seed);
  for (int round = 0; round < 20000; ++round) {
    const FrameGeometry geometry = random.chance(0.5) ? bfloat16Geometry() : float32Geometry();
    const int rankCount = static_cast<int>(random.between(2, 600));
    const std::uint64_t scratchBytes = random.between(1, std::uint64_t{1} << random.between(1, 30));
    const std::uint64_t count = random.between(1, std::uint64_t{1} << random.between(1, 40));
    const ChunkPlan plan =
        planChunks(CollectiveKind::kAllGather, geometry, rankCount, scratchBytes, count);
    if (plan.chunkCount == 0) continue;
    SCOPED_TRACE(::testing::Message()
                 << rankCount << " ranks, " << scratchBytes << " bytes, " << count << " elements");
    ASSERT_LT((plan.chunkCount - 1) * plan.chunkElements, count);
    ASSERT_GE(plan.chunkCount * plan.chunkElements, count);
    if (plan.chunkCount > 1) {
      ASSERT_EQ(plan.chunkElements % geometry.groupElements, 0U);
    }
    ASSERT_LE(
        (static_cast<std::uint64_t>(rankCount) + 1) * frameBoundBytes(geometry, largestChunk(plan)),
        scratchBytes);
  }
}

/// Frames that a call holds at a time by its plan.
std::uint64_t framesHeld(CollectiveKind collective, int rankCount, const ChunkPlan& plan) {
  switch (collective) {
    case CollectiveKind::kAllGather:
      return plan.chunksInFlight * framesOfAllGather(rankCount);
    case CollectiveKind::kBroadcast:
      return plan.chunksInFlight;
    case CollectiveKind::kAllReduce:
    case CollectiveKind::kReduceScatter:
      return framesOfReduction(rankCount);
    case CollectiveKind::kAlltoAll:
    case CollectiveKind::kAlltoAllv:
    case CollectiveKind::kGather:
    case CollectiveKind::kScatter:
    case CollectiveKind::kSendRecv:
      return framesOfExchange(rankCount);
  }
  return 0;
}

TEST(Chunks, KeepEveryCollectiveOf512RanksWithinTheScratch) {
  const std::uint64_t seed = freshSeed();
  SCOPED_TRACE(::testing::Message() << "seed " << seed);
  Random random(seed);
  int planned = 0;
  for (int round = 0; round < 5000; ++round) {
    for (const CollectiveKind collective : kAllCollectiveKinds) {
      const FrameGeometry geometry = random.chance(0.5) ? bfloat16Geometry() : float32Geometry();
      const std::uint64_t scratchBytes =
          random.chance(0.5) ? std::uint64_t{256} << 20
                             : random.between(1, std::uint64_t{1} << random.between(1, 32));
      const std::uint64_t count = random.between(1, std::uint64_t{1} << random.between(1, 40));
      const ChunkPlan plan = planChunks(collective, geometry, 512, scratchBytes, count);
      if (plan.chunkCount == 0) continue;
      ++planned;
      SCOPED_TRACE(::testing::Message() << collectiveName(collective) << ", " << scratchBytes
                                        << " bytes, " << count << " elements");
      ASSERT_LT((plan.chunkCount - 1) * plan.chunkElements, count);
      ASSERT_GE(plan.chunkCount * plan.chunkElements, count);
      ASSERT_LE(framesHeld(collective, 512, plan) * frameBoundBytes(geometry, plan.chunkElements),
                scratchBytes);
    }
  }
  EXPECT_GT(planned, 10'000);
}

TEST(PairChunks, CoverEveryElementWithinTheScratchOnUpTo512Ranks) {
  const std::uint64_t seed = freshSeed();
  SCOPED_TRACE(::testing::Message() << "seed " << seed);
  Random random(seed);
  for (int round = 0; round < 20000; ++round) {
    const FrameGeometry geometry = random.chance(0.5) ? bfloat16Geometry() : float32Geometry();
    const int rankCount = static_cast<int>(random.between(2, 512));
    const std::uint64_t scratchBytes = random.between(1, std::uint64_t{1} << random.between(1, 30));
    const std::uint64_t count = random.between(1, std::uint64_t{1} << random.between(1, 40));
    const ChunkPlan plan =
        planChunks(CollectiveKind::kAlltoAll, geometry, rankCount, scratchBytes, count);
    if (plan.chunkCount == 0) continue;
    SCOPED_TRACE(::testing::Message()
                 << rankCount << " ranks, " << scratchBytes << " bytes, " << count << " elements");
    ASSERT_LT((plan.chunkCount - 1) * plan.chunkElements, count);
    ASSERT_GE(plan.chunkCount * plan.chunkElements, count);
    if (plan.chunkCount > 1) {
      ASSERT_EQ(plan.chunkElements % geometry.groupElements, 0U);
    }
    ASSERT_LE(kFramesOfPair * static_cast<std::uint64_t>(rankCount - 1) *
                  frameBoundBytes(geometry, largestChunk(plan)),
              scratchBytes);
  }
}

TEST(PairChunks, AreCutForOverlapWhereTheyAreLarge) {
  const FrameGeometry geometry = bfloat16Geometry();
  const auto chunks = [&](std::uint64_t bytes) {
    return planChunks(CollectiveKind::kAlltoAll, geometry, 4, std::uint64_t{1} << 30, bytes / 2)
        .chunkCount;
  };
  const OverlapGoal goal;
  EXPECT_EQ(chunks(2 * goal.chunkBytes - 2), 1U);
  EXPECT_EQ(chunks(2 * goal.chunkBytes), 2U);
  EXPECT_EQ(chunks(goal.chunks * goal.chunkBytes), goal.chunks);
  EXPECT_EQ(chunks(3 * goal.chunks * goal.chunkBytes), goal.chunks);
}

TEST(WholeMessages, GoInOneChunkOrNotAtAll) {
  const FrameGeometry geometry = bfloat16Geometry();
  const OverlapGoal whole{.chunks = 4, .chunkBytes = 1 << 20, .isPipelined = true, .isWhole = true};
  for (const int rankCount : {2, 3, 8}) {
    const std::uint64_t frames = framesOfMessages(rankCount);
    EXPECT_EQ(frames, 2 * static_cast<std::uint64_t>(rankCount - 1));
    const std::uint64_t elements = 10'000'000;
    const std::uint64_t enough = frames * frameBoundBytes(geometry, elements);
    const auto plan = [&](std::uint64_t scratchBytes) {
      return planChunks(CollectiveKind::kSendRecv, geometry, rankCount, scratchBytes, elements,
                        whole);
    };
    EXPECT_EQ(plan(enough), (ChunkPlan{elements, 1, 1}));
    EXPECT_EQ(plan(enough - frames), ChunkPlan{});
  }
}

TEST(Pool, IsTheDefaultBeforeAnythingIsKnown) {
  EXPECT_EQ(poolBytes(bfloat16Geometry(), FrameLayout::kNarrow, {}, 100 * 1024), 3712U);
  EXPECT_EQ(poolBytes(bfloat16Geometry(), FrameLayout::kNarrow, {}, 1023), 0U);
}

TEST(Pool, HoldsWhatTheLastCallNeededWithAMargin) {
  const FrameGeometry geometry = bfloat16Geometry();
  CallObservation observation(geometry);
  observation.add({.tileCount = 1000, .extraBytes = 64'000});
  const ClassStatistics statistics = afterStaged({}, observation.extra());
  EXPECT_EQ(poolBytes(geometry, FrameLayout::kNarrow, statistics, 1000 * 1024), 65'024U);
  EXPECT_EQ(poolBytes(geometry, FrameLayout::kNarrow, statistics, 500 * 1024), 32'512U);
}

TEST(Pool, NeverExceedsWhatAFrameMayHave) {
  const FrameGeometry geometry = float32Geometry();
  const ClassStatistics statistics =
      afterStaged({}, {.narrow = 5000 * kPerTileUnit, .wide = 5000 * kPerTileUnit});
  EXPECT_EQ(poolBytes(geometry, FrameLayout::kNarrow, statistics, 7 * 1024), 7U * 2688);
  EXPECT_EQ(poolBytes(geometry, FrameLayout::kWide, statistics, 7 * 1024), 7U * 640);
}

TEST(Pool, CoversAnyObservationOfTheSameCount) {
  const std::uint64_t seed = freshSeed();
  SCOPED_TRACE(::testing::Message() << "seed " << seed);
  Random random(seed);
  const FrameGeometry geometry = float32Geometry();
  for (int round = 0; round < 20000; ++round) {
    const std::uint64_t tiles = random.between(1, std::uint64_t{1} << random.between(1, 30));
    FrameFacts frame{.layout = random.chance(0.5) ? FrameLayout::kNarrow : FrameLayout::kWide,
                     .tileCount = tiles};
    frame.lowTiles = random.below(tiles + 1);
    const std::uint64_t upperBytes = random.below(tiles * 640 + 1) / 16 * 16;
    frame.extraBytes =
        upperBytes + (frame.layout == FrameLayout::kNarrow ? frame.lowTiles * 2048 : 0);
    CallObservation observation(geometry);
    observation.add(frame);
    const ClassStatistics statistics = afterStaged({}, observation.extra());
    const std::uint64_t count = tiles * 1024 + random.below(1024);
    ASSERT_GE(poolBytes(geometry, FrameLayout::kNarrow, statistics, count),
              upperBytes + frame.lowTiles * 2048);
    ASSERT_GE(poolBytes(geometry, FrameLayout::kWide, statistics, count), upperBytes);
    ASSERT_EQ(poolBytes(geometry, frame.layout, statistics, count) % geometry.poolAlignment, 0U);
  }
}

}  // namespace
}  // namespace zipccl::policy
