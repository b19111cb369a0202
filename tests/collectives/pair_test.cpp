// SPDX-License-Identifier: Apache-2.0
//
// AlltoAll, AlltoAllv and groups of Send and Recv, bit for bit: 1 to 8 ranks, every datatype,
// counts around every border, uneven parts, any alignment, every kind of content on one rank or
// all.

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <string>
#include <tuple>
#include <vector>

#include "collectives/frame_geometry.hpp"
#include "collectives/send_receive.hpp"
#include "local_group.hpp"
#include "pair_check.hpp"
#include "policy/chunks.hpp"
#include "support/sanitized.hpp"
#include "support/seeded_test.hpp"
#include "timed_codec.hpp"

namespace zipccl::collectives {
namespace {

using testing::checkPairs;
using testing::Content;
using testing::kAllContents;
using testing::kAllWays;
using testing::LocalGroup;
using testing::PairCase;
using testing::testSettings;
using testing::Way;

void check(LocalGroup& group, const PairCase& test) {
  group.runAll([&](Communicator& communicator) { checkPairs(communicator, test); });
}

/// counts[i][j] below `bound`, a third of them zero.
std::vector<std::vector<std::uint64_t>> unevenCounts(Random& random, int rankCount,
                                                     std::uint64_t bound) {
  const auto ranks = static_cast<std::size_t>(rankCount);
  std::vector counts(ranks, std::vector<std::uint64_t>(ranks));
  for (auto& row : counts) {
    for (std::uint64_t& count : row) count = random.chance(0.33) ? 0 : random.below(bound);
  }
  return counts;
}

using RanksAndType = std::tuple<int, Datatype>;

class PairCounts : public zipccl::testing::SeededTest,
                   public ::testing::WithParamInterface<RanksAndType> {};

TEST_P(PairCounts, AreExactEveryWay) {
  const auto [rankCount, datatype] = GetParam();
  LocalGroup group(rankCount, testSettings());
  const std::vector<std::uint64_t> counts = {0,    1,    2,    31,   129,          1023,
                                             1024, 1025, 8192, 8193, 17 * 1024 + 1};
  for (const std::uint64_t count : counts) {
    for (const Way way : kAllWays) {
      check(group, {.way = way,
                    .datatype = datatype,
                    .elementCount = count,
                    .misalignedElements = random_.below(64),
                    .seed = random_()});
    }
  }
  const CommunicatorStatistics statistics = group[0].statistics();
  const bool isCompressed = codedDatatype(datatype).has_value() && rankCount > 1;
  EXPECT_EQ(statistics.stagedCalls, isCompressed ? 3 * (counts.size() - 1) : 0U);
  EXPECT_EQ(statistics.nativeCalls + statistics.stagedCalls, 3 * counts.size());
}

std::string paramName(const ::testing::TestParamInfo<RanksAndType>& info) {
  return concat(datatypeName(std::get<1>(info.param)), "On", std::get<0>(info.param));
}

INSTANTIATE_TEST_SUITE_P(Compressed, PairCounts,
                         ::testing::Combine(::testing::ValuesIn(zipccl::testing::sweptRanks()),
                                            ::testing::Values(Datatype::kBfloat16,
                                                              Datatype::kFloat32)),
                         paramName);
INSTANTIATE_TEST_SUITE_P(PassedThrough, PairCounts,
                         ::testing::Combine(::testing::Values(1, 3),
                                            ::testing::Values(Datatype::kInt8, Datatype::kInt32,
                                                              Datatype::kUint64, Datatype::kFloat64,
                                                              Datatype::kFloat8e4m3)),
                         paramName);

class Pairs : public zipccl::testing::SeededTest {};

TEST_F(Pairs, UnevenPartsWithZerosOnOneSide) {
  for (const int rankCount : {2, 3, 5, 8}) {
    LocalGroup group(rankCount, testSettings());
    for (const Way way : {Way::kAllToAllv, Way::kGroup}) {
      for (const Datatype datatype : {Datatype::kBfloat16, Datatype::kFloat32, Datatype::kInt32}) {
        check(group, {.way = way,
                      .datatype = datatype,
                      .counts = unevenCounts(random_, rankCount, 20'000),
                      .contents = {Content::kPatchwork},
                      .seed = random_()});
      }
    }
  }
}

TEST_F(Pairs, EveryContentThroughTheAdaptationOfThePools) {
  LocalGroup group(3, testSettings());
  for (const Datatype datatype : {Datatype::kBfloat16, Datatype::kFloat32}) {
    for (const Content content : kAllContents) {
      SCOPED_TRACE(testing::contentName(content));
      for (int call = 0; call < 4; ++call) {
        check(group, {.datatype = datatype,
                      .elementCount = 20'000,
                      .contents = {content},
                      .seed = random_()});
      }
    }
  }
}

TEST_F(Pairs, OneRankWithADynamicPartConcernsItsPairsOnly) {
  LocalGroup group(4, testSettings());
  const PairCase test{.elementCount = 17 * 1024 + 5,
                      .contents = {Content::kGaussian, Content::kGaussian, Content::kManyEscapes,
                                   Content::kGaussian},
                      .seed = random_()};
  check(group, test);
  check(group, test);
  const std::uint64_t sentByQuiet = group[0].statistics().encodedBytes;
  check(group, test);
  for (int rank = 0; rank < 4; ++rank) {
    // Statistics have a lag of two messages: the third call is the first with larger pools.
    EXPECT_EQ(group[rank].statistics().dynamicCalls, 2U) << "rank " << rank;
  }
  EXPECT_LE(group[0].statistics().encodedBytes - sentByQuiet, sentByQuiet / 2)
      << "what rank 2 needs must not enlarge what rank 0 sends";
}

TEST_F(Pairs, SeveralChunksInFlightWithDynamicPartsInBetween) {
  for (const Datatype datatype : {Datatype::kBfloat16, Datatype::kFloat32}) {
    const policy::FrameGeometry geometry = frameGeometry(*codedDatatype(datatype));
    for (const int rankCount : {2, 5}) {
      if (!zipccl::testing::isVisited(random_, 3)) continue;
      CommunicatorSettings settings = testSettings();
      settings.agreed.maxScratchBytes =
          policy::kFramesOfPair * static_cast<std::uint64_t>(rankCount - 1) *
              policy::frameBoundBytes(geometry, geometry.groupElements) +
          random_.below(20'000);
      LocalGroup group(rankCount, settings);
      for (const Content content :
           {Content::kGaussian, Content::kPatchwork, Content::kManyEscapes, Content::kRandomBits}) {
        for (const Way way : kAllWays) {
          check(group, {.way = way,
                        .datatype = datatype,
                        .elementCount = 50'001,
                        .contents = {content, Content::kPatchwork},
                        .misalignedElements = 1,
                        .seed = random_()});
        }
      }
      const CommunicatorStatistics statistics = group[rankCount - 1].statistics();
      EXPECT_EQ(statistics.stagedCalls, 12U);
      EXPECT_GE(statistics.chunks, 12U * 6U);
      EXPECT_GT(statistics.dynamicCalls, 0U);
      EXPECT_LE(statistics.scratchBytes, settings.agreed.maxScratchBytes);
    }
  }
}

TEST_F(Pairs, LargePartsAreCutForOverlap) {
  constexpr std::uint64_t kElements = testing::scaled(3'000'000);
  LocalGroup group(2, testSettings());
  check(group, {.elementCount = kElements, .seed = random_()});
  EXPECT_EQ(group[0].statistics().chunks, 2 * std::max<std::uint64_t>(1, 2 * kElements >> 20));
}

TEST_F(Pairs, ChecksumMakesNoDifferenceToTheResult) {
  CommunicatorSettings settings = testSettings();
  settings.agreed.checksum = true;
  LocalGroup group(3, settings);
  for (const Content content : kAllContents) {
    check(group, {.elementCount = 9000, .contents = {content}, .seed = random_()});
  }
}

TEST_F(Pairs, CountWhatTheyDid) {
  constexpr std::uint64_t kElements = 64 * 1024;
  LocalGroup group(4, testSettings());
  check(group, {.elementCount = kElements, .seed = random_()});
  const CommunicatorStatistics first = group[2].statistics();
  EXPECT_EQ(first.inputBytes, 4 * 2 * kElements);
  EXPECT_EQ(first.stagedInputBytes, 3 * 2 * kElements) << "the own part is copied";
  EXPECT_EQ(first.chunks, 6U);
  EXPECT_EQ(first.wireBytesSent, first.encodedBytes);
  EXPECT_LT(first.encodedBytes, 3 * 2 * kElements * 72 / 100) << "Gaussian bf16, 11.4 bits";
  EXPECT_GT(first.encodedBytes, 3 * 2 * kElements * 68 / 100);

  check(group, {.datatype = Datatype::kInt32, .elementCount = 1000, .seed = random_()});
  const CommunicatorStatistics second = group[2].statistics();
  EXPECT_EQ(second.nativeCalls, 1U);
  EXPECT_EQ(second.stagedInputBytes, first.stagedInputBytes);
  EXPECT_EQ(second.wireBytesSent, first.wireBytesSent + 3 * 4000);
  EXPECT_EQ(second.lastDecision->reason, policy::Reason::kNoFormat);
}

/// Rank 0 sends all messages in one group; rank 1 takes them in groups of other sizes.
TEST_F(Pairs, EndsMayGroupTheirMessagesDifferently) {
  for (int round = 0; round < static_cast<int>(testing::scaled(30)) + 1; ++round) {
    CommunicatorSettings settings = testSettings();
    settings.agreed.maxScratchBytes = std::uint64_t{1} << random_.between(17, 22);
    LocalGroup group(2, settings);
    std::vector<testing::Shard> messages;
    for (std::uint64_t i = 0; i < 12; ++i) {
      messages.push_back(
          testing::makeShard(random_(), 0, Datatype::kFloat32,
                             random_.below(std::uint64_t{1} << random_.between(1, 16)),
                             kAllContents[random_.below(std::size(kAllContents))]));
    }
    const std::uint64_t groupSize = random_.between(1, 5);
    group.runAll([&](Communicator& communicator) {
      const bool isSender = communicator.rank() == 0;
      std::vector<testing::Shard> received;
      for (const testing::Shard& message : messages) received.emplace_back(message.size());
      const std::size_t step = isSender ? messages.size() : groupSize;
      for (std::size_t begin = 0; begin < messages.size(); begin += step) {
        std::vector<PointToPoint> operations;
        for (std::size_t i = begin; i < std::min(begin + step, messages.size()); ++i) {
          operations.push_back({.isSend = isSender,
                                .source = messages[i].data(),
                                .target = received[i].data(),
                                .elementCount = messages[i].size() / 4,
                                .datatype = Datatype::kFloat32,
                                .peer = isSender ? 1 : 0});
        }
        communicator.sendReceiveGroup(operations);
      }
      if (!isSender) {
        EXPECT_TRUE(received == messages) << "groups of " << groupSize;
      }
    });
    if (HasFailure()) return;
  }
}

TEST_F(Pairs, MessagesToOneselfInAGroup) {
  LocalGroup group(2, testSettings());
  const testing::Shard source =
      testing::makeShard(random_(), 0, Datatype::kBfloat16, 5000, Content::kPatchwork);
  group.runAll([&](Communicator& communicator) {
    testing::Shard first(4000);
    testing::Shard second(6000);
    const int self = communicator.rank();
    const PointToPoint operations[] = {
        {false, nullptr, first.data(), 2000, Datatype::kBfloat16, self},
        {true, source.data(), nullptr, 2000, Datatype::kBfloat16, self},
        {true, source.data() + 4000, nullptr, 3000, Datatype::kBfloat16, self},
        {false, nullptr, second.data(), 3000, Datatype::kBfloat16, self}};
    communicator.sendReceiveGroup(operations);
    EXPECT_TRUE(std::equal(first.begin(), first.end(), source.begin()));
    EXPECT_TRUE(std::equal(second.begin(), second.end(), source.begin() + 4000));
  });
}

TEST_F(Pairs, SendAndRecvAloneAreNative) {
  LocalGroup group(3, testSettings());
  const testing::Shard source =
      testing::makeShard(random_(), 0, Datatype::kBfloat16, 50'000, Content::kPatchwork);
  group.runAll([&](Communicator& communicator) {
    testing::Shard target(source.size());
    const int self = communicator.rank();
    // Along the line 0, 1, 2.
    if (self > 0) {
      communicator.sendReceive(
          {false, nullptr, target.data(), 50'000, Datatype::kBfloat16, self - 1});
      EXPECT_TRUE(target == source);
    }
    if (self < 2) {
      communicator.sendReceive(
          {true, source.data(), nullptr, 50'000, Datatype::kBfloat16, self + 1});
    }
    EXPECT_EQ(communicator.statistics().stagedCalls, 0U);
    EXPECT_EQ(communicator.statistics().lastDecision->reason, policy::Reason::kNotInGroup);
  });
  // Calls of some ranks must not disturb the count of calls that all ranks share.
  check(group, {.elementCount = 5000, .seed = random_()});
}

TEST_F(Pairs, OfEarlyRanksAreDoneBeforeALateRankComes) {
  constexpr int kLate = 3;
  testing::DecodeTimes times(4);
  LocalGroup group(4, testSettings(), {}, [&](int rank) { return times.codecOf(rank); });
  const PairCase test{.elementCount = 100'000, .seed = random_()};
  std::chrono::steady_clock::time_point arrival;
  group.runAll([&](Communicator& communicator) {
    if (communicator.rank() == kLate) {
      times.await(kLate * (kLate - 1));
      arrival = std::chrono::steady_clock::now();
    }
    checkPairs(communicator, test);
  });
  for (int rank = 0; rank < 4; ++rank) {
    const auto early = std::count_if(times.of(rank).begin(), times.of(rank).end(),
                                     [&](const auto& time) { return time < arrival; });
    EXPECT_EQ(times.of(rank).size(), 3U);
    EXPECT_EQ(early, rank == kLate ? 0 : 2) << "rank " << rank;
  }
}

TEST_F(Pairs, RandomCalls) {
  constexpr Datatype kDatatypes[] = {Datatype::kBfloat16, Datatype::kBfloat16, Datatype::kFloat32,
                                     Datatype::kFloat32,  Datatype::kUint8,    Datatype::kFloat64};
  for (int groupNumber = 0; groupNumber < static_cast<int>(testing::scaled(20)); ++groupNumber) {
    const int rankCount = static_cast<int>(random_.between(1, 8));
    CommunicatorSettings settings = testSettings();
    settings.agreed.checksum = random_.chance(0.3);
    settings.agreed.minBytes = random_.chance(0.3) ? random_.below(5000) : 0;
    settings.agreed.maxScratchBytes = std::uint64_t{1} << random_.between(16, 26);
    LocalGroup group(rankCount, settings);
    for (int call = 0; call < 25; ++call) {
      PairCase test;
      test.way = kAllWays[random_.below(std::size(kAllWays))];
      test.datatype = kDatatypes[random_.below(std::size(kDatatypes))];
      const std::uint64_t bound = std::uint64_t{1} << random_.between(0, 15);
      test.elementCount = random_.below(bound);
      if (test.way != Way::kAllToAll && random_.chance(0.7)) {
        test.counts = unevenCounts(random_, rankCount, bound);
      }
      test.contents.clear();
      for (int rank = 0; rank < rankCount; ++rank) {
        test.contents.push_back(kAllContents[random_.below(std::size(kAllContents))]);
      }
      test.misalignedElements = random_.below(64);
      test.seed = random_();
      check(group, test);
      if (HasFailure()) return;
    }
    EXPECT_LE(group[0].statistics().scratchBytes, settings.agreed.maxScratchBytes);
  }
}

}  // namespace
}  // namespace zipccl::collectives
