// SPDX-License-Identifier: Apache-2.0
//
// The traps of docs/dropin.md that can be sprung inside one process, against the recording engine.
// The file is built three ways: with the program linked against NCCL, with NCCL loaded RTLD_LOCAL
// behind the interposer's back, and with the interposer in NCCL's place.

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "dropin_testing.hpp"

namespace zipccl::testing {
namespace {

using Groups = Dropin;
using Calls = Dropin;
using NonBlocking = Dropin;
using Capture = Dropin;
using Windows = Dropin;
using Watchdog = Dropin;
using Devices = Dropin;
using Lifetime = Dropin;

void untilReady(void* comm) {
  int state = kNcclInProgress;
  while (state == kNcclInProgress) {
    ASSERT_EQ(ncclCommGetAsyncError(comm, &state), 0);
    std::this_thread::yield();
  }
  EXPECT_EQ(state, kNcclSuccess);
}

void waitUntil(const std::function<bool()>& isSo) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (!isSo() && std::chrono::steady_clock::now() < end) std::this_thread::yield();
  EXPECT_TRUE(isSo());
}

TEST_F(Calls, EveryKindDeliversItsBits) {
  constexpr int kRanks = 3;
  const std::size_t count = anyCount();
  const Elements all = messages(kRanks, 0, count * kRanks);
  const auto part = [&](int from, int to) {
    return all.data() + static_cast<std::size_t>(from * kRanks + to) * count;
  };
  const int root = static_cast<int>(random_.below(kRanks));
  onRanks(kRanks, [&](const RankOf& own) {
    const std::size_t bytes = 2 * count;
    Elements gathered = poisoned(kRanks * count);
    // In place.
    std::memcpy(&gathered[static_cast<std::size_t>(own.rank) * count], part(own.rank, 0), bytes);
    ASSERT_EQ(ncclAllGather(&gathered[static_cast<std::size_t>(own.rank) * count], gathered.data(),
                            count, kBf16, own.comm, own.stream),
              0);
    Elements configured = poisoned(kRanks * count);
    ASSERT_EQ(ncclAllGatherConfig(part(own.rank, 0), configured.data(), count, kBf16, own.comm,
                                  own.stream, nullptr),
              0);
    Elements exchanged = poisoned(kRanks * count);
    ASSERT_EQ(ncclAlltoAll(part(own.rank, 0), exchanged.data(), count, kBf16, own.comm, own.stream),
              0);
    Elements told = poisoned(count);
    ASSERT_EQ(
        ncclBroadcast(part(own.rank, 1), told.data(), count, kBf16, root, own.comm, own.stream), 0);
    Elements toldInPlace(part(own.rank, 2), part(own.rank, 2) + count);
    ASSERT_EQ(ncclBcast(toldInPlace.data(), count, kBf16, root, own.comm, own.stream), 0);
    Elements atRoot = poisoned(kRanks * count);
    ASSERT_EQ(
        ncclGather(part(own.rank, 0), atRoot.data(), count, kBf16, root, own.comm, own.stream), 0);
    Elements scattered = poisoned(count);
    ASSERT_EQ(
        ncclScatter(part(own.rank, 0), scattered.data(), count, kBf16, root, own.comm, own.stream),
        0);
    std::vector<float> ones(count, static_cast<float>(own.rank + 1));
    std::vector<float> sums(count);
    ASSERT_EQ(ncclReduce(ones.data(), sums.data(), count, kNcclFloat32, kNcclSum, root, own.comm,
                         own.stream),
              0);
    fakeStreamSynchronize(own.stream);
    for (int peer = 0; peer < kRanks; ++peer) {
      const auto place = static_cast<std::size_t>(peer) * count;
      EXPECT_EQ(std::memcmp(&gathered[place], part(peer, 0), bytes), 0);
      EXPECT_EQ(std::memcmp(&configured[place], part(peer, 0), bytes), 0);
      EXPECT_EQ(std::memcmp(&exchanged[place], part(peer, own.rank), bytes), 0);
      if (own.rank == root) {
        EXPECT_EQ(std::memcmp(&atRoot[place], part(peer, 0), bytes), 0);
      }
    }
    EXPECT_EQ(std::memcmp(told.data(), part(root, 1), bytes), 0);
    EXPECT_EQ(std::memcmp(toldInPlace.data(), part(root, 2), bytes), 0);
    EXPECT_EQ(std::memcmp(scattered.data(), part(root, own.rank), bytes), 0);
    if (own.rank == root) {
      EXPECT_EQ(sums, std::vector<float>(count, 6.0F));
    }
  });
  EXPECT_EQ(recordingEngine().attachedCommunicators(), kRanks);
  EXPECT_EQ(recordingEngine().detached(), kRanks);
  EXPECT_EQ(recordingEngine().runs(), count >= 64 ? 7 * kRanks : 0);
}

/// A thread that drives all ranks calls Recv of each before it calls the Send that it waits for.
TEST_F(Calls, UngroupedRecvThenSendInARing) {
  constexpr int kRanks = 3;
  const std::size_t count = anyCount();
  std::vector<void*> comms(kRanks);
  ASSERT_EQ(ncclCommInitAll(comms.data(), kRanks, nullptr), 0);
  const Elements token = message(0, 1, count);
  std::vector<Elements> got(kRanks, poisoned(count));
  for (int rank = kRanks - 1; rank >= 0; --rank) {
    const auto at = static_cast<std::size_t>(rank);
    const int next = (rank + 1) % kRanks;
    const int previous = (rank + kRanks - 1) % kRanks;
    const auto receive = [&] {
      ASSERT_EQ(ncclRecv(got[at].data(), count, kBf16, previous, comms[at], nullptr), 0);
    };
    if (rank != 0) receive();
    const Elements& from = rank == 0 ? token : got[at];
    ASSERT_EQ(ncclSend(from.data(), count, kBf16, next, comms[at], nullptr), 0);
    if (rank == 0) receive();
  }
  for (int rank = 0; rank < kRanks; ++rank) {
    fakeSetDevice(rank);
    fakeStreamSynchronize(nullptr);
    EXPECT_EQ(got[static_cast<std::size_t>(rank)], token);
    EXPECT_EQ(ncclCommDestroy(comms[static_cast<std::size_t>(rank)]), 0);
  }
  fakeSetDevice(0);
  EXPECT_EQ(recordingEngine().runs(), 0);
}

TEST_F(Calls, FailureOfTheEngineIsReported) {
  onRanks(1, [&](const RankOf& own) {
    Elements buffer = poisoned(1000);
    recordingEngine().setFailing(1);
    EXPECT_EQ(ncclAllGather(buffer.data(), buffer.data(), 1000, kBf16, own.comm, own.stream),
              kNcclRemoteError);
    EXPECT_STREQ(ncclGetLastError(own.comm), "the recording engine has failed");
    ASSERT_EQ(ncclGroupStart(), 0);
    EXPECT_EQ(ncclAllGather(buffer.data(), buffer.data(), 1000, kBf16, own.comm, own.stream), 0);
    EXPECT_EQ(ncclGroupEnd(), kNcclRemoteError);
    recordingEngine().setFailing(0);
    EXPECT_EQ(ncclAllGather(buffer.data(), buffer.data(), 1000, kBf16, own.comm, own.stream), 0);
    fakeStreamSynchronize(own.stream);
  });
}

TEST_F(Calls, WithoutAttachedCommunicatorsNothingChanges) {
  recordingEngine().setRefusing(1);
  fakeNcclTrace(1);
  onRanks(1, [&](const RankOf& own) {
    Elements buffer = message(0, 0, 1000);
    ASSERT_EQ(ncclGroupStart(), 0);
    EXPECT_EQ(ncclBcast(buffer.data(), 1000, kBf16, 0, own.comm, own.stream), 0);
    EXPECT_EQ(ncclGroupEnd(), 0);
    fakeStreamSynchronize(own.stream);
    EXPECT_EQ(buffer, message(0, 0, 1000));
  });
  fakeNcclTrace(0);
  EXPECT_STREQ(fakeNcclTraceText(),
               "CommInitRank\nGroupStart\nBroadcast count=1000 datatype=9 op=0 peer=0\nGroupEnd\n"
               "CommDestroy\n");
}

TEST_F(Groups, NestedGroupsRunAtTheOutermostEnd) {
  const std::size_t count = 64 + anyCount();
  onRanks(2, [&](const RankOf& own) {
    const Elements mine = message(own.rank, 0, count);
    Elements got = poisoned(2 * count);
    ASSERT_EQ(ncclGroupStart(), 0);
    ASSERT_EQ(ncclGroupStart(), 0);
    ASSERT_EQ(ncclAllGather(mine.data(), got.data(), count, kBf16, own.comm, own.stream), 0);
    ASSERT_EQ(ncclGroupEnd(), 0);
    EXPECT_EQ(fakeStreamIsIdle(own.stream), 1);
    fakeStreamSynchronize(own.stream);
    EXPECT_EQ(got, poisoned(2 * count));
    ASSERT_EQ(ncclGroupEnd(), 0);
    fakeStreamSynchronize(own.stream);
    EXPECT_EQ(got, messages(2, 0, count));
    EXPECT_EQ(ncclGroupEnd(), kNcclInvalidUsage);
  });
  EXPECT_EQ(recordingEngine().runs(), 2);
}

TEST_F(Groups, ManyAllGathersGoInRounds) {
  constexpr int kRanks = 2;
  constexpr int kCalls = 20;
  const std::size_t count = 10000;
  recordingEngine().setChunk(1000);
  onRanks(kRanks, [&](const RankOf& own) {
    std::vector<Elements> mine;
    std::vector<Elements> got(kCalls, poisoned(kRanks * count));
    for (int i = 0; i < kCalls; ++i) mine.push_back(message(own.rank, i, count));
    ASSERT_EQ(ncclGroupStart(), 0);
    for (std::size_t i = 0; i < kCalls; ++i) {
      ASSERT_EQ(ncclAllGather(mine[i].data(), got[i].data(), count, kBf16, own.comm, own.stream),
                0);
    }
    ASSERT_EQ(ncclGroupEnd(), 0);
    fakeStreamSynchronize(own.stream);
    for (int i = 0; i < kCalls; ++i) {
      EXPECT_EQ(got[static_cast<std::size_t>(i)], messages(kRanks, i, count));
    }
  });
  // Round k carries chunk k of every call: not one call after the other.
  EXPECT_EQ(recordingEngine().runs(), kRanks);
  EXPECT_EQ(recordingEngine().callsInRuns(), kRanks * kCalls);
  EXPECT_EQ(recordingEngine().rounds(), kRanks * 10);
}

TEST_F(Groups, SeveralCommunicatorsDevicesAndStreams) {
  constexpr std::size_t kRanks = 3;
  std::vector<void*> comms(kRanks);
  std::vector<void*> others(kRanks);
  ASSERT_EQ(ncclCommInitAll(comms.data(), kRanks, nullptr), 0);
  ASSERT_EQ(ncclGroupStart(), 0);
  for (std::size_t i = 0; i < kRanks; ++i) {
    ASSERT_EQ(ncclCommSplit(comms[i], 0, -static_cast<int>(i), &others[i], nullptr), 0);
  }
  ASSERT_EQ(ncclGroupEnd(), 0);
  EXPECT_EQ(recordingEngine().attachedCommunicators(), 6);
  EXPECT_EQ(recordingEngine().attachCalls(), 2);
  const std::size_t count = 64 + anyCount();
  std::vector<fakeStream_t> streams;
  for (std::size_t i = 0; i < 2 * kRanks; ++i) streams.push_back(fakeStreamCreate());
  std::vector<Elements> mine;
  std::vector<Elements> got(2 * kRanks, poisoned(kRanks * count));
  for (std::size_t i = 0; i < kRanks; ++i) mine.push_back(message(static_cast<int>(i), 0, count));
  ASSERT_EQ(ncclGroupStart(), 0);
  for (std::size_t i = 0; i < kRanks; ++i) {
    ASSERT_EQ(ncclAllGather(mine[i].data(), got[i].data(), count, kBf16, comms[i], streams[i]), 0);
    ASSERT_EQ(ncclAllGather(mine[i].data(), got[kRanks + i].data(), count, kBf16, others[i],
                            streams[kRanks + i]),
              0);
  }
  ASSERT_EQ(ncclGroupEnd(), 0);
  const Elements inOrder = messages(kRanks, 0, count);
  Elements reversed;
  for (std::size_t i = kRanks; i-- > 0;) {
    reversed.insert(reversed.end(), mine[i].begin(), mine[i].end());
  }
  for (std::size_t i = 0; i < kRanks; ++i) {
    fakeStreamDestroy(streams[i]);
    fakeStreamDestroy(streams[kRanks + i]);
    EXPECT_EQ(got[i], inOrder);
    EXPECT_EQ(got[kRanks + i], reversed);
    EXPECT_EQ(ncclCommDestroy(comms[i]), 0);
    EXPECT_EQ(ncclCommDestroy(others[i]), 0);
  }
  EXPECT_EQ(recordingEngine().runs(), 1);
}

/// Calls that nobody transforms keep their place among those that are.
TEST_F(Groups, MixedEligibleAndOther) {
  constexpr int kRanks = 2;
  const std::size_t count = 64 + anyCount();
  onRanks(kRanks, [&](const RankOf& own) {
    const int peer = 1 - own.rank;
    const Elements mine = message(own.rank, 0, count);
    Elements gathered = poisoned(kRanks * count);
    Elements received = poisoned(count);
    std::vector<int> small = {own.rank + 7};
    std::vector<int> smallGot(1);
    std::vector<float> sum(5);
    const std::vector<float> addends(5, static_cast<float>(own.rank + 1));
    ASSERT_EQ(ncclGroupStart(), 0);
    ASSERT_EQ(
        ncclAllReduce(addends.data(), sum.data(), 5, kNcclFloat32, kNcclSum, own.comm, own.stream),
        0);
    ASSERT_EQ(ncclAllGather(mine.data(), gathered.data(), count, kBf16, own.comm, own.stream), 0);
    if (own.rank == 0) {
      ASSERT_EQ(ncclSend(small.data(), 1, kNcclInt32, peer, own.comm, own.stream), 0);
      ASSERT_EQ(ncclSend(mine.data(), count, kBf16, peer, own.comm, own.stream), 0);
      ASSERT_EQ(ncclRecv(received.data(), count, kBf16, peer, own.comm, own.stream), 0);
      ASSERT_EQ(ncclRecv(smallGot.data(), 1, kNcclInt32, peer, own.comm, own.stream), 0);
    } else {
      ASSERT_EQ(ncclSend(mine.data(), count, kBf16, peer, own.comm, own.stream), 0);
      ASSERT_EQ(ncclRecv(smallGot.data(), 1, kNcclInt32, peer, own.comm, own.stream), 0);
      ASSERT_EQ(ncclSend(small.data(), 1, kNcclInt32, peer, own.comm, own.stream), 0);
      ASSERT_EQ(ncclRecv(received.data(), count, kBf16, peer, own.comm, own.stream), 0);
    }
    ASSERT_EQ(ncclGroupEnd(), 0);
    fakeStreamSynchronize(own.stream);
    EXPECT_EQ(gathered, messages(kRanks, 0, count));
    EXPECT_EQ(received, message(peer, 0, count));
    EXPECT_EQ(smallGot[0], peer + 7);
    EXPECT_EQ(sum, std::vector<float>(5, 3.0F));
  });
}

/// What is natively one group is one group still, whoever else is interested.
TEST_F(Groups, NothingWantedIsOneRealGroup) {
  onRanks(1, [&](const RankOf& own) {
    int value = 3;
    fakeNcclTrace(1);
    ASSERT_EQ(ncclGroupStart(), 0);
    ASSERT_EQ(ncclAllReduce(&value, &value, 1, kNcclInt32, kNcclSum, own.comm, own.stream), 0);
    ASSERT_EQ(ncclSend(&value, 1, kNcclInt32, 0, own.comm, own.stream), 0);
    ASSERT_EQ(ncclRecv(&value, 1, kNcclInt32, 0, own.comm, own.stream), 0);
    ASSERT_EQ(ncclGroupEnd(), 0);
    fakeNcclTrace(0);
    fakeStreamSynchronize(own.stream);
  });
  EXPECT_STREQ(fakeNcclTraceText(),
               "GroupStart\nAllReduce count=1 datatype=2 op=0 peer=0\n"
               "Send count=1 datatype=2 op=0 peer=0\nRecv count=1 datatype=2 op=0 peer=0\n"
               "GroupEnd\n");
  EXPECT_EQ(recordingEngine().runs(), 0);
}

TEST_F(Groups, ErrorsOfArgumentsAreReportedAtTheCall) {
  onRanks(1, [&](const RankOf& own) {
    const Elements mine = message(0, 0, 1000);
    Elements got = poisoned(1000);
    ASSERT_EQ(ncclGroupStart(), 0);
    EXPECT_EQ(ncclAllGather(mine.data(), got.data(), 1000, kBf16, own.comm, own.stream), 0);
    EXPECT_EQ(ncclBroadcast(mine.data(), got.data(), 1000, kBf16, 7, own.comm, own.stream),
              kNcclInvalidArgument);
    EXPECT_EQ(ncclAllGather(mine.data(), got.data(), 1000, 99, own.comm, own.stream),
              kNcclInvalidArgument);
    // As with NCCL alone the group has failed, and none of its calls is made.
    EXPECT_EQ(ncclGroupEnd(), kNcclInvalidArgument);
    fakeStreamSynchronize(own.stream);
    EXPECT_EQ(got, poisoned(1000));
    ASSERT_EQ(ncclGroupStart(), 0);
    EXPECT_EQ(ncclAllGather(mine.data(), got.data(), 1000, kBf16, own.comm, own.stream), 0);
    EXPECT_EQ(ncclGroupEnd(), 0);
    fakeStreamSynchronize(own.stream);
    EXPECT_EQ(got, mine);
  });
}

TEST_F(Groups, OneSideZeroSized) {
  constexpr int kRanks = 3;
  const std::size_t count = 64 + anyCount();
  // Rank 0 sends nothing to rank 1, which sends much; what has no elements is posted, or is not.
  const auto countOf = [&](int from, int to) {
    return (from + 2 * to) % 4 == 2 ? 0 : count + static_cast<std::size_t>(from);
  };
  const bool isPosted = random_.chance(0.5);
  onRanks(kRanks, [&](const RankOf& own) {
    std::vector<Elements> to;
    std::vector<Elements> from;
    for (int peer = 0; peer < kRanks; ++peer) {
      to.push_back(message(own.rank, peer, countOf(own.rank, peer)));
      from.push_back(poisoned(countOf(peer, own.rank)));
    }
    ASSERT_EQ(ncclGroupStart(), 0);
    for (int peer = 0; peer < kRanks; ++peer) {
      const auto at = static_cast<std::size_t>(peer);
      if (isPosted || !to[at].empty()) {
        ASSERT_EQ(ncclSend(to[at].data(), to[at].size(), kBf16, peer, own.comm, own.stream), 0);
      }
      if (isPosted || !from[at].empty()) {
        ASSERT_EQ(ncclRecv(from[at].data(), from[at].size(), kBf16, peer, own.comm, own.stream), 0);
      }
    }
    ASSERT_EQ(ncclGroupEnd(), 0);
    fakeStreamSynchronize(own.stream);
    for (int peer = 0; peer < kRanks; ++peer) {
      EXPECT_EQ(from[static_cast<std::size_t>(peer)],
                message(peer, own.rank, countOf(peer, own.rank)));
    }
  });
}

TEST_F(Groups, SimulateEndMakesNothing) {
  onRanks(1, [&](const RankOf& own) {
    const Elements mine = message(0, 0, 1000);
    Elements got = poisoned(1000);
    fakeNcclTrace(1);
    ASSERT_EQ(ncclGroupStart(), 0);
    ASSERT_EQ(ncclAllGather(mine.data(), got.data(), 1000, kBf16, own.comm, own.stream), 0);
    EXPECT_EQ(ncclGroupSimulateEnd(nullptr), 0);
    fakeNcclTrace(0);
    // The real one sees the whole group.
    EXPECT_STREQ(fakeNcclTraceText(),
                 "GroupStart\nAllGather count=1000 datatype=9 op=0 peer=0\nGroupSimulateEnd\n");
    fakeStreamSynchronize(own.stream);
    EXPECT_EQ(got, poisoned(1000));
    EXPECT_EQ(ncclGroupEnd(), kNcclInvalidUsage);
  });
}

TEST_F(Groups, OpsMayBeDestroyedBeforeTheEnd) {
  for (const bool isWanted : {true, false}) {
    onRanks(2, [&](const RankOf& own) {
      std::vector<float> mine(500, 3.0F);
      std::vector<float> got(500);
      Elements other = message(own.rank, 0, 200);
      Elements otherGot = poisoned(400);
      float factor = 2.0F;
      int op = 0;
      ASSERT_EQ(ncclRedOpCreatePreMulSum(&op, &factor, kNcclFloat32, 1, own.comm), 0);
      ASSERT_EQ(ncclGroupStart(), 0);
      ASSERT_EQ(ncclAllReduce(mine.data(), got.data(), 500, kNcclFloat32, op, own.comm, own.stream),
                0);
      if (isWanted) {
        ASSERT_EQ(ncclAllGather(other.data(), otherGot.data(), 200, kBf16, own.comm, own.stream),
                  0);
      }
      EXPECT_EQ(ncclRedOpDestroy(op, own.comm), 0);
      ASSERT_EQ(ncclGroupEnd(), 0);
      fakeStreamSynchronize(own.stream);
      EXPECT_EQ(got, std::vector<float>(500, 12.0F));
      EXPECT_EQ(ncclRedOpDestroy(op, own.comm), kNcclInvalidArgument);
    });
  }
}

TEST_F(NonBlocking, StayNativeAndInProgressIsNoError) {
  fakeNcclSetProgressDelayMs(10);
  ncclUniqueId id;
  ASSERT_EQ(ncclGetUniqueId(&id), 0);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < 2; ++rank) {
    threads.emplace_back([&, rank] {
      ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
      config.blocking = 0;
      void* comm = nullptr;
      EXPECT_EQ(ncclCommInitRankConfig(&comm, 2, id, rank, &config), kNcclInProgress);
      untilReady(comm);
      const Elements mine = message(rank, 0, 5000);
      Elements got = poisoned(10000);
      const fakeStream_t stream = fakeStreamCreate();
      EXPECT_EQ(ncclAllGather(mine.data(), got.data(), 5000, kBf16, comm, stream), kNcclInProgress);
      untilReady(comm);
      fakeStreamSynchronize(stream);
      EXPECT_EQ(got, messages(2, 0, 5000));
      got = poisoned(10000);
      ASSERT_EQ(ncclGroupStart(), 0);
      EXPECT_EQ(ncclAllGather(mine.data(), got.data(), 5000, kBf16, comm, stream), 0);
      EXPECT_EQ(ncclGroupEnd(), kNcclInProgress);
      untilReady(comm);
      fakeStreamSynchronize(stream);
      EXPECT_EQ(got, messages(2, 0, 5000));
      void* child = nullptr;
      EXPECT_EQ(ncclCommSplit(comm, 0, 0, &child, nullptr), kNcclInProgress);
      untilReady(child);
      fakeStreamDestroy(stream);
      EXPECT_EQ(ncclCommDestroy(child), 0);
      EXPECT_EQ(ncclCommFinalize(comm), kNcclInProgress);
      untilReady(comm);
      EXPECT_EQ(ncclCommDestroy(comm), 0);
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(recordingEngine().attachCalls(), 0);
  fakeNcclSetProgressDelayMs(2);
}

TEST_F(NonBlocking, GroupsOfInitsStayNative) {
  std::vector<void*> comms(2);
  ncclUniqueId id;
  ASSERT_EQ(ncclGetUniqueId(&id), 0);
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  ASSERT_EQ(ncclGroupStart(), 0);
  for (int rank = 0; rank < 2; ++rank) {
    const int result =
        ncclCommInitRankConfig(&comms[static_cast<std::size_t>(rank)], 2, id, rank, &config);
    EXPECT_TRUE(result == kNcclSuccess || result == kNcclInProgress);
  }
  EXPECT_EQ(ncclGroupEnd(), kNcclInProgress);
  for (void* const comm : comms) {
    untilReady(comm);
    EXPECT_EQ(ncclCommDestroy(comm), 0);
  }
  EXPECT_EQ(recordingEngine().attachCalls(), 0);
}

TEST_F(Capture, GraphsRepeatCalls) {
  const std::size_t count = 64 + anyCount();
  onRanks(2, [&](const RankOf& own) {
    Elements mine = message(own.rank, 0, count);
    Elements got = poisoned(2 * count);
    fakeStreamBeginCapture(own.stream);
    ASSERT_EQ(ncclAllGather(mine.data(), got.data(), count, kBf16, own.comm, own.stream), 0);
    const fakeGraph_t graph = fakeStreamEndCapture(own.stream);
    for (int number = 1; number <= 3; ++number) {
      const Elements next = message(own.rank, number, count);
      std::memcpy(mine.data(), next.data(), 2 * count);
      fakeGraphLaunch(graph, own.stream);
      fakeStreamSynchronize(own.stream);
      EXPECT_EQ(got, messages(2, number, count));
    }
    fakeGraphDestroy(graph);
  });
}

TEST_F(Windows, SymmetricOnesAreToldToTheEngine) {
  constexpr int kSymmetric = 1;
  onRanks(1, [&](const RankOf& own) {
    void* memory = nullptr;
    void* window = nullptr;
    void* second = nullptr;
    void* plain = nullptr;
    ASSERT_EQ(ncclMemAlloc(&memory, 8192), 0);
    ASSERT_EQ(ncclCommWindowRegister(own.comm, memory, 8192, &window, kSymmetric), 0);
    ASSERT_EQ(ncclCommWindowRegister(own.comm, memory, 100, &plain, 0), 0);
    ASSERT_EQ(ncclGroupStart(), 0);
    ASSERT_EQ(ncclCommWindowRegister(own.comm, memory, 4096, &second, kSymmetric), 0);
    EXPECT_STREQ(recordingEngine().notes(), "window registered bytes=8192\n");
    ASSERT_EQ(ncclGroupEnd(), 0);
    EXPECT_EQ(ncclCommWindowDeregister(own.comm, window), 0);
    EXPECT_EQ(ncclCommWindowDeregister(own.comm, second), 0);
    EXPECT_EQ(ncclCommWindowDeregister(own.comm, plain), 0);
    EXPECT_EQ(ncclMemFree(memory), 0);
  });
  EXPECT_STREQ(recordingEngine().notes(),
               "window registered bytes=8192\nwindow registered bytes=4096\n"
               "window deregistered\nwindow deregistered\nwindow deregistered\n");
}

TEST_F(Windows, PlainRegistrationIsIgnored) {
  onRanks(1, [&](const RankOf& own) {
    Elements buffer = message(0, 0, 1000);
    void* handle = nullptr;
    ASSERT_EQ(ncclCommRegister(own.comm, buffer.data(), 2000, &handle), 0);
    ASSERT_EQ(ncclAllGather(buffer.data(), buffer.data(), 1000, kBf16, own.comm, own.stream), 0);
    fakeStreamSynchronize(own.stream);
    EXPECT_EQ(ncclCommDeregister(own.comm, handle), 0);
  });
  EXPECT_STREQ(recordingEngine().notes(), "");
  EXPECT_EQ(recordingEngine().runs(), 1);
}

TEST_F(Watchdog, AbortEndsACallInTheEngine) {
  ncclUniqueId id;
  ASSERT_EQ(ncclGetUniqueId(&id), 0);
  void* comm = nullptr;
  ASSERT_EQ(ncclCommInitRank(&comm, 1, id, 0), 0);
  recordingEngine().setBlocking(1);
  std::thread watchdog([&] {
    waitUntil([] { return recordingEngine().isWaiting() != 0; });
    int state = -1;
    EXPECT_EQ(ncclCommGetAsyncError(comm, &state), 0);
    EXPECT_EQ(state, kNcclSuccess);
    EXPECT_EQ(ncclCommAbort(comm), 0);
  });
  Elements buffer = poisoned(1000);
  EXPECT_EQ(ncclAllGather(buffer.data(), buffer.data(), 1000, kBf16, comm, nullptr),
            kNcclRemoteError);
  watchdog.join();
  EXPECT_EQ(recordingEngine().aborted(), 1);
  EXPECT_EQ(recordingEngine().detached(), 1);
}

TEST_F(Watchdog, AbortEndsAGroupInTheEngine) {
  ncclUniqueId id;
  ASSERT_EQ(ncclGetUniqueId(&id), 0);
  void* comm = nullptr;
  ASSERT_EQ(ncclCommInitRank(&comm, 1, id, 0), 0);
  recordingEngine().setBlocking(1);
  std::thread watchdog([&] {
    waitUntil([] { return recordingEngine().isWaiting() != 0; });
    EXPECT_EQ(ncclCommAbort(comm), 0);
  });
  Elements buffer = poisoned(1000);
  ASSERT_EQ(ncclGroupStart(), 0);
  EXPECT_EQ(ncclAllGather(buffer.data(), buffer.data(), 1000, kBf16, comm, nullptr), 0);
  EXPECT_EQ(ncclAllGather(buffer.data(), buffer.data(), 1000, kBf16, comm, nullptr), 0);
  EXPECT_EQ(ncclGroupEnd(), kNcclRemoteError);
  watchdog.join();
  EXPECT_EQ(recordingEngine().detached(), 1);
}

/// Between GroupStart and GroupEnd the engine is in no call, but the group holds its communicator.
TEST_F(Watchdog, AbortWhileAGroupIsOpen) {
  ncclUniqueId id;
  ASSERT_EQ(ncclGetUniqueId(&id), 0);
  void* comm = nullptr;
  ASSERT_EQ(ncclCommInitRank(&comm, 1, id, 0), 0);
  recordingEngine().setFailing(1);
  Elements buffer = poisoned(1000);
  ASSERT_EQ(ncclGroupStart(), 0);
  EXPECT_EQ(ncclAllGather(buffer.data(), buffer.data(), 1000, kBf16, comm, nullptr), 0);
  std::thread watchdog([&] { EXPECT_EQ(ncclCommAbort(comm), 0); });
  watchdog.join();
  EXPECT_EQ(recordingEngine().aborted(), 1);
  EXPECT_EQ(recordingEngine().detached(), 0);
  EXPECT_EQ(ncclGroupEnd(), kNcclRemoteError);
  EXPECT_EQ(recordingEngine().detached(), 1);
}

TEST_F(Watchdog, AbortWhileTheStreamWaits) {
  ncclUniqueId id;
  ASSERT_EQ(ncclGetUniqueId(&id), 0);
  std::vector<void*> comms(2);
  ASSERT_EQ(ncclGroupStart(), 0);
  for (int rank = 0; rank < 2; ++rank) {
    ASSERT_EQ(ncclCommInitRank(&comms[static_cast<std::size_t>(rank)], 2, id, rank), 0);
  }
  ASSERT_EQ(ncclGroupEnd(), 0);
  Elements buffer = poisoned(2000);
  ASSERT_EQ(ncclAllGather(buffer.data(), buffer.data(), 1000, kBf16, comms[0], nullptr), 0);
  std::thread watchdog([&] { EXPECT_EQ(ncclCommAbort(comms[0]), 0); });
  fakeStreamSynchronize(nullptr);
  watchdog.join();
  EXPECT_EQ(ncclCommAbort(comms[1]), 0);
}

TEST_F(Watchdog, RevokeEndsTheEngineButNotTheCommunicator) {
  ncclUniqueId id;
  ASSERT_EQ(ncclGetUniqueId(&id), 0);
  void* comm = nullptr;
  ASSERT_EQ(ncclCommInitRank(&comm, 1, id, 0), 0);
  EXPECT_EQ(ncclCommRevoke(comm, 0), 0);
  EXPECT_EQ(recordingEngine().aborted(), 1);
  EXPECT_EQ(recordingEngine().detached(), 1);
  EXPECT_EQ(ncclCommDestroy(comm), 0);
}

TEST_F(Watchdog, AsyncErrorsOfTheEngineAreShown) {
  onRanks(1, [&](const RankOf& own) {
    int state = -1;
    EXPECT_EQ(ncclCommGetAsyncError(own.comm, &state), 0);
    EXPECT_EQ(state, kNcclSuccess);
    recordingEngine().setAsyncError(kNcclRemoteError);
    EXPECT_EQ(ncclCommGetAsyncError(own.comm, &state), 0);
    EXPECT_EQ(state, kNcclRemoteError);
    EXPECT_STREQ(ncclGetLastError(own.comm), "the recording engine has failed");
    recordingEngine().setAsyncError(0);
    fakeNcclSetAsyncError(own.comm, kNcclSystemError);
    EXPECT_EQ(ncclCommGetAsyncError(own.comm, &state), 0);
    EXPECT_EQ(state, kNcclSystemError);
    fakeNcclSetAsyncError(own.comm, 0);
  });
}

TEST_F(Watchdog, PollsWhileCallsAreMade) {
  onRanks(2, [&](const RankOf& own) {
    std::atomic<bool> isDone{false};
    std::thread watchdog([&] {
      while (!isDone) {
        int state = -1;
        EXPECT_EQ(ncclCommGetAsyncError(own.comm, &state), 0);
        EXPECT_EQ(state, kNcclSuccess);
        EXPECT_NE(ncclGetLastError(own.comm), nullptr);
      }
    });
    for (int number = 0; number < 50; ++number) {
      const Elements mine = message(own.rank, number, 500);
      Elements got = poisoned(1000);
      EXPECT_EQ(ncclAllGather(mine.data(), got.data(), 500, kBf16, own.comm, own.stream), 0);
      fakeStreamSynchronize(own.stream);
      EXPECT_EQ(got, messages(2, number, 500));
    }
    isDone = true;
    watchdog.join();
  });
}

TEST_F(Devices, OneCommunicatorOnSeveralStreams) {
  const std::size_t count = 64 + anyCount();
  onRanks(2, [&](const RankOf& own) {
    std::vector<fakeStream_t> streams;
    std::vector<Elements> mine;
    std::vector<Elements> got(6, poisoned(2 * count));
    for (int i = 0; i < 6; ++i) {
      streams.push_back(i % 3 == 0 ? own.stream : fakeStreamCreate());
      mine.push_back(message(own.rank, i, count));
    }
    for (std::size_t i = 0; i < 6; ++i) {
      ASSERT_EQ(ncclAllGather(mine[i].data(), got[i].data(), count, kBf16, own.comm, streams[i]),
                0);
    }
    for (std::size_t i = 0; i < 6; ++i) {
      fakeStreamSynchronize(streams[i]);
      EXPECT_EQ(got[i], messages(2, static_cast<int>(i), count));
    }
    for (std::size_t i = 0; i < 6; ++i) {
      if (streams[i] != own.stream) fakeStreamDestroy(streams[i]);
    }
  });
}

TEST_F(Devices, OneThreadDrivesAll) {
  constexpr std::size_t kRanks = 3;
  std::vector<void*> comms(kRanks);
  ncclUniqueId id;
  ASSERT_EQ(ncclGetUniqueId(&id), 0);
  ASSERT_EQ(ncclGroupStart(), 0);
  for (std::size_t i = 0; i < kRanks; ++i) {
    fakeSetDevice(static_cast<int>(i));
    ASSERT_EQ(ncclCommInitRank(&comms[i], kRanks, id, static_cast<int>(i)), 0);
  }
  ASSERT_EQ(ncclGroupEnd(), 0);
  // All at once: a handshake of one after the other would wait for ever.
  EXPECT_EQ(recordingEngine().attachCalls(), 1);
  EXPECT_EQ(recordingEngine().attachedCommunicators(), static_cast<int>(kRanks));
  const std::size_t count = 64 + anyCount();
  std::vector<Elements> got(kRanks, poisoned(kRanks * count));
  std::vector<Elements> mine;
  for (std::size_t i = 0; i < kRanks; ++i) mine.push_back(message(static_cast<int>(i), 0, count));
  ASSERT_EQ(ncclGroupStart(), 0);
  for (std::size_t i = 0; i < kRanks; ++i) {
    ASSERT_EQ(ncclAllGather(mine[i].data(), got[i].data(), count, kBf16, comms[i], nullptr), 0);
  }
  ASSERT_EQ(ncclGroupEnd(), 0);
  for (std::size_t i = 0; i < kRanks; ++i) {
    fakeSetDevice(static_cast<int>(i));
    fakeStreamSynchronize(nullptr);
    EXPECT_EQ(got[i], messages(kRanks, 0, count));
    EXPECT_EQ(ncclCommDestroy(comms[i]), 0);
  }
  fakeSetDevice(0);
}

TEST_F(Devices, OpaqueOpsOfBothResidences) {
  onRanks(2, [&](const RankOf& own) {
    const std::vector<float> mine(1000, static_cast<float>(own.rank + 1));
    std::vector<float> byHost(1000);
    std::vector<float> byDevice(1000);
    float hostFactor = 2.0F;
    float deviceFactor = 0.0F;
    int hostOp = 0;
    int deviceOp = 0;
    ASSERT_EQ(ncclRedOpCreatePreMulSum(&hostOp, &hostFactor, kNcclFloat32, 1, own.comm), 0);
    ASSERT_EQ(ncclRedOpCreatePreMulSum(&deviceOp, &deviceFactor, kNcclFloat32, 0, own.comm), 0);
    hostFactor = 99.0F;
    fakeStreamEnqueue(
        own.stream, [](void* scalar) { *static_cast<float*>(scalar) = 4.0F; }, &deviceFactor);
    ASSERT_EQ(
        ncclAllReduce(mine.data(), byHost.data(), 1000, kNcclFloat32, hostOp, own.comm, own.stream),
        0);
    ASSERT_EQ(ncclAllReduce(mine.data(), byDevice.data(), 1000, kNcclFloat32, deviceOp, own.comm,
                            own.stream),
              0);
    EXPECT_EQ(ncclRedOpDestroy(hostOp, own.comm), 0);
    EXPECT_EQ(ncclRedOpDestroy(deviceOp, own.comm), 0);
    fakeStreamSynchronize(own.stream);
    EXPECT_EQ(byHost, std::vector<float>(1000, 6.0F));
    EXPECT_EQ(byDevice, std::vector<float>(1000, 12.0F));
  });
  const std::string notes = recordingEngine().notes();
  EXPECT_NE(notes.find("op created datatype=7 residence=1"), std::string::npos);
  EXPECT_NE(notes.find("op created datatype=7 residence=0"), std::string::npos);
  EXPECT_NE(notes.find("op destroyed"), std::string::npos);
}

TEST_F(Lifetime, EveryWayToMakeACommunicatorIsAttached) {
  ncclUniqueId id;
  ASSERT_EQ(ncclGetUniqueId(&id), 0);
  ncclUniqueId grown;
  onRanks(3, [&](const RankOf& own) {
    void* scalable = nullptr;
    ASSERT_EQ(ncclCommInitRankScalable(&scalable, 3, own.rank, 1, &id, nullptr), 0);
    void* half = nullptr;
    ASSERT_EQ(ncclCommSplit(own.comm, own.rank == 2 ? -1 : 0, 0, &half, nullptr), 0);
    EXPECT_EQ(half == nullptr, own.rank == 2);
    void* shrunk = nullptr;
    int excluded = 1;
    if (own.rank != 1) {
      ASSERT_EQ(ncclCommShrink(own.comm, &excluded, 1, &shrunk, nullptr, 0), 0);
    }
    if (own.rank == 0) {
      EXPECT_EQ(ncclCommGetUniqueId(own.comm, &grown), 0);
    }
    EXPECT_EQ(ncclCommDestroy(half), 0);
    EXPECT_EQ(ncclCommDestroy(shrunk), 0);
    EXPECT_EQ(ncclCommFinalize(scalable), 0);
    EXPECT_EQ(ncclCommDestroy(scalable), 0);
  });
  EXPECT_EQ(recordingEngine().attachedCommunicators(), 3 + 3 + 2 + 2);
  EXPECT_EQ(recordingEngine().detached(), 3 + 3 + 2 + 2);
}

TEST_F(Lifetime, ManyCommunicatorsAtOnceAndInTurn) {
  constexpr int kMany = 1500;  // more than the side table's first part holds
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  std::vector<void*> comms(kMany);
  for (void*& comm : comms) {
    ncclUniqueId id;
    ASSERT_EQ(ncclGetUniqueId(&id), 0);
    ASSERT_EQ(ncclCommInitRankConfig(&comm, 1, id, 0, &config), 0);
  }
  EXPECT_EQ(recordingEngine().live(), kMany);
  Elements buffer = message(0, 0, 100);
  for (void* const comm : comms) {
    ASSERT_EQ(ncclBroadcast(buffer.data(), buffer.data(), 100, kBf16, 0, comm, nullptr), 0);
  }
  EXPECT_EQ(recordingEngine().runs(), kMany);
  for (void*& comm : comms) {
    ASSERT_EQ(ncclCommDestroy(comm), 0);
    comm = nullptr;
  }
  EXPECT_EQ(recordingEngine().live(), 0);
}

}  // namespace
}  // namespace zipccl::testing
