// SPDX-License-Identifier: Apache-2.0
//
// The local transport: the contract of all transports on 1 to 8 ranks, and its failures.

#include "transport/local_transport.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <functional>
#include <limits>
#include <new>
#include <optional>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

#include "base/clock.hpp"
#include "base/random.hpp"
#include "contract.hpp"
#include "support/out_of_memory.hpp"
#include "support/sanitized.hpp"
#include "thread_ranks.hpp"

namespace zipccl::transport {
namespace {

using namespace std::chrono_literals;

class LocalContract : public ::testing::TestWithParam<std::tuple<int, ContractCheck>> {};

TEST_P(LocalContract, Holds) {
  const auto& [rankCount, check] = GetParam();
  const std::uint64_t seed = freshSeed();
  SCOPED_TRACE(::testing::Message() << "seed " << seed);
  runAllRanks(rankCount, [&check = check, seed](Transport& transport) {
    SCOPED_TRACE(::testing::Message() << "rank " << transport.rank() << ", seed " << seed);
    check.run(transport, seed);
    transport.barrier();
  });
}

INSTANTIATE_TEST_SUITE_P(Ranks, LocalContract,
                         ::testing::Combine(::testing::Values(1, 2, 3, 4, 8),
                                            ::testing::ValuesIn(contractChecks().begin(),
                                                                contractChecks().end())),
                         [](const auto& instance) {
                           return std::string(std::get<1>(instance.param).name) + "On" +
                                  std::to_string(std::get<0>(instance.param));
                         });

::testing::AssertionResult mentions(const Error& error, const std::vector<std::string>& words) {
  for (const std::string& word : words) {
    if (error.message().find(word) == std::string::npos) {
      return ::testing::AssertionFailure() << "\"" << word << "\" is not in: " << error.message();
    }
  }
  return ::testing::AssertionSuccess();
}

/// Every rank must have failed: the involved with `code`, the others with kRemoteError, all with
/// the words.
void expectFailure(const RankErrors& errors, const std::vector<int>& involved, ErrorCode code,
                   const std::vector<std::string>& words, const std::vector<int>& absent = {}) {
  for (int rank = 0; rank < static_cast<int>(errors.size()); ++rank) {
    const auto has = [rank](const std::vector<int>& ranks) {
      return std::find(ranks.begin(), ranks.end(), rank) != ranks.end();
    };
    if (has(absent)) continue;
    const std::optional<Error>& error = errors[static_cast<std::size_t>(rank)];
    ASSERT_TRUE(error.has_value()) << "rank " << rank << " did not fail";
    EXPECT_EQ(error->code(), has(involved) ? code : ErrorCode::kRemoteError)
        << "rank " << rank << ": " << error->what();
    EXPECT_TRUE(mentions(*error, words)) << "rank " << rank;
  }
}

TEST(LocalTransport, NamesBothSizesOnBothRanksWhenTheyDiffer) {
  struct Sizes {
    std::size_t sent;
    std::size_t expected;
  };
  for (const Sizes& bytes : {Sizes{100, 96}, {96, 100}, {0, 7}, {7, 0}}) {
    LocalWorld world(4, {.timeout = 30s});
    const RankErrors errors = runRanks(world, [&](Transport& transport) {
      std::vector<std::byte> buffer(100);
      if (transport.rank() == 1) {
        const SendMessage send{.peer = 2, .data = buffer.data(), .bytes = bytes.sent};
        transport.exchange({&send, 1}, {});
      } else if (transport.rank() == 2) {
        const ReceiveMessage receive{.peer = 1, .data = buffer.data(), .bytes = bytes.expected};
        transport.exchange({}, {&receive, 1});
      }
      transport.barrier();
    });
    expectFailure(errors, {1, 2}, ErrorCode::kInvalidUsage,
                  {"rank 1 sends " + std::to_string(bytes.sent), "to rank 2",
                   "expects " + std::to_string(bytes.expected)});
  }
}

TEST(LocalTransport, NoticesAllGathersOfDifferentSizes) {
  LocalWorld world(3, {.timeout = 30s});
  const RankErrors errors = runRanks(world, [](Transport& transport) {
    std::vector<std::byte> send(64);
    std::vector<std::byte> receive(256);
    transport.allGather(send.data(), receive.data(), transport.rank() == 2 ? 48 : 32);
  });
  int involvedCount = 0;
  for (const std::optional<Error>& error : errors) {
    ASSERT_TRUE(error.has_value());
    EXPECT_TRUE(mentions(*error, {"all-gather", "32 bytes", "48 bytes", "rank 2"}));
    involvedCount += error->code() == ErrorCode::kInvalidUsage ? 1 : 0;
  }
  EXPECT_EQ(involvedCount, 2);
  EXPECT_EQ(errors[2]->code(), ErrorCode::kInvalidUsage);
}

TEST(LocalTransport, NoticesDifferentCollectivesThatMeet) {
  LocalWorld world(2, {.timeout = 30s});
  const RankErrors errors = runRanks(world, [](Transport& transport) {
    std::array<std::byte, 8> buffer = {};
    if (transport.rank() == 0) {
      transport.broadcast(buffer.data(), 0, 0);
    }
    transport.barrier();
  });
  expectFailure(errors, {0, 1}, ErrorCode::kInvalidUsage,
                {"broadcast", "barrier", "rank 0", "rank 1"});
}

TEST(LocalTransport, AbortInTheMiddleWakesEveryone) {
  LocalWorld world(4, {.timeout = 60s});
  std::atomic<Transport*> toAbort = nullptr;
  std::atomic<int> waitingCount = 0;
  std::thread watchdog([&] {
    while (waitingCount.load() != 3 || toAbort.load() == nullptr) std::this_thread::sleep_for(1ms);
    std::this_thread::sleep_for(20ms);
    toAbort.load()->abort("the watchdog had enough");
  });
  const std::int64_t startUs = nowUs();
  std::atomic<bool> isOver = false;
  const RankErrors errors = runRanks(world, [&](Transport& transport) {
    std::vector<std::byte> buffer(4096);
    if (transport.rank() == 3) {
      // Never takes part, and stays: only the abort can end the others' calls.
      while (!transport.hasFailed()) std::this_thread::sleep_for(1ms);
      EXPECT_THROW(transport.barrier(), Error);
      isOver = true;
      transport.barrier();
    }
    if (transport.rank() == 0) toAbort = &transport;
    ++waitingCount;
    switch (transport.rank()) {
      case 0:
        transport.allGather(buffer.data(), buffer.data() + 1024, 512);
        break;
      case 1: {
        const ReceiveMessage receive{.peer = 3, .data = buffer.data(), .bytes = 100};
        transport.exchange({}, {&receive, 1});
        break;
      }
      default: {
        const SendMessage send{.peer = 3, .data = buffer.data(), .bytes = 100};
        transport.exchange({&send, 1}, {});
        break;
      }
    }
  });
  watchdog.join();
  EXPECT_TRUE(isOver.load());
  EXPECT_LT(nowUs() - startUs, 20'000'000);
  expectFailure(errors, {}, ErrorCode::kRemoteError, {"the watchdog had enough", "rank 0"});
}

TEST(LocalTransport, ARankThatNeverComesIsATimeoutThatNamesIt) {
  LocalWorld world(4, {.timeout = 150ms});
  const std::int64_t startUs = nowUs();
  const RankErrors errors = runRanks(world,
                                     [](Transport& transport) {
                                       std::vector<std::byte> buffer(1000);
                                       transport.allGather(buffer.data(), buffer.data() + 100, 100);
                                     },
                                     {2});
  const std::int64_t elapsedUs = nowUs() - startUs;
  EXPECT_GE(elapsedUs, 150'000);
  EXPECT_LT(elapsedUs, 20'000'000);
  expectFailure(errors, {}, ErrorCode::kRemoteError,
                {"all-gather", "0.150 s", "data from rank 2", "for rank 2 to take"}, {2});
}

TEST(LocalTransport, ControlUsesItsOwnTimeout) {
  LocalWorld world(2, {.timeout = 1h});
  const RankErrors errors =
      runRanks(world,
               [](Transport& transport) {
                 std::array<std::byte, 2> all = {};
                 transport.allGatherControl(std::array<std::byte, 1>{}, all, 50ms);
               },
               {1});
  expectFailure(errors, {}, ErrorCode::kRemoteError, {"control all-gather", "0.050 s", "rank 1"},
                {1});
}

TEST(LocalTransport, ARankThatLeftEndsTheWaitAtOnce) {
  for (const bool isSender : {false, true}) {
    LocalWorld world(3, {.timeout = 1h});
    const RankErrors errors = runRanks(world, [isSender](Transport& transport) {
      transport.barrier();
      if (transport.rank() == 1) return;
      std::vector<std::byte> buffer(100);
      if (transport.rank() == 0) {
        const SendMessage send{.peer = 1, .data = buffer.data(), .bytes = 100};
        const ReceiveMessage receive{.peer = 1, .data = buffer.data(), .bytes = 100};
        if (isSender) {
          transport.exchange({&send, 1}, {});
        } else {
          transport.exchange({}, {&receive, 1});
        }
      }
      transport.barrier();
    });
    expectFailure(errors, {}, ErrorCode::kRemoteError, {"rank 1 left before it"}, {1});
    EXPECT_FALSE(errors[1].has_value());
  }
}

TEST(LocalTransport, ARankMayLeaveWhenItsOwnPartIsDone) {
  const std::uint64_t seed = freshSeed();
  runAllRanks(4, [seed](Transport& transport) {
    SCOPED_TRACE(::testing::Message() << "seed " << seed);
    std::vector<std::byte> mine = patternOf(seed, transport.rank(), 1, 5000);
    std::vector<std::byte> all(20000);
    transport.allGather(mine.data(), all.data(), 5000);
    if (transport.rank() >= 2) return;
    // Ranks 0 and 1 go on among themselves.
    const int other = 1 - transport.rank();
    const SendMessage send{.peer = other, .data = mine.data(), .bytes = 5000};
    const ReceiveMessage receive{.peer = other, .data = all.data(), .bytes = 5000};
    for (int i = 0; i < 50; ++i) transport.exchange({&send, 1}, {&receive, 1});
    EXPECT_TRUE(sameBytes(std::span(all).first(5000), patternOf(seed, other, 1, 5000)));
  });
}

TEST(LocalTransport, AFailureStays) {
  LocalWorld world(2, {.timeout = 30s});
  const RankErrors errors = runRanks(world, [](Transport& transport) {
    transport.barrier();
    if (transport.rank() == 0) transport.abort("first");
    std::array<std::byte, 16> buffer = {};
    std::optional<Error> first;
    try {
      while (true) transport.barrier();
    } catch (const Error& error) {
      first = error;
    }
    transport.abort("second");
    const auto expectSame = [&](auto call) {
      try {
        call();
        ADD_FAILURE() << "a failed transport goes on";
      } catch (const Error& error) {
        EXPECT_EQ(error.message(), first->message());
        EXPECT_EQ(error.code(), first->code());
      }
    };
    EXPECT_TRUE(transport.hasFailed());
    ASSERT_TRUE(transport.failure().has_value());
    EXPECT_EQ(transport.failure()->message(), first->message());
    expectSame([&] { transport.allGather(buffer.data(), buffer.data() + 8, 1); });
    expectSame([&] { static_cast<void>(transport.startBroadcast(buffer.data(), 8, 0)); });
    expectSame([&] { transport.exchange({}, {}); });
    expectSame([&] {
      transport.allGatherControl(std::span(buffer).first(1), std::span(buffer).subspan(8, 2));
    });
    throw *first;
  });
  expectFailure(errors, {}, ErrorCode::kRemoteError, {"aborted: first (rank 0)"});
}

TEST(LocalTransport, ARequestThatIsDroppedAbortsAndLeavesTheBuffersAlone) {
  LocalWorld world(2, {.timeout = 30s});
  const RankErrors errors = runRanks(world, [](Transport& transport) {
    std::vector<std::byte> buffer(1 << 20);
    if (transport.rank() == 0) {
      {
        auto gone = std::make_unique<std::vector<std::byte>>(1 << 20);
        const SendMessage send{.peer = 1, .data = gone->data(), .bytes = gone->size()};
        Request request = transport.startExchange({&send, 1}, {});
        EXPECT_TRUE(request.isActive());
        request = Request();
        EXPECT_FALSE(request.isActive());
      }
      transport.barrier();
    } else {
      while (!transport.hasFailed()) std::this_thread::sleep_for(1ms);
      const ReceiveMessage receive{.peer = 0, .data = buffer.data(), .bytes = buffer.size()};
      transport.exchange({}, {&receive, 1});
    }
  });
  expectFailure(errors, {}, ErrorCode::kRemoteError, {"rank 0 gave up its exchange"});
}

/// Aborts at random moments of busy traffic; each rank frees its buffers as soon as its call
/// throws, so that a sanitizer sees a peer that still reads or writes them.
TEST(LocalTransport, NoBufferIsTouchedAfterAFailure) {
  const std::uint64_t seed = freshSeed();
  SCOPED_TRACE(::testing::Message() << "seed " << seed);
  Random random(seed);
  for (int round = 0; round < 30; ++round) {
    constexpr int kRanks = 4;
    LocalWorld world(kRanks, {.timeout = 30s});
    const auto delayUs = std::chrono::microseconds(random.below(4000));
    std::thread watchdog([&world, delayUs] {
      std::this_thread::sleep_for(delayUs);
      world.abort("stop");
    });
    const RankErrors errors = runRanks(world, [](Transport& transport) {
      for (;;) {
        constexpr std::size_t kBytes = 60'000;
        auto sent = std::make_unique<std::vector<std::byte>>(kBytes * kRanks);
        auto received = std::make_unique<std::vector<std::byte>>(kBytes * kRanks);
        std::vector<SendMessage> sends;
        std::vector<ReceiveMessage> receives;
        for (int r = 0; r < kRanks; ++r) {
          const std::size_t at = static_cast<std::size_t>(r) * kBytes;
          sends.push_back({.peer = r, .data = sent->data() + at, .bytes = kBytes});
          receives.push_back({.peer = r, .data = received->data() + at, .bytes = kBytes});
        }
        Request first = transport.startExchange(sends, receives);
        Request second = transport.startAllGather(sent->data(), received->data(), 0);
        transport.wait(second);
        transport.wait(first);
      }
    });
    watchdog.join();
    expectFailure(errors, {}, ErrorCode::kRemoteError, {"aborted: stop"});
  }
}

TEST(PacedLink, HoldsTheContract) {
  const std::uint64_t seed = freshSeed();
  for (const ContractCheck& check : contractChecks()) {
    SCOPED_TRACE(::testing::Message() << check.name << ", seed " << seed);
    LocalWorld world(3, {.timeout = 60s, .linkBytesPerSecond = 4'000'000'000});
    for (const std::optional<Error>& error : runRanks(world, [&](Transport& transport) {
           check.run(transport, seed);
           transport.barrier();
         })) {
      EXPECT_FALSE(error) << error->what();
    }
  }
}

/// Microseconds from the first of `rankCount` ranks, whose links carry `bytesPerSecond`, that
/// begins `move` to the last that ends it: a rank may be held up before it looks at its clock.
std::int64_t timeOnLink(int rankCount, std::uint64_t bytesPerSecond,
                        const std::function<void(Transport&)>& move) {
  LocalWorld world(rankCount, {.timeout = 60s, .linkBytesPerSecond = bytesPerSecond});
  std::vector<std::int64_t> starts(static_cast<std::size_t>(rankCount));
  std::vector<std::int64_t> ends(starts.size());
  const RankErrors errors = runRanks(world, [&](Transport& transport) {
    const auto rank = static_cast<std::size_t>(transport.rank());
    transport.barrier();
    starts[rank] = nowUs();
    move(transport);
    ends[rank] = nowUs();
  });
  for (const std::optional<Error>& error : errors) EXPECT_FALSE(error) << error->what();
  return *std::max_element(ends.begin(), ends.end()) -
         *std::min_element(starts.begin(), starts.end());
}

TEST(PacedLink, CarriesWhatARankSendsOneAfterTheOther) {
  constexpr std::size_t kBytes = 500'000;
  // Two messages from each of three ranks: 10 ms at 100 MB/s.
  const std::int64_t us = timeOnLink(3, 100'000'000, [](Transport& transport) {
    std::vector<std::byte> own(kBytes);
    std::vector<std::byte> all(3 * kBytes);
    transport.allGather(own.data(), all.data(), kBytes);
  });
  EXPECT_GE(us, 9'900);
  EXPECT_LT(us, 500'000);
}

TEST(PacedLink, CarriesWhatARankReceivesOneAfterTheOther) {
  constexpr std::size_t kBytes = 500'000;
  // From three ranks to one: 15 ms at 100 MB/s, though each sends for 5 ms only.
  const std::int64_t us = timeOnLink(4, 100'000'000, [](Transport& transport) {
    std::vector<std::byte> buffer(3 * kBytes);
    std::vector<SendMessage> sends;
    std::vector<ReceiveMessage> receives;
    for (int peer = 1; peer < 4; ++peer) {
      if (transport.rank() == 0) {
        receives.push_back(
            {peer, buffer.data() + static_cast<std::size_t>(peer - 1) * kBytes, kBytes});
      } else if (peer == transport.rank()) {
        sends.push_back({0, buffer.data(), kBytes});
      }
    }
    transport.exchange(sends, receives);
  });
  EXPECT_GE(us, 14'900);
}

/// Each of four ranks sends to its right neighbour first: no link is ever idle, so all is there
/// after three messages, whichever rank was the first to start.
TEST(PacedLink, KeepsNoLinkIdleForAMessageThatIsStillAtItsSender) {
  constexpr std::size_t kBytes = 2'000'000;
  std::int64_t leastUs = std::numeric_limits<std::int64_t>::max();
  // 300 ms; other work on the machine spoils some attempts.
  constexpr int kAttempts = zipccl::testing::kIsSanitized ? 1 : 20;
  for (int attempt = 0; attempt < kAttempts && leastUs >= 400'000; ++attempt) {
    leastUs = std::min(leastUs, timeOnLink(4, 20'000'000, [](Transport& transport) {
                         std::vector<std::byte> own(kBytes);
                         std::vector<std::byte> all(4 * kBytes);
                         transport.allGather(own.data(), all.data(), kBytes);
                       }));
  }
  EXPECT_GE(leastUs, 299'000);
  // With a sanitizer, copying takes longer than the link.
  if (!zipccl::testing::kIsSanitized) {
    EXPECT_LT(leastUs, 400'000);
  }
}

TEST(PacedLink, CarriesWhileNobodyIsInACall) {
  constexpr std::size_t kBytes = 300'000;
  std::atomic<std::int64_t> waitedUs = std::numeric_limits<std::int64_t>::max();
  // 300 ms on the link, in which both ranks do something else for 400 ms.
  for (int attempt = 0; attempt < 5 && waitedUs >= 200'000; ++attempt) {
    static_cast<void>(timeOnLink(2, 1'000'000, [&](Transport& transport) {
      std::vector<std::byte> own(kBytes);
      std::vector<std::byte> all(2 * kBytes);
      Request request = transport.startAllGather(own.data(), all.data(), kBytes);
      EXPECT_FALSE(transport.test(request)) << "nothing has passed the link yet";
      std::this_thread::sleep_for(400ms);
      const std::int64_t startUs = nowUs();
      transport.wait(request);
      if (transport.rank() == 0) waitedUs = nowUs() - startUs;
    }));
  }
  EXPECT_LT(waitedUs, 200'000);
}

TEST(PacedLink, LetsAbortThroughAtOnce) {
  LocalWorld world(2, {.timeout = 60s, .linkBytesPerSecond = 1000});
  std::jthread watchdog([&] {
    std::this_thread::sleep_for(50ms);
    world.abort("enough");
  });
  const std::int64_t startUs = nowUs();
  const RankErrors errors = runRanks(world, [](Transport& transport) {
    std::vector<std::byte> all(2'000'000);
    transport.allGather(all.data() + transport.rank() * 1'000'000, all.data(), 1'000'000);
  });
  for (const std::optional<Error>& error : errors) ASSERT_TRUE(error);
  EXPECT_LT(nowUs() - startUs, 20'000'000) << "the link would take a thousand seconds";
}

TEST(LocalWorld, HandsOutEachRankOnce) {
  LocalWorld world(2);
  const std::unique_ptr<Transport> transport = world.transport(1);
  EXPECT_EQ(transport->rank(), 1);
  EXPECT_EQ(transport->rankCount(), 2);
  EXPECT_EQ(transport->name(), "local");
  EXPECT_EQ(transport->memoryKind(), MemoryKind::kHost);
  EXPECT_THROW(static_cast<void>(world.transport(1)), Error);
  EXPECT_THROW(static_cast<void>(world.transport(2)), Error);
  EXPECT_THROW(static_cast<void>(world.transport(-1)), Error);
  // Being refused a second one is no departure of the rank.
  const std::unique_ptr<Transport> other = world.transport(0);
  std::thread peer([&] { other->barrier(); });
  transport->barrier();
  peer.join();
}

TEST(LocalWorld, RefusesRankCountsThatMakeNoSense) {
  for (const int rankCount : {0, -1, LocalWorld::kMaxRanks + 1}) {
    EXPECT_THROW(LocalWorld{rankCount}, Error);
  }
}

TEST(LocalWorld, MayEndBeforeItsTransports) {
  auto world = std::make_unique<LocalWorld>(2);
  const std::unique_ptr<Transport> first = world->transport(0);
  const std::unique_ptr<Transport> second = world->transport(1);
  world.reset();
  std::thread peer([&] { second->barrier(); });
  first->barrier();
  peer.join();
}

/// The operation must not stay behind in the lists of the ranks.
TEST(LocalTransport, AWaitThatMemoryRunsOutForGivesItsMessagesUp) {
  LocalWorld world(2);
  const std::unique_ptr<Transport> one = world.transport(0);
  const std::unique_ptr<Transport> other = world.transport(1);
  one->setTimeout(std::chrono::milliseconds(20));
  std::byte data[16] = {};
  const SendMessage send{.peer = 1, .data = data, .bytes = 8};
  const ReceiveMessage receive{.peer = 1, .data = data + 8, .bytes = 8};
  Request request = one->startExchange({&send, 1}, {&receive, 1});
  const auto waitWithoutMemory = [&] {
    const zipccl::testing::OutOfMemory outOfMemory;
    one->wait(request);
  };
  EXPECT_THROW(waitWithoutMemory(), std::bad_alloc);
  EXPECT_TRUE(one->hasFailed()) << "the other rank would wait in vain";
  EXPECT_THROW(other->barrier(), Error);
}

}  // namespace
}  // namespace zipccl::transport
