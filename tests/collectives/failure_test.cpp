// SPDX-License-Identifier: Apache-2.0
//
// Failures: wrong arguments, a second thread, ranks that call differently, abort, a rank that does
// not come. No rank ever waits for one that has failed.

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include "all_gather_check.hpp"
#include "damaging_transport.hpp"
#include "local_group.hpp"
#include "log_capture.hpp"
#include "support/seeded_test.hpp"

namespace zipccl::collectives {
namespace {

using std::chrono::milliseconds;
using testing::AllGatherCase;
using testing::checkAllGather;
using testing::LocalGroup;
using testing::makeShards;
using testing::RankErrors;
using testing::runRanks;
using testing::testSettings;

constexpr auto kBf16 = Datatype::kBfloat16;

/// What `action` threw; fails the test when it threw nothing.
template <class Action>
Error errorOf(const Action& action) {
  try {
    action();
  } catch (const Error& error) {
    return error;
  }
  ADD_FAILURE() << "no error";
  return Error(ErrorCode::kSuccess, "no error");
}

void expectMessage(const Error& error, ErrorCode code, const std::string& part) {
  EXPECT_EQ(error.code(), code) << error.what();
  EXPECT_NE(error.message().find(part), std::string::npos) << error.what();
}

class Failure : public zipccl::testing::SeededTest {
 protected:
  void checkOneCall(LocalGroup& group) {
    const AllGatherCase test{.elementCount = 5000, .seed = random_()};
    const std::vector<testing::Shard> shards = makeShards(test, group.rankCount());
    group.runAll([&](Communicator& communicator) { checkAllGather(communicator, test, shards); });
  }
};

/// Every rank's next call fails, and soon; all say what ended the communicator.
void expectEnded(LocalGroup& group, const std::string& cause) {
  const auto start = std::chrono::steady_clock::now();
  const RankErrors errors = group.run([](Communicator& communicator) {
    std::vector<std::uint16_t> buffer(8192U * static_cast<unsigned>(communicator.rankCount()));
    std::vector<std::uint16_t> own(8192);
    communicator.allGather(own.data(), buffer.data(), own.size(), kBf16);
  });
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(10));
  for (int rank = 0; rank < group.rankCount(); ++rank) {
    const std::optional<Error>& error = errors[static_cast<std::size_t>(rank)];
    ASSERT_TRUE(error) << "rank " << rank << " goes on";
    EXPECT_NE(error->message().find(cause), std::string::npos) << error->what();
    const std::optional<Error> async = group[rank].asyncError();
    ASSERT_TRUE(async) << "rank " << rank;
    EXPECT_EQ(async->code(), error->code());
    EXPECT_EQ(async->message(), error->message());
  }
}

TEST_F(Failure, WrongArgumentsNameValueAndExpectationAndLeaveTheCommunicatorAsItWas) {
  LocalGroup group(3, testSettings());
  Communicator& communicator = group[1];
  std::vector<std::uint16_t> buffer(300);
  const auto call = [&](const void* send, void* receive, std::uint64_t count) {
    return errorOf([&] { communicator.allGather(send, receive, count, kBf16); });
  };
  expectMessage(call(nullptr, buffer.data(), 100), ErrorCode::kInvalidArgument,
                "sendbuff is null, but sendcount is 100");
  expectMessage(call(buffer.data() + 100, nullptr, 100), ErrorCode::kInvalidArgument,
                "recvbuff is null, but sendcount is 100");
  expectMessage(call(buffer.data(), buffer.data(), 100), ErrorCode::kInvalidArgument,
                "sendbuff begins 0 bytes after recvbuff and overlaps it; only 200");
  expectMessage(call(buffer.data() + 99, buffer.data(), 100), ErrorCode::kInvalidArgument,
                "sendbuff begins 198 bytes after recvbuff");
  expectMessage(call(buffer.data(), buffer.data() + 99, 100), ErrorCode::kInvalidArgument,
                "sendbuff begins -198 bytes after recvbuff");
  expectMessage(call(buffer.data(), buffer.data(), ~std::uint64_t{0} / 2),
                ErrorCode::kInvalidArgument, "sendcount is 9223372036854775807; at most");
  EXPECT_FALSE(communicator.asyncError());
  checkOneCall(group);
}

TEST_F(Failure, NoElementsNeedNoBuffers) {
  LocalGroup group(2, testSettings());
  group.runAll(
      [](Communicator& communicator) { communicator.allGather(nullptr, nullptr, 0, kBf16); });
  checkOneCall(group);
}

TEST_F(Failure, ASecondThreadIsTurnedAway) {
  std::atomic<bool> isInside = false;
  const testing::Damage watch{
      .onSend = [&](int rank, int, std::span<std::byte>) { isInside = isInside || rank == 0; },
      .onReceive = {}};
  LocalGroup group(2, testSettings(), [&](std::unique_ptr<transport::Transport> inner) {
    return testing::damage(std::move(inner), watch);
  });
  std::vector<std::uint16_t> send(1000);
  std::vector<std::uint16_t> receive(2000);
  std::vector<std::uint16_t> others(2000);
  std::jthread first([&] {
    const Error error =
        errorOf([&] { group[0].allGather(send.data(), receive.data(), send.size(), kBf16); });
    EXPECT_EQ(error.code(), ErrorCode::kRemoteError);
  });
  while (!isInside) std::this_thread::sleep_for(milliseconds(1));
  const Error error =
      errorOf([&] { group[0].allGather(send.data(), others.data(), send.size(), kBf16); });
  expectMessage(error, ErrorCode::kInvalidUsage, "another thread is inside a collective");
  EXPECT_FALSE(group[0].asyncError());
  group[0].abort();
}

TEST_F(Failure, CountsThatDifferEndAllRanks) {
  LocalGroup group(3, testSettings());
  const RankErrors errors = group.run([](Communicator& communicator) {
    const std::uint64_t count = communicator.rank() == 1 ? 30'000 : 20'000;
    std::vector<std::uint16_t> send(count);
    std::vector<std::uint16_t> receive(3 * count);
    communicator.allGather(send.data(), receive.data(), count, kBf16);
  });
  int usageErrors = 0;
  for (const std::optional<Error>& error : errors) {
    ASSERT_TRUE(error);
    usageErrors += error->code() == ErrorCode::kInvalidUsage ? 1 : 0;
  }
  EXPECT_GE(usageErrors, 1);
  expectEnded(group, "rank 1");
}

TEST_F(Failure, CountsThatDifferWithinOneFrameSizeEndAllRanks) {
  LocalGroup group(3, testSettings());
  // 3 and 4 elements give static parts of one size, so that only the headers tell.
  const RankErrors errors = group.run([](Communicator& communicator) {
    const std::uint64_t count = communicator.rank() == 1 ? 4 : 3;
    std::vector<std::uint16_t> send(count);
    std::vector<std::uint16_t> receive(3 * count);
    communicator.allGather(send.data(), receive.data(), count, kBf16);
  });
  for (const std::optional<Error>& error : errors) {
    ASSERT_TRUE(error);
    EXPECT_NE(error->message().find("sent a frame of"), std::string::npos) << error->what();
  }
  expectEnded(group, "elements of bfloat16");
}

TEST_F(Failure, DatatypesThatDifferEndAllRanks) {
  LocalGroup group(2, testSettings());
  const RankErrors errors = group.run([](Communicator& communicator) {
    std::vector<std::uint64_t> send(4096);
    std::vector<std::uint64_t> receive(2 * 4096);
    communicator.allGather(send.data(), receive.data(), 4096,
                           communicator.rank() == 0 ? kBf16 : Datatype::kInt64);
  });
  for (const std::optional<Error>& error : errors) ASSERT_TRUE(error);
  expectEnded(group, "rank 1");
}

TEST_F(Failure, ARankThatDoesNotComeIsNamed) {
  CommunicatorSettings settings = testSettings();
  settings.timeout = milliseconds(200);
  LocalGroup group(3, settings);
  const RankErrors errors = group.run([](Communicator& communicator) {
    if (communicator.rank() == 2) return;
    std::vector<std::uint16_t> send(1000);
    std::vector<std::uint16_t> receive(3000);
    communicator.allGather(send.data(), receive.data(), send.size(), kBf16);
  });
  for (const std::size_t rank : {0U, 1U}) {
    ASSERT_TRUE(errors[rank]);
    expectMessage(*errors[rank], ErrorCode::kRemoteError, "rank 2");
  }
  expectEnded(group, "rank 2");
}

TEST_F(Failure, AbortEndsRanksThatWait) {
  LocalGroup group(4, testSettings());
  std::jthread watchdog([&] {
    std::this_thread::sleep_for(milliseconds(100));
    group[1].abort();
  });
  const RankErrors errors = group.run([](Communicator& communicator) {
    if (communicator.rank() == 3) return;
    std::vector<std::uint16_t> send(1000);
    std::vector<std::uint16_t> receive(4000);
    communicator.allGather(send.data(), receive.data(), send.size(), kBf16);
  });
  for (const std::size_t rank : {0U, 1U, 2U}) {
    ASSERT_TRUE(errors[rank]) << "rank " << rank;
    expectMessage(*errors[rank], ErrorCode::kRemoteError, "the application aborted");
    expectMessage(*errors[rank], ErrorCode::kRemoteError, "rank 1");
  }
  expectEnded(group, "the application aborted");
}

TEST_F(Failure, AbortInTheMiddleOfRunningCallsEndsAllRanks) {
  for (int round = 0; round < static_cast<int>(testing::scaled(20)); ++round) {
    CommunicatorSettings settings = testSettings();
    settings.agreed.maxScratchBytes = 200'000;
    LocalGroup group(3, settings);
    const auto pause = std::chrono::microseconds(random_.below(20'000));
    std::jthread watchdog([&] {
      std::this_thread::sleep_for(pause);
      group[2].abort();
    });
    std::atomic<int> finishedCalls = 0;
    const RankErrors errors = group.run([&](Communicator& communicator) {
      std::vector<std::uint16_t> send(50'000, 0x3C00);
      std::vector<std::uint16_t> receive(150'000);
      for (;;) {
        communicator.allGather(send.data(), receive.data(), send.size(), kBf16);
        ++finishedCalls;
      }
    });
    for (const std::optional<Error>& error : errors) {
      ASSERT_TRUE(error);
      expectMessage(*error, ErrorCode::kRemoteError, "the application aborted");
    }
    expectEnded(group, "the application aborted");
  }
}

TEST_F(Failure, AbortBetweenCallsShowsInAsyncErrorOfAllRanks) {
  LocalGroup group(3, testSettings());
  checkOneCall(group);
  EXPECT_FALSE(group[0].asyncError());
  group[0].abort();
  group[0].abort();
  for (int rank = 0; rank < 3; ++rank) ASSERT_TRUE(group[rank].asyncError()) << "rank " << rank;
  expectEnded(group, "the application aborted");
}

TEST_F(Failure, TheFirstErrorSticks) {
  CommunicatorSettings settings = testSettings();
  settings.timeout = milliseconds(100);
  LocalGroup group(2, settings);
  std::vector<std::uint16_t> send(1000);
  std::vector<std::uint16_t> receive(2000);
  const auto call = [&] { group[0].allGather(send.data(), receive.data(), send.size(), kBf16); };
  const Error first = errorOf(call);
  expectMessage(first, ErrorCode::kRemoteError, "rank 1");
  const CommunicatorStatistics before = group[0].statistics();
  group[0].abort();
  for (int i = 0; i < 3; ++i) {
    const Error again = errorOf(call);
    EXPECT_EQ(again.code(), first.code());
    EXPECT_EQ(again.message(), first.message());
  }
  EXPECT_EQ(group[0].statistics().stagedCalls, before.stagedCalls);
  expectMessage(errorOf([&] { group[0].allGather(nullptr, nullptr, 5, kBf16); }),
                ErrorCode::kInvalidArgument, "sendbuff is null");
}

TEST_F(Failure, ARankThatLeavesEndsTheOthers) {
  LocalGroup group(3, testSettings());
  const RankErrors errors = runRanks(3, [&](int rank) {
    if (rank == 0) {
      group.leave(0);
      return;
    }
    std::vector<std::uint16_t> send(1000);
    std::vector<std::uint16_t> receive(3000);
    group[rank].allGather(send.data(), receive.data(), send.size(), kBf16);
  });
  for (const std::size_t rank : {1U, 2U}) {
    ASSERT_TRUE(errors[rank]);
    expectMessage(*errors[rank], ErrorCode::kRemoteError, "rank 0 left");
  }
}

TEST_F(Failure, StatisticsAndErrorsMayBeReadWhileCallsRun) {
  LocalGroup group(2, testSettings());
  std::atomic<bool> isDone = false;
  std::jthread reader([&] {
    while (!isDone) {
      static_cast<void>(group[0].statistics());
      static_cast<void>(group[0].asyncError());
    }
  });
  for (int i = 0; i < 20; ++i) checkOneCall(group);
  isDone = true;
}

}  // namespace
}  // namespace zipccl::collectives
