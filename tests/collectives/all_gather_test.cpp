// SPDX-License-Identifier: Apache-2.0
//
// AllGather, bit for bit: 1 to 8 ranks, every datatype, counts around every border, in place and
// not, at any alignment, with every kind of content on one rank or all.

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <tuple>
#include <vector>

#include "all_gather_check.hpp"
#include "collectives/frame_geometry.hpp"
#include "local_group.hpp"
#include "policy/chunks.hpp"
#include "support/sanitized.hpp"
#include "support/seeded_test.hpp"

namespace zipccl::collectives {
namespace {

using testing::AllGatherCase;
using testing::checkAllGather;
using testing::Content;
using testing::kAllContents;
using testing::LocalGroup;
using testing::makeShards;
using testing::testSettings;

void check(LocalGroup& group, const AllGatherCase& test) {
  const std::vector<testing::Shard> shards = makeShards(test, group.rankCount());
  group.runAll([&](Communicator& communicator) { checkAllGather(communicator, test, shards); });
}

using RanksAndType = std::tuple<int, Datatype>;

class AllGatherCounts : public zipccl::testing::SeededTest,
                        public ::testing::WithParamInterface<RanksAndType> {};

TEST_P(AllGatherCounts, AreExactInPlaceAndNot) {
  const auto [rankCount, datatype] = GetParam();
  LocalGroup group(rankCount, testSettings());
  for (const std::uint64_t count : {0, 1, 2, 7, 31, 33, 127, 129, 1023, 1024, 1025, 8191, 8192,
                                    8193, 17 * 1024 - 1, 17 * 1024 + 1}) {
    for (const bool inPlace : {false, true}) {
      check(group, {.datatype = datatype,
                    .elementCount = count,
                    .inPlace = inPlace,
                    .misalignedElements = random_.below(64),
                    .seed = random_()});
    }
  }
  const CommunicatorStatistics statistics = group[0].statistics();
  const bool isCompressed = codedDatatype(datatype).has_value() && rankCount > 1;
  EXPECT_EQ(statistics.stagedCalls, isCompressed ? 30U : 0U);
  EXPECT_EQ(statistics.nativeCalls + statistics.stagedCalls, 32U);
}

std::string paramName(const ::testing::TestParamInfo<RanksAndType>& info) {
  return concat(datatypeName(std::get<1>(info.param)), "On", std::get<0>(info.param));
}

INSTANTIATE_TEST_SUITE_P(Compressed, AllGatherCounts,
                         ::testing::Combine(::testing::ValuesIn(zipccl::testing::sweptRanks()),
                                            ::testing::Values(Datatype::kBfloat16,
                                                              Datatype::kFloat16,
                                                              Datatype::kFloat32)),
                         paramName);
INSTANTIATE_TEST_SUITE_P(
    PassedThrough, AllGatherCounts,
    ::testing::Combine(::testing::Values(1, 3),
                       ::testing::Values(Datatype::kInt8, Datatype::kUint8, Datatype::kInt32,
                                         Datatype::kUint32, Datatype::kInt64, Datatype::kUint64,
                                         Datatype::kFloat64, Datatype::kFloat8e4m3,
                                         Datatype::kFloat8e5m2)),
    paramName);

class AllGather : public zipccl::testing::SeededTest {};

TEST_F(AllGather, MillionElementsOnFourRanks) {
  constexpr std::uint64_t kMillion = testing::scaled(1'000'000);
  LocalGroup group(4, testSettings());
  check(group, {.elementCount = kMillion, .seed = random_()});
  check(group, {.elementCount = kMillion, .inPlace = true, .seed = random_()});
  check(group, {.datatype = Datatype::kFloat32, .elementCount = kMillion, .seed = random_()});
}

TEST_F(AllGather, EveryContentOnAllRanks) {
  LocalGroup group(3, testSettings());
  for (const Datatype datatype : {Datatype::kBfloat16, Datatype::kFloat16, Datatype::kFloat32}) {
    for (const Content content : kAllContents) {
      SCOPED_TRACE(testing::contentName(content));
      // Twice: with the pool of the first call, then with the adapted one.
      for (int call = 0; call < 2; ++call) {
        check(group, {.datatype = datatype,
                      .elementCount = 20'000,
                      .contents = {content},
                      .seed = random_()});
      }
    }
  }
}

TEST_F(AllGather, OneRankUnlikeTheOthers) {
  for (const Datatype datatype : {Datatype::kBfloat16, Datatype::kFloat16, Datatype::kFloat32}) {
    for (const Content content : kAllContents) {
      SCOPED_TRACE(testing::contentName(content));
      LocalGroup group(4, testSettings());
      check(group, {.datatype = datatype,
                    .elementCount = 17 * 1024 + 5,
                    .contents = {Content::kWidened, Content::kWidened, content, Content::kWidened},
                    .seed = random_()});
      if (content == Content::kManyEscapes || content == Content::kRandomBits) {
        EXPECT_EQ(group[0].statistics().dynamicCalls, 1U)
            << "all ranks must take part in the second gather";
      }
    }
  }
}

TEST_F(AllGather, ChecksumMakesNoDifferenceToTheResult) {
  CommunicatorSettings settings = testSettings();
  settings.agreed.checksum = true;
  LocalGroup group(3, settings);
  for (const Content content : kAllContents) {
    check(group, {.elementCount = 9000, .contents = {content}, .seed = random_()});
  }
}

TEST_F(AllGather, EveryMisalignment) {
  LocalGroup group(2, testSettings());
  for (const Datatype datatype : {Datatype::kBfloat16, Datatype::kFloat16, Datatype::kFloat32}) {
    for (std::uint64_t misaligned = 0; misaligned < 64 / elementBytes(datatype); ++misaligned) {
      for (const bool inPlace : {false, true}) {
        check(group, {.datatype = datatype,
                      .elementCount = 2049,
                      .inPlace = inPlace,
                      .misalignedElements = misaligned,
                      .seed = random_()});
      }
    }
  }
}

TEST_F(AllGather, SmallScratchMeansManyChunksWithinIt) {
  for (const Datatype datatype : {Datatype::kBfloat16, Datatype::kFloat16, Datatype::kFloat32}) {
    const policy::FrameGeometry geometry = frameGeometry(*codedDatatype(datatype));
    for (const int rankCount : {2, 5}) {
      CommunicatorSettings settings = testSettings();
      // Room for one group of tiles in every frame, and a little more.
      settings.agreed.maxScratchBytes =
          static_cast<std::uint64_t>(rankCount + 1) *
              policy::frameBoundBytes(geometry, geometry.groupElements) +
          random_.below(20'000);
      LocalGroup group(rankCount, settings);
      for (const Content content :
           {Content::kGaussian, Content::kPatchwork, Content::kRandomBits}) {
        for (const bool inPlace : {false, true}) {
          check(group, {.datatype = datatype,
                        .elementCount = 50'001,
                        .contents = {content},
                        .inPlace = inPlace,
                        .misalignedElements = 1,
                        .seed = random_()});
        }
      }
      const CommunicatorStatistics statistics = group[rankCount - 1].statistics();
      EXPECT_EQ(statistics.stagedCalls, 6U);
      EXPECT_GE(statistics.chunks, 6U * 6U);
      EXPECT_LE(statistics.scratchBytes, settings.agreed.maxScratchBytes);
    }
  }
}

TEST_F(AllGather, ScratchWithoutRoomForAGroupIsNative) {
  CommunicatorSettings settings = testSettings();
  settings.agreed.maxScratchBytes = 1000;
  LocalGroup group(3, settings);
  check(group, {.elementCount = 100'000, .seed = random_()});
  EXPECT_EQ(group[0].statistics().lastDecision->reason, policy::Reason::kScratchTooSmall);
  EXPECT_EQ(group[0].statistics().scratchBytes, 0U);
}

TEST_F(AllGather, CountsWhatItDid) {
  constexpr std::uint64_t kElements = 64 * 1024;
  LocalGroup group(4, testSettings());
  check(group, {.elementCount = kElements, .seed = random_()});
  const CommunicatorStatistics first = group[2].statistics();
  EXPECT_EQ(first.inputBytes, 2 * kElements);
  EXPECT_EQ(first.stagedInputBytes, 2 * kElements);
  EXPECT_EQ(first.chunks, 1U);
  EXPECT_EQ(first.dynamicCalls, 0U);
  EXPECT_EQ(first.wireBytesSent, 3 * first.encodedBytes);
  EXPECT_LT(first.encodedBytes, 2 * kElements * 72 / 100) << "Gaussian bf16 at about 11.4 bits";
  EXPECT_GT(first.encodedBytes, 2 * kElements * 68 / 100);

  check(group, {.datatype = Datatype::kInt32, .elementCount = 1000, .seed = random_()});
  const CommunicatorStatistics second = group[2].statistics();
  EXPECT_EQ(second.nativeCalls, 1U);
  EXPECT_EQ(second.stagedCalls, 1U);
  EXPECT_EQ(second.inputBytes, first.inputBytes + 4000);
  EXPECT_EQ(second.encodedBytes, first.encodedBytes);
  EXPECT_EQ(second.wireBytesSent, first.wireBytesSent + 3 * 4000);
  EXPECT_EQ(second.lastDecision->reason, policy::Reason::kNoFormat);
}

TEST_F(AllGather, RandomCalls) {
  constexpr Datatype kDatatypes[] = {Datatype::kBfloat16, Datatype::kBfloat16, Datatype::kFloat32,
                                     Datatype::kFloat32,  Datatype::kUint8,    Datatype::kFloat64};
  for (int groupNumber = 0; groupNumber < static_cast<int>(testing::scaled(20)); ++groupNumber) {
    const int rankCount = static_cast<int>(random_.between(1, 8));
    CommunicatorSettings settings = testSettings();
    settings.agreed.checksum = random_.chance(0.3);
    settings.agreed.minBytes = random_.chance(0.2) ? random_.below(5000) : 0;
    settings.agreed.maxScratchBytes = std::uint64_t{1} << random_.between(16, 26);
    LocalGroup group(rankCount, settings);
    for (int call = 0; call < 25; ++call) {
      AllGatherCase test;
      test.datatype = kDatatypes[random_.below(std::size(kDatatypes))];
      test.elementCount = random_.below(std::uint64_t{1} << random_.between(0, 15));
      test.contents.clear();
      for (int rank = 0; rank < rankCount; ++rank) {
        test.contents.push_back(kAllContents[random_.below(std::size(kAllContents))]);
      }
      test.inPlace = random_.chance(0.5);
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
