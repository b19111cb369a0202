// SPDX-License-Identifier: Apache-2.0
//
// ReduceScatter and AllReduce, bit for bit against the documented order: 1 to 8 ranks, native and
// staged, every datatype and operation, counts around every border, in place and not.

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <tuple>
#include <vector>

#include "collectives/frame_geometry.hpp"
#include "local_group.hpp"
#include "policy/chunks.hpp"
#include "reduce_check.hpp"
#include "reference_reduction.hpp"
#include "support/sanitized.hpp"
#include "support/seeded_test.hpp"

namespace zipccl::collectives {
namespace {

using testing::checkReduce;
using testing::Content;
using testing::kAllContents;
using testing::LocalGroup;
using testing::preMulSum;
using testing::ReduceCase;
using testing::testSettings;

void check(LocalGroup& group, const ReduceCase& test) {
  const testing::Shard expected = testing::expectedResult(test, group.rankCount());
  group.runAll([&](Communicator& communicator) { checkReduce(communicator, test, expected); });
}

using Param = std::tuple<int, Datatype, StrategyChoice>;

class ReduceCounts : public zipccl::testing::SeededTest,
                     public ::testing::WithParamInterface<Param> {};

TEST_P(ReduceCounts, FollowTheDocumentedOrder) {
  const auto [rankCount, datatype, strategy] = GetParam();
  LocalGroup group(rankCount, testSettings(strategy));
  const std::vector<std::uint64_t> counts = {0, 1, 7, 129, 1023, 1024, 1025, 8193, 17 * 1024 + 1};
  for (const std::uint64_t count : counts) {
    for (const bool isAllReduce : {false, true}) {
      const Reduction reductions[] = {
          {.op = ReduceOp::kSum}, {.op = ReduceOp::kAvg}, preMulSum(datatype, 0.3)};
      check(group, {.isAllReduce = isAllReduce,
                    .datatype = datatype,
                    .reduction = reductions[random_.below(3)],
                    .elementCount = count,
                    .inPlace = random_.chance(0.5),
                    .misalignedElements = random_.below(64),
                    .seed = random_()});
    }
  }
  const bool isStaged = strategy == StrategyChoice::kStaged && rankCount > 1;
  const CommunicatorStatistics statistics = group[0].statistics();
  EXPECT_EQ(statistics.stagedCalls, isStaged ? 2 * (counts.size() - 1) : 0U);
  EXPECT_EQ(statistics.nativeCalls + statistics.stagedCalls, 2 * counts.size());
}

std::string paramName(const ::testing::TestParamInfo<Param>& info) {
  return concat(datatypeName(std::get<1>(info.param)), "On", std::get<0>(info.param),
                std::get<2>(info.param) == StrategyChoice::kStaged ? "Staged" : "Native");
}

INSTANTIATE_TEST_SUITE_P(
    Ranks, ReduceCounts,
    ::testing::Combine(::testing::ValuesIn(zipccl::testing::sweptRanks()),
                       ::testing::Values(Datatype::kBfloat16, Datatype::kFloat16,
                                         Datatype::kFloat32),
                       ::testing::Values(StrategyChoice::kNative, StrategyChoice::kStaged)),
    paramName);

class Reduce : public zipccl::testing::SeededTest {};

TEST_F(Reduce, EveryOperationOnEveryDatatypeThatHasNoFramesOrNoScaledSum) {
  LocalGroup group(3, testSettings());
  for (const Datatype datatype :
       {Datatype::kInt8, Datatype::kUint8, Datatype::kInt32, Datatype::kUint32, Datatype::kInt64,
        Datatype::kUint64, Datatype::kFloat64, Datatype::kBfloat16, Datatype::kFloat16,
        Datatype::kFloat32}) {
    for (const ReduceOp op :
         {ReduceOp::kSum, ReduceOp::kProd, ReduceOp::kMax, ReduceOp::kMin, ReduceOp::kAvg}) {
      for (const bool isAllReduce : {false, true}) {
        check(group, {.isAllReduce = isAllReduce,
                      .datatype = datatype,
                      .reduction = {.op = op},
                      .elementCount = 3001,
                      .contents = {Content::kPatchwork},
                      .inPlace = random_.chance(0.5),
                      .seed = random_()});
      }
    }
  }
}

/// The raw tail of the last part is larger than a coded tile of the others, which have dynamic
/// parts besides: padded to the largest of each, the two do not fit where a frame does.
TEST_F(Reduce, ARawTailBesideDynamicPartsOfOtherRanks) {
  LocalGroup group(4, testSettings());
  for (const Datatype datatype : {Datatype::kFloat32, Datatype::kBfloat16, Datatype::kFloat16}) {
    for (const std::uint64_t tiles : {1, 3}) {
      for (const std::uint64_t missing : {1, 300, 1000}) {
        check(group, {.isAllReduce = true,
                      .datatype = datatype,
                      .elementCount = 4 * tiles * 1024 - missing,
                      .contents = {Content::kRandomBits},
                      .seed = random_()});
      }
    }
  }
}

TEST_F(Reduce, NativeAndStagedGiveTheSameBits) {
  LocalGroup staged(4, testSettings());
  LocalGroup native(4, testSettings(StrategyChoice::kNative));
  for (const Datatype datatype : {Datatype::kBfloat16, Datatype::kFloat16, Datatype::kFloat32}) {
    const ReduceCase test{.datatype = datatype,
                          .reduction = preMulSum(datatype, 1.7),
                          .elementCount = 40'000,
                          .contents = {Content::kGaussian},
                          .seed = random_()};
    check(staged, test);
    check(native, test);
  }
  EXPECT_EQ(staged[0].statistics().stagedCalls, 3U);
  EXPECT_EQ(native[0].statistics().nativeCalls, 3U);
}

TEST_F(Reduce, EveryContentThroughTheAdaptationOfThePools) {
  LocalGroup group(3, testSettings());
  for (const Datatype datatype : {Datatype::kBfloat16, Datatype::kFloat16, Datatype::kFloat32}) {
    for (const Content content : kAllContents) {
      SCOPED_TRACE(testing::contentName(content));
      for (int call = 0; call < 4; ++call) {
        check(group, {.isAllReduce = call % 2 == 0,
                      .datatype = datatype,
                      .elementCount = 20'000,
                      .contents = {content},
                      .seed = random_()});
      }
    }
  }
}

TEST_F(Reduce, OneRankWithADynamicPart) {
  for (const bool isAllReduce : {false, true}) {
    LocalGroup group(4, testSettings());
    check(group, {.isAllReduce = isAllReduce,
                  .elementCount = 68 * 1024 + 5,
                  .contents = {Content::kGaussian, Content::kGaussian, Content::kManyEscapes,
                               Content::kGaussian},
                  .seed = random_()});
    for (int rank = 0; rank < 4; ++rank) {
      EXPECT_EQ(group[rank].statistics().dynamicCalls, 1U) << "rank " << rank;
    }
  }
}

TEST_F(Reduce, SmallScratchMeansManyChunksWithinIt) {
  for (const Datatype datatype : {Datatype::kBfloat16, Datatype::kFloat16, Datatype::kFloat32}) {
    const policy::FrameGeometry geometry = frameGeometry(*codedDatatype(datatype));
    for (const int rankCount : {2, 5}) {
      if (!zipccl::testing::isVisited(random_, 3)) continue;
      CommunicatorSettings settings = testSettings();
      settings.agreed.maxScratchBytes =
          policy::framesOfReduction(rankCount) *
              policy::frameBoundBytes(geometry, geometry.groupElements) +
          random_.below(20'000);
      LocalGroup group(rankCount, settings);
      for (const Content content :
           {Content::kGaussian, Content::kPatchwork, Content::kManyEscapes}) {
        for (const bool isAllReduce : {false, true}) {
          check(group, {.isAllReduce = isAllReduce,
                        .datatype = datatype,
                        .elementCount = isAllReduce ? 150'001U : 50'001U,
                        .contents = {content},
                        .inPlace = random_.chance(0.5),
                        .misalignedElements = 1,
                        .seed = random_()});
        }
      }
      const CommunicatorStatistics statistics = group[rankCount - 1].statistics();
      EXPECT_EQ(statistics.stagedCalls, 6U);
      EXPECT_LE(statistics.scratchBytes, settings.agreed.maxScratchBytes);
    }
  }
}

TEST_F(Reduce, NativeWorksWhereSettingsDiffer) {
  std::vector<CommunicatorSettings> settings(3, testSettings());
  settings[0].agreed.maxScratchBytes = 5'000;
  settings[1].agreed.maxScratchBytes = 100'000;
  LocalGroup group(settings);
  EXPECT_FALSE(group[0].compressionAgreed());
  for (const bool isAllReduce : {false, true}) {
    check(group, {.isAllReduce = isAllReduce, .elementCount = 60'001, .seed = random_()});
  }
  for (int rank = 0; rank < 3; ++rank) {
    EXPECT_LE(group[rank].statistics().scratchBytes, 5'000U) << "rank " << rank;
  }
}

TEST_F(Reduce, CountsWhatItDid) {
  constexpr std::uint64_t kElements = 64 * 1024;
  LocalGroup group(4, testSettings());
  check(group, {.elementCount = kElements, .seed = random_()});
  const CommunicatorStatistics first = group[2].statistics();
  EXPECT_EQ(first.inputBytes, 4 * 2 * kElements);
  EXPECT_EQ(first.stagedInputBytes, 3 * 2 * kElements) << "the own part stays";
  EXPECT_EQ(first.wireBytesSent, first.encodedBytes);
  EXPECT_LT(first.encodedBytes, 3 * 2 * kElements * 72 / 100);

  check(group, {.isAllReduce = true, .elementCount = 4 * kElements, .seed = random_()});
  const CommunicatorStatistics second = group[2].statistics();
  EXPECT_EQ(second.inputBytes, first.inputBytes + 4 * 2 * kElements);
  const std::uint64_t wireBytes = second.wireBytesSent - first.wireBytesSent;
  EXPECT_LT(wireBytes, 6 * 2 * kElements * 72 / 100) << "three parts away, one part to three";
  EXPECT_GT(wireBytes, 6 * 2 * kElements * 68 / 100);
}

TEST_F(Reduce, AutoAboveTwoRanksGoesByTheTableAlone) {
  // A link so slow that everything would pay, but measured and not given.
  LocalGroup group(3, testSettings(StrategyChoice::kAuto));
  const ReduceCase test{.elementCount = 100'000, .seed = random_()};
  check(group, test);
  EXPECT_EQ(group[0].statistics().lastDecision->reason, policy::Reason::kNoTable);

  CommunicatorSettings settings = testSettings(StrategyChoice::kAuto);
  settings.profile =
      policy::Profile{.encodeGBps = 100, .decodeGBps = 100, .frameUs = 0.1, .allGather = {}};
  settings.profile->allGather.pointCount = 2;
  settings.profile->allGather.points[0] = {0, 1.0};
  settings.profile->allGather.points[1] = {1'000'000, 1'000'001.0};
  LocalGroup given(3, settings);
  ReduceCase hostile = test;
  hostile.contents = {Content::kRandomBits};
  for (int call = 0; call < 4; ++call) {
    check(given, hostile);
    EXPECT_EQ(given[0].statistics().lastDecision->reason, policy::Reason::kStagedIsFaster)
        << "what the data is like must not matter";
  }
  settings.agreed.reduce = ReduceMode::kOff;
  LocalGroup off(3, settings);
  check(off, test);
  EXPECT_EQ(off[0].statistics().lastDecision->reason, policy::Reason::kReduceOff);
}

TEST_F(Reduce, RandomCalls) {
  constexpr Datatype kDatatypes[] = {Datatype::kBfloat16, Datatype::kBfloat16, Datatype::kFloat32,
                                     Datatype::kFloat32,  Datatype::kInt32,    Datatype::kFloat64};
  for (int groupNumber = 0; groupNumber < static_cast<int>(testing::scaled(12)); ++groupNumber) {
    const int rankCount = static_cast<int>(random_.between(1, 8));
    CommunicatorSettings settings = testSettings();
    settings.agreed.checksum = random_.chance(0.3);
    settings.agreed.minBytes = random_.chance(0.3) ? random_.below(5000) : 0;
    settings.agreed.maxScratchBytes = std::uint64_t{1} << random_.between(16, 26);
    LocalGroup group(rankCount, settings);
    for (int call = 0; call < 20; ++call) {
      ReduceCase test;
      test.isAllReduce = random_.chance(0.5);
      test.datatype = kDatatypes[random_.below(std::size(kDatatypes))];
      test.reduction = random_.chance(0.3)
                           ? preMulSum(test.datatype, 2.0 * random_.uniform())
                           : Reduction{.op = static_cast<ReduceOp>(random_.below(5))};
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
