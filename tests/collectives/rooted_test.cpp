// SPDX-License-Identifier: Apache-2.0
//
// Broadcast, Gather and Scatter, bit for bit: 1 to 8 ranks, every root, counts around every border,
// in place and not, every kind of content; and their failures.

#include <gtest/gtest.h>

#include <chrono>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

#include "collectives/broadcast.hpp"
#include "collectives/frame_geometry.hpp"
#include "collectives/gather_scatter.hpp"
#include "local_group.hpp"
#include "policy/chunks.hpp"
#include "rooted_check.hpp"
#include "support/sanitized.hpp"
#include "support/seeded_test.hpp"

namespace zipccl::collectives {
namespace {

using testing::checkRooted;
using testing::Content;
using testing::kAllContents;
using testing::kAllRooted;
using testing::LocalGroup;
using testing::RankErrors;
using testing::Rooted;
using testing::RootedCase;
using testing::testSettings;

void check(LocalGroup& group, const RootedCase& test) {
  group.runAll([&](Communicator& communicator) { checkRooted(communicator, test); });
}

using RanksAndType = std::tuple<int, Datatype>;

class RootedCounts : public zipccl::testing::SeededTest,
                     public ::testing::WithParamInterface<RanksAndType> {};

TEST_P(RootedCounts, AreExactFromEveryRoot) {
  const auto [rankCount, datatype] = GetParam();
  LocalGroup group(rankCount, testSettings());
  int root = 0;
  for (const std::uint64_t count : {0, 1, 31, 1023, 1024, 1025, 8193, 17 * 1024 + 1}) {
    for (const Rooted kind : kAllRooted) {
      root = (root + 1) % rankCount;
      for (const bool inPlace : {false, true}) {
        check(group, {.kind = kind,
                      .datatype = datatype,
                      .elementCount = count,
                      .root = root,
                      .inPlace = inPlace,
                      .misalignedElements = random_.below(64),
                      .seed = random_()});
      }
    }
  }
  const bool isCompressed = codedDatatype(datatype).has_value() && rankCount > 1;
  EXPECT_EQ(group[0].statistics().stagedCalls, isCompressed ? 7U * 3U * 2U : 0U);
}

std::string paramName(const ::testing::TestParamInfo<RanksAndType>& info) {
  return concat(datatypeName(std::get<1>(info.param)), "On", std::get<0>(info.param));
}

INSTANTIATE_TEST_SUITE_P(Ranks, RootedCounts,
                         ::testing::Combine(::testing::ValuesIn(zipccl::testing::sweptRanks()),
                                            ::testing::Values(Datatype::kBfloat16,
                                                              Datatype::kFloat32,
                                                              Datatype::kInt32)),
                         paramName);

class RootedTest : public zipccl::testing::SeededTest {};

TEST_F(RootedTest, EveryContentThroughTheAdaptationOfThePools) {
  LocalGroup group(3, testSettings());
  for (const Rooted kind : kAllRooted) {
    for (const Datatype datatype : {Datatype::kBfloat16, Datatype::kFloat32}) {
      for (const Content content : kAllContents) {
        SCOPED_TRACE(testing::contentName(content));
        for (int call = 0; call < 3; ++call) {
          check(group, {.kind = kind,
                        .datatype = datatype,
                        .elementCount = 20'000,
                        .root = 1,
                        .contents = {content},
                        .seed = random_()});
        }
      }
    }
  }
}

TEST_F(RootedTest, ManyChunksWithinTheScratch) {
  const policy::FrameGeometry geometry = frameGeometry(codec::Datatype::kFloat32);
  CommunicatorSettings settings = testSettings();
  settings.agreed.maxScratchBytes =
      policy::kFramesOfPair * 3 * policy::frameBoundBytes(geometry, geometry.groupElements);
  LocalGroup group(4, settings);
  for (const Rooted kind : kAllRooted) {
    check(group, {.kind = kind,
                  .datatype = Datatype::kFloat32,
                  .elementCount = 150'001,
                  .root = 2,
                  .contents = {Content::kPatchwork},
                  .seed = random_()});
  }
  EXPECT_EQ(group[2].statistics().stagedCalls, 3U);
  EXPECT_GE(group[2].statistics().chunks, 2 * 3 * 18U);
  EXPECT_LE(group[2].statistics().scratchBytes, settings.agreed.maxScratchBytes);
}

TEST_F(RootedTest, TheRootOfABroadcastEncodesOnce) {
  constexpr std::uint64_t kElements = 64 * 1024;
  LocalGroup group(4, testSettings());
  check(group, {.elementCount = kElements, .root = 1, .seed = random_()});
  const CommunicatorStatistics root = group[1].statistics();
  EXPECT_EQ(root.inputBytes, 2 * kElements);
  EXPECT_EQ(root.wireBytesSent, 3 * root.encodedBytes);
  EXPECT_LT(root.encodedBytes, 2 * kElements * 72 / 100);
  EXPECT_EQ(group[0].statistics().inputBytes, 0U);
  EXPECT_EQ(group[0].statistics().wireBytesSent, 0U);
}

TEST_F(RootedTest, WrongArgumentsNameValueAndExpectation) {
  LocalGroup group(3, testSettings());
  std::vector<std::uint16_t> buffer(300);
  const auto message = [&](const auto& arguments) -> std::string {
    try {
      group[1].call(arguments);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument) << error.what();
      return error.message();
    }
    return "no error";
  };
  constexpr auto kBf16 = Datatype::kBfloat16;
  const void* const in = buffer.data();
  void* const out = buffer.data();
  EXPECT_NE(message(BroadcastArguments{in, out, 10, kBf16, 3, {}}).find("root is 3"),
            std::string::npos);
  EXPECT_NE(message(BroadcastArguments{nullptr, out, 10, kBf16, 1, {}}).find("sendbuff is null"),
            std::string::npos);
  EXPECT_NE(message(BroadcastArguments{in, nullptr, 10, kBf16, 0, {}}).find("recvbuff is null"),
            std::string::npos);
  EXPECT_NE(message(BroadcastArguments{in, buffer.data() + 5, 10, kBf16, 1, {}}).find("overlap"),
            std::string::npos);
  EXPECT_NE(message(GatherArguments{in, nullptr, 10, kBf16, 1, {}}).find("recvbuff is null"),
            std::string::npos);
  EXPECT_NE(message(GatherArguments{in, out, 10, kBf16, 1, {}}).find("sendbuff overlaps recvbuff"),
            std::string::npos);
  EXPECT_NE(message(GatherArguments{in, out, 10, kBf16, -1, {}}).find("root is -1"),
            std::string::npos);
  EXPECT_NE(message(ScatterArguments{nullptr, out, 10, kBf16, 1, {}}).find("sendbuff is null"),
            std::string::npos);
  EXPECT_NE(message(ScatterArguments{in, out, 10, kBf16, 1, {}}).find("recvbuff overlaps sendbuff"),
            std::string::npos);
  EXPECT_FALSE(group[1].asyncError());
}

TEST_F(RootedTest, ARankThatDoesNotComeIsNamed) {
  for (const Rooted kind : kAllRooted) {
    CommunicatorSettings settings = testSettings();
    settings.timeout = std::chrono::milliseconds(200);
    LocalGroup group(3, settings);
    const RankErrors errors = group.run([&](Communicator& communicator) {
      if (communicator.rank() == 0) return;
      checkRooted(communicator, {.kind = kind, .elementCount = 20'000, .root = 0, .seed = seed_});
    });
    for (const std::size_t rank : {1U, 2U}) {
      ASSERT_TRUE(errors[rank]) << testing::rootedName(kind);
      EXPECT_EQ(errors[rank]->code(), ErrorCode::kRemoteError);
      EXPECT_NE(errors[rank]->message().find("rank 0"), std::string::npos) << errors[rank]->what();
    }
  }
}

TEST_F(RootedTest, AbortEndsRanksThatWait) {
  for (const Rooted kind : kAllRooted) {
    LocalGroup group(3, testSettings());
    std::jthread watchdog([&] {
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
      group[0].abort();
    });
    const RankErrors errors = group.run([&](Communicator& communicator) {
      if (communicator.rank() == 0) return;
      checkRooted(communicator, {.kind = kind, .elementCount = 20'000, .root = 0, .seed = seed_});
    });
    for (const std::size_t rank : {1U, 2U}) {
      ASSERT_TRUE(errors[rank]) << testing::rootedName(kind);
      EXPECT_NE(errors[rank]->message().find("the application aborted"), std::string::npos)
          << errors[rank]->what();
    }
  }
}

TEST_F(RootedTest, RandomCalls) {
  constexpr Datatype kDatatypes[] = {Datatype::kBfloat16, Datatype::kFloat32, Datatype::kUint8};
  for (int groupNumber = 0; groupNumber < static_cast<int>(testing::scaled(12)); ++groupNumber) {
    const int rankCount = static_cast<int>(random_.between(1, 8));
    CommunicatorSettings settings = testSettings();
    settings.agreed.checksum = random_.chance(0.3);
    settings.agreed.maxScratchBytes = std::uint64_t{1} << random_.between(16, 26);
    LocalGroup group(rankCount, settings);
    for (int call = 0; call < 20; ++call) {
      RootedCase test;
      test.kind = kAllRooted[random_.below(std::size(kAllRooted))];
      test.datatype = kDatatypes[random_.below(std::size(kDatatypes))];
      test.elementCount = random_.below(std::uint64_t{1} << random_.between(0, 16));
      test.root = static_cast<int>(random_.below(static_cast<std::uint64_t>(rankCount)));
      test.contents = {kAllContents[random_.below(std::size(kAllContents))],
                       kAllContents[random_.below(std::size(kAllContents))]};
      test.inPlace = random_.chance(0.5);
      test.misalignedElements = random_.below(64);
      test.seed = random_();
      check(group, test);
      if (HasFailure()) return;
    }
  }
}

}  // namespace
}  // namespace zipccl::collectives
