// SPDX-License-Identifier: Apache-2.0
//
// The handshake: agreement, every kind of difference, a missing rank, and what calls do afterwards.

#include "collectives/handshake.hpp"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "all_gather_check.hpp"
#include "collectives/host_codec.hpp"
#include "local_group.hpp"
#include "log_capture.hpp"
#include "transport/local_transport.hpp"

namespace zipccl::collectives {
namespace {

using testing::AllGatherCase;
using testing::countInLog;
using testing::LocalGroup;
using testing::RankErrors;
using testing::runRanks;
using testing::testSettings;

std::vector<HandshakeRecord> equalRecords(std::size_t count) {
  return std::vector(count, makeRecord(testSettings().agreed, std::nullopt));
}

TEST(Differences, AreNoneBetweenEqualRecords) {
  EXPECT_EQ(describeDifferences(equalRecords(1)), "");
  EXPECT_EQ(describeDifferences(equalRecords(5)), "");
}

TEST(Differences, NameRanksAndValues) {
  std::vector<HandshakeRecord> records = equalRecords(4);
  records[2].strategy = static_cast<std::uint32_t>(StrategyChoice::kNative);
  EXPECT_EQ(describeDifferences(records),
            "strategy is staged on ranks 0, 1 and 3, native on rank 2");
  records[3].checksum = 1;
  EXPECT_EQ(describeDifferences(records),
            "strategy is staged on ranks 0, 1 and 3, native on rank 2; "
            "checksum is 0 on ranks 0, 1 and 2, 1 on rank 3");
}

TEST(Differences, AreSeenInEveryFieldThatMatters) {
  const auto differs = [](auto change) {
    std::vector<HandshakeRecord> records = equalRecords(2);
    change(records[1]);
    return describeDifferences(records);
  };
  using R = HandshakeRecord;
  EXPECT_EQ(differs([](R& r) { r.libraryVersion = 10'203; }).substr(0, 20), "ZipCCL's version is ");
  EXPECT_NE(differs([](R& r) { r.libraryVersion = 10'203; }).find("1.2.3 on rank 1"),
            std::string::npos);
  EXPECT_EQ(differs([](R& r) { r.formatVersion = 9; }),
            "the format version is 1 on rank 0, 9 on rank 1");
  EXPECT_EQ(differs([](R& r) { r.strategy = 77; }),
            "strategy is staged on rank 0, number 77 on rank 1");
  EXPECT_EQ(differs([](R& r) { r.reduce = static_cast<std::uint32_t>(ReduceMode::kOff); }),
            "the mode of reductions is auto on rank 0, off on rank 1");
  EXPECT_EQ(differs([](R& r) { r.collectives = 1; }),
            "the set of collectives to compress is AllGather,AllReduce,AlltoAll,AlltoAllv,"
            "Broadcast,Gather,ReduceScatter,Scatter,SendRecv on rank 0, AllGather on rank 1");
  EXPECT_EQ(differs([](R& r) { r.minBytes = 5; }),
            "the minimum of bytes is 0 on rank 0, 5 on rank 1");
  EXPECT_NE(differs([](R& r) { r.maxScratchBytes = 5; }), "");
}

TEST(Differences, SayNothingAboutTheRestOfAForeignRecord) {
  std::vector<HandshakeRecord> records = equalRecords(2);
  records[1].protocolVersion = 3;
  records[1].minBytes = 5;
  EXPECT_EQ(describeDifferences(records), "the handshake's version is 2 on rank 0, 3 on rank 1");
}

/// One call on every rank, verified.
void checkOneCall(LocalGroup& group, Datatype datatype = Datatype::kBfloat16) {
  const AllGatherCase test{.datatype = datatype, .elementCount = 5000, .seed = freshSeed()};
  const std::vector<testing::Shard> shards = testing::makeShards(test, group.rankCount());
  group.runAll(
      [&](Communicator& communicator) { testing::checkAllGather(communicator, test, shards); });
}

TEST(Handshake, EqualSettingsCompress) {
  LocalGroup group(3, testSettings());
  EXPECT_TRUE(group[1].compressionAgreed());
  checkOneCall(group);
  EXPECT_EQ(group[2].statistics().stagedCalls, 1U);
}

TEST(Handshake, DifferentSettingsSwitchCompressionOffEverywhereWithOneWarning) {
  std::vector<CommunicatorSettings> settings(4, testSettings());
  settings[2].agreed.minBytes = 4242;
  const int warningsBefore = countInLog("WARN");
  LocalGroup group(settings);
  EXPECT_EQ(countInLog("WARN"), warningsBefore + 1);
  EXPECT_EQ(countInLog("compression is off on a communicator of 4 ranks because they differ: the "
                       "minimum of bytes is 0 on ranks 0, 1 and 3, 4242 on rank 2"),
            1)
      << testing::readLog();
  checkOneCall(group);
  for (int rank = 0; rank < 4; ++rank) {
    EXPECT_FALSE(group[rank].compressionAgreed());
    EXPECT_EQ(group[rank].statistics().nativeCalls, 1U);
    EXPECT_EQ(group[rank].statistics().lastDecision->reason, policy::Reason::kSettingsDiffer);
  }
  EXPECT_EQ(countInLog("WARN"), warningsBefore + 1) << "one warning, not one for each call";
}

TEST(Handshake, TimeLimitsMayDiffer) {
  std::vector<CommunicatorSettings> settings(2, testSettings());
  settings[1].timeout += std::chrono::seconds(1);
  LocalGroup group(settings);
  EXPECT_TRUE(group[0].compressionAgreed());
}

TEST(Handshake, ARankOfAnotherVersionEndsInNativeOnAllRanks) {
  transport::LocalWorld world(3);
  std::vector<std::unique_ptr<Communicator>> communicators(2);
  std::unique_ptr<transport::Transport> foreign = world.transport(2);
  const RankErrors errors = runRanks(3, [&](int rank) {
    if (rank == 2) {
      HandshakeRecord record = makeRecord(testSettings().agreed, std::nullopt);
      record.protocolVersion = 7;
      const Agreement agreement = shakeHands(*foreign, record);
      EXPECT_FALSE(agreement.compressionAgreed);
      return;
    }
    communicators[static_cast<std::size_t>(rank)] =
        std::make_unique<Communicator>(world.transport(rank), makeHostCodec(), testSettings());
  });
  for (const std::optional<Error>& error : errors) EXPECT_FALSE(error) << error->what();
  for (const std::unique_ptr<Communicator>& communicator : communicators) {
    EXPECT_FALSE(communicator->compressionAgreed());
    EXPECT_EQ(communicator->differences(),
              "the handshake's version is 2 on ranks 0 and 1, 7 on rank 2");
  }
}

TEST(Handshake, NamesARankThatNeverComes) {
  transport::LocalWorld world(3);
  CommunicatorSettings settings = testSettings();
  settings.timeout = std::chrono::milliseconds(200);
  const std::unique_ptr<transport::Transport> silent = world.transport(1);
  const RankErrors errors = runRanks(3, [&](int rank) {
    if (rank == 1) return;
    const Communicator communicator(world.transport(rank), makeHostCodec(), settings);
  });
  for (const std::size_t rank : {0U, 2U}) {
    ASSERT_TRUE(errors[rank]) << "rank " << rank << " did not notice";
    EXPECT_EQ(errors[rank]->code(), ErrorCode::kRemoteError);
    EXPECT_NE(errors[rank]->message().find("rank 1"), std::string::npos) << errors[rank]->message();
  }
}

TEST(Handshake, AllRanksUseTheProfileOfRankZero) {
  policy::Profile slowLink{.encodeGBps = 1, .decodeGBps = 1, .frameUs = 1};
  slowLink.allGather.pointCount = 2;
  slowLink.allGather.points[0] = {0, 1.0};
  slowLink.allGather.points[1] = {1000, 1001.0};
  std::vector<CommunicatorSettings> settings(3, testSettings(StrategyChoice::kAuto));
  settings[0].profile = slowLink;
  settings[1].profile = policy::Profile{};
  LocalGroup group(settings);
  for (int rank = 0; rank < 3; ++rank) EXPECT_EQ(group[rank].profile(), slowLink);
  checkOneCall(group);
  EXPECT_EQ(group[1].statistics().lastDecision->reason, policy::Reason::kStagedIsFaster);
}

const transport::LocalWorldOptions kPacedLinks{.timeout = {}, .linkBytesPerSecond = 1'000'000'000};

TEST(Handshake, MeasuresAProfileForAutoAndAllRanksHaveTheSame) {
  LocalGroup group(3, testSettings(StrategyChoice::kAuto), {}, {}, kPacedLinks);
  EXPECT_TRUE(policy::isUsable(group[0].profile()));
  for (int rank = 1; rank < 3; ++rank) EXPECT_EQ(group[rank].profile(), group[0].profile());
  EXPECT_EQ(group[0].statistics().wireBytesSent, 0U) << "the measurement is no call";
  checkOneCall(group);
  EXPECT_NE(group[0].statistics().lastDecision->reason, policy::Reason::kNoProfile);
}

TEST(Handshake, MeasuresNothingWhereRanksShareMemory) {
  LocalGroup group(2, testSettings(StrategyChoice::kAuto));
  EXPECT_FALSE(policy::isUsable(group[0].profile()));
  checkOneCall(group);
  EXPECT_EQ(group[1].statistics().lastDecision->reason, policy::Reason::kLinkIsMemory);
}

TEST(Handshake, AutoWithoutRoomToMeasureIsNative) {
  CommunicatorSettings settings = testSettings(StrategyChoice::kAuto);
  settings.agreed.maxScratchBytes = 100'000;
  LocalGroup group(2, settings, {}, {}, kPacedLinks);
  EXPECT_FALSE(policy::isUsable(group[0].profile()));
  checkOneCall(group);
  EXPECT_EQ(group[1].statistics().lastDecision->reason, policy::Reason::kNoProfile);
}

TEST(Handshake, RejectsANegativeTimeLimit) {
  transport::LocalWorld world(1);
  CommunicatorSettings settings = testSettings();
  settings.timeout = std::chrono::milliseconds(-1);
  EXPECT_THROW(Communicator(world.transport(0), makeHostCodec(), settings), Error);
}

}  // namespace
}  // namespace zipccl::collectives
