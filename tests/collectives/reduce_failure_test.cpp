// SPDX-License-Identifier: Apache-2.0
//
// Failures of reductions: wrong arguments, damaged frames in either half, ranks that call
// differently, leave or do not come, abort. Always an error on every rank, never a hang.

#include <gtest/gtest.h>

#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include "codec/layout.hpp"
#include "collectives/all_reduce.hpp"
#include "collectives/reduce_scatter.hpp"
#include "damaging_transport.hpp"
#include "local_group.hpp"
#include "reduce_check.hpp"
#include "support/seeded_test.hpp"

namespace zipccl::collectives {
namespace {

using std::chrono::milliseconds;
using testing::checkReduce;
using testing::Content;
using testing::Damage;
using testing::LocalGroup;
using testing::RankErrors;
using testing::ReduceCase;
using testing::testSettings;

constexpr int kRanks = 3;
constexpr int kSender = 1;
constexpr auto kBf16 = Datatype::kBfloat16;

class ReduceFailure : public zipccl::testing::SeededTest {
 protected:
  /// Makes calls until one fails, at most three: a rank may have done its part of the first.
  static RankErrors call(LocalGroup& group, const ReduceCase& test) {
    const testing::Shard expected = testing::expectedResult(test, group.rankCount());
    return group.run([&](Communicator& communicator) {
      for (int i = 0; i < 3; ++i) checkReduce(communicator, test, expected);
    });
  }

  static LocalGroup damagedGroup(const Damage& damage) {
    CommunicatorSettings settings = testSettings();
    settings.agreed.checksum = true;
    return LocalGroup(kRanks, settings, [&](std::unique_ptr<transport::Transport> inner) {
      return testing::damage(std::move(inner), damage);
    });
  }

  static void expectDamageFound(const RankErrors& errors, const std::string& frame) {
    for (const std::optional<Error>& error : errors) {
      ASSERT_TRUE(error);
      EXPECT_EQ(error->code(), ErrorCode::kRemoteError) << error->what();
      EXPECT_NE(error->message().find(frame), std::string::npos) << error->what();
    }
  }
};

TEST_F(ReduceFailure, WrongArgumentsNameValueAndExpectation) {
  LocalGroup group(3, testSettings());
  std::vector<std::uint16_t> a(300);
  std::vector<std::uint16_t> b(300);
  const auto message = [&](const auto& arguments) -> std::string {
    try {
      group[1].call(arguments);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument) << error.what();
      return error.message();
    }
    return "no error";
  };
  const auto has = [](const std::string& text, const char* part) {
    return text.find(part) != std::string::npos;
  };
  using Scatter = ReduceScatterArguments;
  EXPECT_TRUE(has(message(Scatter{nullptr, b.data(), 100, kBf16, {}, {}}), "sendbuff is null"));
  EXPECT_TRUE(has(message(Scatter{a.data(), nullptr, 100, kBf16, {}, {}}), "recvbuff is null"));
  EXPECT_TRUE(has(message(Scatter{a.data(), a.data(), 100, kBf16, {}, {}}), "only 200"));
  EXPECT_TRUE(
      has(message(Scatter{a.data(), b.data(), 10, Datatype::kFloat8e4m3, {}, {}}), "float8e4m3"));
  EXPECT_TRUE(has(message(AllReduceArguments{a.data(), a.data() + 50, 100, kBf16, {}, {}}),
                  "but are not the same"));
  EXPECT_TRUE(has(message(AllReduceArguments{a.data(), b.data(), ~std::uint64_t{0}, kBf16, {}, {}}),
                  "at most"));
  EXPECT_FALSE(group[1].asyncError());
}

TEST_F(ReduceFailure, AnAddendThatIsDamagedIsFoundByItsReceiver) {
  const std::uint64_t descriptorsAt =
      codec::frameLayout(codec::Datatype::kBfloat16, codec::Layout::kNarrow, 20'000, 0)
          .descriptorsAt;
  for (const std::size_t at : {std::size_t{3}, std::size_t{descriptorsAt + 1}}) {
    const Damage damage{
        .onSend = {},
        .onReceive = {},
        .onMessage = [at](int rank, int peer, int index, std::span<std::byte> sent) {
          if (rank == kSender && peer == 2 && index == 0) sent[at] ^= std::byte{0x80};
        }};
    LocalGroup group = damagedGroup(damage);
    expectDamageFound(call(group, {.elementCount = 20'000, .seed = random_()}),
                      "the frame of rank 1 (message 0, chunk 0) is damaged: ");
  }
}

TEST_F(ReduceFailure, AResultThatIsDamagedOnItsWayIsFound) {
  const Damage damage{
      .onSend = {},
      .onReceive =
          [](int rank, int index, std::span<std::byte> received, std::size_t bytes) {
            if (rank == 2 && index == 0) received[kSender * bytes + 4] ^= std::byte{0x01};
          },
      .onMessage = {}};
  LocalGroup group = damagedGroup(damage);
  expectDamageFound(call(group, {.isAllReduce = true, .elementCount = 60'000, .seed = random_()}),
                    "the frame of rank 1 (call 0, chunk 0) is damaged: ");
}

TEST_F(ReduceFailure, CountsThatDifferEndAllRanks) {
  for (const bool isAllReduce : {false, true}) {
    for (const StrategyChoice strategy : {StrategyChoice::kNative, StrategyChoice::kStaged}) {
      LocalGroup group(kRanks, testSettings(strategy));
      const RankErrors errors = group.run([&](Communicator& communicator) {
        const std::uint64_t count = communicator.rank() == 1 ? 30'000 : 20'000;
        std::vector<std::uint16_t> send(kRanks * count);
        std::vector<std::uint16_t> receive(kRanks * count);
        if (isAllReduce) {
          communicator.call(AllReduceArguments{send.data(), receive.data(), count, kBf16, {}, {}});
        } else {
          communicator.call(
              ReduceScatterArguments{send.data(), receive.data(), count, kBf16, {}, {}});
        }
      });
      for (const std::optional<Error>& error : errors) EXPECT_TRUE(error);
    }
  }
}

TEST_F(ReduceFailure, ARankThatDoesNotComeOrLeavesEndsTheOthers) {
  for (const bool leaves : {false, true}) {
    for (const bool isAllReduce : {false, true}) {
      for (const StrategyChoice strategy : {StrategyChoice::kNative, StrategyChoice::kStaged}) {
        CommunicatorSettings settings = testSettings(strategy);
        settings.timeout = milliseconds(leaves ? 60'000 : 200);
        LocalGroup group(kRanks, settings);
        const ReduceCase test{
            .isAllReduce = isAllReduce, .elementCount = 20'000, .seed = random_()};
        const testing::Shard expected = testing::expectedResult(test, kRanks);
        const RankErrors errors = testing::runRanks(kRanks, [&](int rank) {
          if (rank != 0) {
            checkReduce(group[rank], test, expected);
          } else if (leaves) {
            group.leave(0);
          }
        });
        for (const std::size_t rank : {1U, 2U}) {
          ASSERT_TRUE(errors[rank]);
          EXPECT_EQ(errors[rank]->code(), ErrorCode::kRemoteError);
          EXPECT_NE(errors[rank]->message().find("rank 0"), std::string::npos)
              << errors[rank]->what();
        }
      }
    }
  }
}

TEST_F(ReduceFailure, AbortInTheMiddleOfRunningCallsEndsAllRanks) {
  for (int round = 0; round < static_cast<int>(testing::scaled(20)); ++round) {
    CommunicatorSettings settings =
        testSettings(round % 2 == 0 ? StrategyChoice::kStaged : StrategyChoice::kNative);
    settings.agreed.maxScratchBytes = 400'000;
    LocalGroup group(kRanks, settings);
    const auto pause = std::chrono::microseconds(random_.below(20'000));
    std::jthread watchdog([&] {
      std::this_thread::sleep_for(pause);
      group[2].abort();
    });
    const ReduceCase test{.isAllReduce = round % 4 < 2,
                          .elementCount = 50'000,
                          .contents = {Content::kManyEscapes},
                          .seed = random_()};
    const testing::Shard expected = testing::expectedResult(test, kRanks);
    const RankErrors errors = group.run([&](Communicator& communicator) {
      for (;;) checkReduce(communicator, test, expected);
    });
    for (const std::optional<Error>& error : errors) {
      ASSERT_TRUE(error);
      EXPECT_NE(error->message().find("the application aborted"), std::string::npos)
          << error->what();
    }
  }
}

}  // namespace
}  // namespace zipccl::collectives
