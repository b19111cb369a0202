// SPDX-License-Identifier: Apache-2.0
//
// Failures of exchanges between pairs: wrong arguments, ends that do not fit each other, damaged
// frames, abort, ranks that leave or do not come. Always an error on every rank, never a hang.

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include "codec/layout.hpp"
#include "collectives/all_to_all.hpp"
#include "collectives/send_receive.hpp"
#include "damaging_transport.hpp"
#include "local_group.hpp"
#include "pair_check.hpp"
#include "support/seeded_test.hpp"

namespace zipccl::collectives {
namespace {

using std::chrono::milliseconds;
using testing::checkPairs;
using testing::Content;
using testing::Damage;
using testing::kAllWays;
using testing::LocalGroup;
using testing::PairCase;
using testing::RankErrors;
using testing::testSettings;
using testing::Way;

constexpr auto kBf16 = Datatype::kBfloat16;
constexpr int kRanks = 3;
constexpr int kSender = 1;

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

void flipBit(std::span<std::byte> bytes, std::uint64_t bit) {
  bytes[bit / 8] ^= std::byte{static_cast<unsigned char>(1U << bit % 8)};
}

CommunicatorSettings checkedSettings() {
  CommunicatorSettings settings = testSettings();
  settings.agreed.checksum = true;
  return settings;
}

class PairFailure : public zipccl::testing::SeededTest {
 protected:
  /// Every rank's next call fails, and all remember why.
  static void expectEnded(LocalGroup& group, const std::string& cause) {
    const auto start = std::chrono::steady_clock::now();
    const RankErrors errors = group.run(
        [](Communicator& communicator) { checkPairs(communicator, {.elementCount = 5000}); });
    EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(10));
    for (int rank = 0; rank < group.rankCount(); ++rank) {
      const std::optional<Error>& error = errors[static_cast<std::size_t>(rank)];
      ASSERT_TRUE(error) << "rank " << rank << " goes on";
      EXPECT_NE(error->message().find(cause), std::string::npos) << error->what();
      EXPECT_TRUE(group[rank].asyncError()) << "rank " << rank;
    }
  }

  /// Makes calls on a fresh group until they fail, at most three.
  RankErrors callUntilFailure(const Damage& damage, PairCase test,
                              const CommunicatorSettings& settings) {
    LocalGroup group(kRanks, settings, [&](std::unique_ptr<transport::Transport> inner) {
      return testing::damage(std::move(inner), damage);
    });
    test.seed = random_();
    const RankErrors errors = group.run([&](Communicator& communicator) {
      for (int call = 0; call < 3; ++call) checkPairs(communicator, test);
    });
    bool anyFailed = false;
    for (const std::optional<Error>& error : errors) anyFailed = anyFailed || error.has_value();
    for (int rank = 0; rank < kRanks && anyFailed; ++rank) {
      EXPECT_TRUE(errors[static_cast<std::size_t>(rank)])
          << "rank " << rank << " made all its calls though another rank failed";
    }
    return errors;
  }
};

TEST_F(PairFailure, WrongArgumentsNameValueAndExpectationAndLeaveTheCommunicatorAsItWas) {
  LocalGroup group(3, testSettings());
  Communicator& communicator = group[1];
  std::vector<std::uint16_t> a(300);
  std::vector<std::uint16_t> b(300);
  const auto allToAll = [&](const void* send, void* receive, std::uint64_t count) {
    return errorOf([&] { communicator.call(AllToAllArguments{send, receive, count, kBf16, {}}); });
  };
  constexpr auto kInvalid = ErrorCode::kInvalidArgument;
  expectMessage(allToAll(nullptr, b.data(), 100), kInvalid, "sendbuff is null, but count is 100");
  expectMessage(allToAll(a.data(), nullptr, 100), kInvalid, "recvbuff is null, but count is 100");
  expectMessage(allToAll(a.data(), a.data(), 100), kInvalid, "does not work in place");
  expectMessage(allToAll(a.data(), a.data() + 299, 100), kInvalid, "overlap");
  expectMessage(allToAll(a.data(), b.data(), ~std::uint64_t{0} / 2), kInvalid, "at most");

  using Counts = std::vector<std::size_t>;
  const auto allToAllv = [&](const Counts& counts, const Counts& at, const Counts& to) {
    return errorOf([&] {
      communicator.call(AllToAllvArguments{a.data(), counts, at, b.data(), counts, to, kBf16, {}});
    });
  };
  expectMessage(allToAllv({1, 2, ~std::size_t{0}}, {0, 1, 3}, {0, 1, 3}), kInvalid,
                "sendcounts[2] is 18446744073709551615");
  expectMessage(allToAllv({10, 10, 10}, {0, 10, 20}, {0, 9, 20}), kInvalid, "recvbuff overlaps");
  expectMessage(allToAllv({10, 10}, {0, 10}, {0, 10}), kInvalid, "for 3 ranks");

  const auto one = [&](const PointToPoint& operation) {
    return errorOf([&] { communicator.sendReceive(operation); });
  };
  expectMessage(one({true, a.data(), nullptr, 10, kBf16, 3}), kInvalid, "peer is 3");
  expectMessage(one({true, a.data(), nullptr, 10, kBf16, -1}), kInvalid, "peer is -1");
  expectMessage(one({true, nullptr, nullptr, 10, kBf16, 0}), kInvalid, "sendbuff is null");
  expectMessage(one({false, nullptr, nullptr, 10, kBf16, 0}), kInvalid, "recvbuff is null");
  EXPECT_FALSE(communicator.asyncError());
  group.runAll(
      [&](Communicator& each) { checkPairs(each, {.elementCount = 5000, .seed = seed_}); });
}

TEST_F(PairFailure, CountsThatDifferBetweenTheEndsEndAllRanks) {
  LocalGroup group(3, testSettings());
  const RankErrors errors = group.run([](Communicator& communicator) {
    const std::uint64_t count = communicator.rank() == 1 ? 30'000 : 20'000;
    std::vector<std::uint16_t> send(3 * count);
    std::vector<std::uint16_t> receive(3 * count);
    communicator.call(AllToAllArguments{send.data(), receive.data(), count, kBf16, {}});
  });
  for (const std::optional<Error>& error : errors) ASSERT_TRUE(error);
  expectEnded(group, "rank 1");
}

TEST_F(PairFailure, CountsThatDifferWithinOneFrameSizeEndAllRanks) {
  LocalGroup group(2, testSettings());
  const RankErrors errors = group.run([](Communicator& communicator) {
    const std::uint64_t count = communicator.rank() == 1 ? 4 : 3;
    std::vector<std::uint16_t> send(2 * count);
    std::vector<std::uint16_t> receive(2 * count);
    communicator.call(AllToAllArguments{send.data(), receive.data(), count, kBf16, {}});
  });
  for (const std::optional<Error>& error : errors) {
    ASSERT_TRUE(error);
    EXPECT_NE(error->message().find("sent a frame of"), std::string::npos) << error->what();
  }
}

TEST_F(PairFailure, ASendOutsideAGroupDoesNotMatchARecvInOne) {
  for (const std::uint64_t count : {100, 1024, 50'000}) {
    for (const bool isSendGrouped : {false, true}) {
      LocalGroup group(2, testSettings());
      const RankErrors errors = group.run([&](Communicator& communicator) {
        std::vector<std::uint16_t> buffer(count);
        const bool isSend = communicator.rank() == 0;
        const PointToPoint operation{isSend, buffer.data(), buffer.data(),
                                     count,  kBf16,         1 - communicator.rank()};
        if (isSend == isSendGrouped) {
          communicator.sendReceiveGroup({&operation, 1});
        } else {
          communicator.sendReceive(operation);
        }
      });
      for (const std::optional<Error>& error : errors) {
        ASSERT_TRUE(error) << count << " elements";
        EXPECT_EQ(error->code(), ErrorCode::kInvalidUsage) << error->what();
      }
    }
  }
}

TEST_F(PairFailure, MessagesToOneselfWithoutTheirOtherEnd) {
  std::vector<std::uint16_t> buffer(100);
  for (const bool isSend : {false, true}) {
    LocalGroup group(1, testSettings());
    const PointToPoint operation{isSend, buffer.data(), buffer.data(), 100, kBf16, 0};
    expectMessage(errorOf([&] {
                    group[0].sendReceiveGroup({&operation, 1});
                  }),
                  ErrorCode::kInvalidUsage, "itself");
    LocalGroup alone(1, testSettings());
    expectMessage(errorOf([&] { alone[0].sendReceive(operation); }), ErrorCode::kInvalidUsage,
                  "outside a group");
  }
}

TEST_F(PairFailure, EveryHeaderBitIsProtected) {
  constexpr std::uint64_t kStep = testing::kIsThreadSanitized ? 80 : 8;
  for (std::uint64_t bit = random_.below(kStep); bit < 8 * codec::kHeaderBytes; bit += kStep) {
    SCOPED_TRACE(::testing::Message() << "bit " << bit);
    const Damage damage{.onSend = {},
                        .onReceive = {},
                        .onMessage = [&](int rank, int peer, int at, std::span<std::byte> sent) {
                          if (rank == kSender && peer == 2 && at == 0) flipBit(sent, bit);
                        }};
    const RankErrors errors = callUntilFailure(damage, {.elementCount = 1500}, checkedSettings());
    for (const std::optional<Error>& error : errors) {
      ASSERT_TRUE(error);
      EXPECT_EQ(error->code(), ErrorCode::kRemoteError) << error->what();
      EXPECT_NE(error->message().find("the frame of rank 1 (message 0, chunk 0) is damaged: "),
                std::string::npos)
          << error->what();
    }
    if (HasFailure()) return;
  }
}

TEST_F(PairFailure, AnyDamageGivesTheRightBitsOrAnError) {
  int found = 0;
  constexpr int kRounds = static_cast<int>(testing::scaled(150));
  for (int round = 0; round < kRounds; ++round) {
    CommunicatorSettings settings = checkedSettings();
    // Of two sizes: all in one chunk, and several with dynamic parts in between.
    settings.agreed.maxScratchBytes = std::uint64_t{1} << (random_.chance(0.5) ? 19 : 24);
    const PairCase test{
        .way = kAllWays[random_.below(3)],
        .datatype = random_.chance(0.5) ? kBf16 : Datatype::kFloat32,
        .elementCount = 30'000,
        .contents = {random_.chance(0.5) ? Content::kManyEscapes : Content::kPatchwork}};
    const int message = static_cast<int>(random_.below(4));
    const std::uint64_t seed = random_();
    const Damage damage{.onSend = {},
                        .onReceive = {},
                        .onMessage = [=](int rank, int peer, int at, std::span<std::byte> sent) {
                          if (rank != kSender || peer != 2 || at != message) return;
                          Random random(seed);
                          const std::uint64_t place = random();
                          for (std::uint64_t i = random.between(1, 40); i > 0; --i) {
                            flipBit(sent, (place + random.below(200)) % (8 * sent.size()));
                          }
                        }};
    SCOPED_TRACE(::testing::Message() << "round " << round);
    found += callUntilFailure(damage, test, settings)[2] ? 1 : 0;
    if (HasFailure()) return;
  }
  EXPECT_GT(found, kRounds / 2) << "most damage must be found, or the test damages nothing";
}

TEST_F(PairFailure, ARankThatDoesNotComeIsNamed) {
  for (const Way way : kAllWays) {
    CommunicatorSettings settings = testSettings();
    settings.timeout = milliseconds(200);
    LocalGroup group(3, settings);
    const RankErrors errors = group.run([&](Communicator& communicator) {
      if (communicator.rank() == 2) return;
      checkPairs(communicator, {.way = way, .elementCount = 20'000, .seed = seed_});
    });
    for (const std::size_t rank : {0U, 1U}) {
      ASSERT_TRUE(errors[rank]);
      expectMessage(*errors[rank], ErrorCode::kRemoteError, "rank 2");
    }
    expectEnded(group, "rank 2");
  }
}

TEST_F(PairFailure, ARankThatLeavesEndsTheOthers) {
  LocalGroup group(3, testSettings());
  const RankErrors errors = testing::runRanks(3, [&](int rank) {
    if (rank == 0) {
      group.leave(0);
      return;
    }
    checkPairs(group[rank], {.elementCount = 20'000, .seed = seed_});
  });
  for (const std::size_t rank : {1U, 2U}) {
    ASSERT_TRUE(errors[rank]);
    expectMessage(*errors[rank], ErrorCode::kRemoteError, "rank 0 left");
  }
}

TEST_F(PairFailure, AbortEndsRanksThatWait) {
  LocalGroup group(4, testSettings());
  std::jthread watchdog([&] {
    std::this_thread::sleep_for(milliseconds(100));
    group[1].abort();
  });
  const RankErrors errors = group.run([&](Communicator& communicator) {
    if (communicator.rank() == 3) return;
    checkPairs(communicator, {.way = Way::kGroup, .elementCount = 20'000, .seed = seed_});
  });
  for (const std::size_t rank : {0U, 1U, 2U}) {
    ASSERT_TRUE(errors[rank]) << "rank " << rank;
    expectMessage(*errors[rank], ErrorCode::kRemoteError, "the application aborted");
  }
}

TEST_F(PairFailure, AbortInTheMiddleOfRunningCallsEndsAllRanks) {
  for (int round = 0; round < static_cast<int>(testing::scaled(20)); ++round) {
    CommunicatorSettings settings = testSettings();
    settings.agreed.maxScratchBytes = 300'000;
    LocalGroup group(3, settings);
    const auto pause = std::chrono::microseconds(random_.below(20'000));
    std::jthread watchdog([&] {
      std::this_thread::sleep_for(pause);
      group[2].abort();
    });
    const PairCase test{.way = Way::kAllToAllv,
                        .elementCount = 50'000,
                        .contents = {Content::kManyEscapes},
                        .seed = seed_};
    const RankErrors errors = group.run([&](Communicator& communicator) {
      for (;;) checkPairs(communicator, test);
    });
    for (const std::optional<Error>& error : errors) {
      ASSERT_TRUE(error);
      expectMessage(*error, ErrorCode::kRemoteError, "the application aborted");
    }
  }
}

}  // namespace
}  // namespace zipccl::collectives
