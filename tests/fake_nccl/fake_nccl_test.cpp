// SPDX-License-Identifier: Apache-2.0
//
// The fake device and the fake NCCL do what tests rely on: data arrives, late and in stream order,
// and what would hang or mismatch is found.

#include "fake_nccl.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <functional>
#include <thread>
#include <vector>

#include "fake_nccl/arithmetic.hpp"
#include "fake_nccl_fixture.hpp"
#include "nccl_calls.h"
#include "support/seeded_test.hpp"

namespace zipccl::testing {
namespace {

using Bytes = std::vector<std::uint8_t>;

class FakeNccl : public SeededTest {
 protected:
  void SetUp() override {
    fakeFaultsClear();
    fakeSetJitterUs(200);
  }

  void TearDown() override { expectNothingLeft(expectedFaults_); }

  Bytes random(std::size_t bytes) {
    Bytes out(bytes);
    random_.fill(std::as_writable_bytes(std::span(out)));
    return out;
  }

  /// Calls `work(rank, comm, stream)` for each rank, in a thread of its own, on a communicator of
  /// all; the communicator is destroyed afterwards.
  void onRanks(int ranks, const std::function<void(int, void*, fakeStream_t)>& work) {
    onFakeRanks(ranks, [&](int rank, void* comm) {
      const fakeStream_t stream = fakeStreamCreate();
      work(rank, comm, stream);
      fakeStreamDestroy(stream);
    });
  }

  int expectedFaults_ = 0;
};

TEST_F(FakeNccl, StreamsRunLaterAndInOrder) {
  const fakeStream_t stream = fakeStreamCreate();
  std::atomic<bool> mayGo{false};
  std::vector<int> order;
  struct Step {
    std::vector<int>* order;
    std::atomic<bool>* mayGo;
    int number;
  };
  std::vector<Step> steps;
  for (int i = 0; i < 20; ++i) steps.push_back({&order, &mayGo, i});
  for (Step& step : steps) {
    fakeStreamEnqueue(
        stream,
        [](void* argument) {
          auto* const own = static_cast<Step*>(argument);
          while (!*own->mayGo) std::this_thread::yield();
          own->order->push_back(own->number);
        },
        &step);
  }
  EXPECT_EQ(fakeStreamIsIdle(stream), 0);
  const fakeEvent_t event = fakeEventCreate();
  EXPECT_EQ(fakeEventIsDone(event), 1);
  fakeEventRecord(event, stream);
  EXPECT_EQ(fakeEventIsDone(event), 0);
  mayGo = true;
  fakeEventSynchronize(event);
  fakeStreamSynchronize(stream);
  EXPECT_EQ(fakeStreamIsIdle(stream), 1);
  for (int i = 0; i < 20; ++i) EXPECT_EQ(order.at(static_cast<std::size_t>(i)), i);
  fakeEventDestroy(event);
  fakeStreamDestroy(stream);
}

TEST_F(FakeNccl, EventsOrderStreams) {
  const fakeStream_t first = fakeStreamCreate();
  const fakeStream_t second = fakeStreamCreate();
  const fakeEvent_t event = fakeEventCreate();
  int value = 0;
  fakeStreamEnqueue(
      first,
      [](void* argument) {
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
        *static_cast<int*>(argument) = 1;
      },
      &value);
  fakeEventRecord(event, first);
  fakeStreamWaitEvent(second, event);
  // A later record is none of the wait's business, however soon it is reached.
  const fakeStream_t idle = fakeStreamCreate();
  fakeEventRecord(event, idle);
  fakeStreamEnqueue(
      second, [](void* argument) { *static_cast<int*>(argument) *= 10; }, &value);
  fakeStreamSynchronize(second);
  EXPECT_EQ(value, 10);
  fakeEventDestroy(event);
  for (const fakeStream_t stream : {first, second, idle}) fakeStreamDestroy(stream);
}

TEST_F(FakeNccl, EveryCollectiveMovesItsData) {
  constexpr int kRanks = 3;
  const std::size_t count = random_.between(1, 100000);
  const Bytes all = random(count * kRanks * kRanks);
  // What rank r sends to rank p is part (r, p) of all.
  const auto part = [&](int from, int to) {
    return all.data() + static_cast<std::size_t>(from * kRanks + to) * count;
  };
  const int root = static_cast<int>(random_.below(kRanks));
  onRanks(kRanks, [&](int rank, void* comm, fakeStream_t stream) {
    Bytes gathered(count * kRanks, 0xAB);
    ASSERT_EQ(ncclAllGather(part(rank, 0), gathered.data(), count, kNcclUint8, comm, stream), 0);
    Bytes exchanged(count * kRanks, 0xAB);
    ASSERT_EQ(ncclAlltoAll(part(rank, 0), exchanged.data(), count, kNcclUint8, comm, stream), 0);
    Bytes told(count, 0xAB);
    ASSERT_EQ(ncclBroadcast(part(rank, 1), told.data(), count, kNcclUint8, root, comm, stream), 0);
    Bytes toldInPlace(part(rank, 2), part(rank, 2) + count);
    ASSERT_EQ(ncclBcast(toldInPlace.data(), count, kNcclUint8, root, comm, stream), 0);
    Bytes atRoot(count * kRanks, 0xAB);
    ASSERT_EQ(ncclGather(part(rank, 0), atRoot.data(), count, kNcclUint8, root, comm, stream), 0);
    Bytes scattered(count, 0xAB);
    ASSERT_EQ(ncclScatter(part(rank, 0), scattered.data(), count, kNcclUint8, root, comm, stream),
              0);
    fakeStreamSynchronize(stream);
    for (int peer = 0; peer < kRanks; ++peer) {
      const auto place = static_cast<std::size_t>(peer) * count;
      EXPECT_EQ(std::memcmp(&gathered[place], part(peer, 0), count), 0);
      EXPECT_EQ(std::memcmp(&exchanged[place], part(peer, rank), count), 0);
      if (rank == root) {
        EXPECT_EQ(std::memcmp(&atRoot[place], part(peer, 0), count), 0);
      }
    }
    EXPECT_EQ(std::memcmp(told.data(), part(root, 1), count), 0);
    EXPECT_EQ(std::memcmp(toldInPlace.data(), part(root, 2), count), 0);
    EXPECT_EQ(std::memcmp(scattered.data(), part(root, rank), count), 0);
    if (rank != root) {
      EXPECT_EQ(atRoot, Bytes(count * kRanks, 0xAB));
    }
  });
}

TEST_F(FakeNccl, SendsMayWaitForTheirReceivers) {
  for (const bool isRendezvous : {false, true}) {
    fakeNcclSetRendezvous(isRendezvous ? 1 : 0);
    std::atomic<bool> isSeen{false};
    const Bytes sent = random(300);
    onRanks(2, [&](int rank, void* comm, fakeStream_t stream) {
      if (rank == 1) {
        while (!isSeen) std::this_thread::yield();
        Bytes received(sent.size());
        ASSERT_EQ(ncclRecv(received.data(), sent.size(), kNcclUint8, 0, comm, stream), 0);
        fakeStreamSynchronize(stream);
        EXPECT_EQ(received, sent);
        return;
      }
      ASSERT_EQ(ncclSend(sent.data(), sent.size(), kNcclUint8, 1, comm, stream), 0);
      if (isRendezvous) {
        std::this_thread::sleep_for(std::chrono::milliseconds(50));
        EXPECT_EQ(fakeStreamIsIdle(stream), 0);
      } else {
        fakeStreamSynchronize(stream);
      }
      isSeen = true;
      fakeStreamSynchronize(stream);
    });
  }
  fakeNcclSetRendezvous(0);
}

TEST_F(FakeNccl, ReductionsAddUp) {
  constexpr int kRanks = 3;
  constexpr std::size_t kCount = 1000;
  onRanks(kRanks, [&](int rank, void* comm, fakeStream_t stream) {
    std::vector<float> mine(kCount * kRanks);
    for (std::size_t i = 0; i < mine.size(); ++i) {
      mine[i] = static_cast<float>(rank + 1) * static_cast<float>(i % 100);
    }
    std::vector<float> sum(mine.size());
    std::vector<float> piece(kCount);
    std::vector<float> scaled(mine.size());
    float factor = 0.5F * static_cast<float>(rank + 1);  // each rank's own
    int op = 0;
    ASSERT_EQ(ncclRedOpCreatePreMulSum(&op, &factor, kNcclFloat32, 1, comm), 0);
    factor = 77.0F;  // read at once, and not again
    float deviceFactor = 0.0F;
    int deviceOp = 0;
    ASSERT_EQ(ncclRedOpCreatePreMulSum(&deviceOp, &deviceFactor, kNcclFloat32, 0, comm), 0);
    std::vector<float> scaledLater(mine.size());
    ASSERT_EQ(
        ncclAllReduce(mine.data(), sum.data(), mine.size(), kNcclFloat32, kNcclSum, comm, stream),
        0);
    ASSERT_EQ(
        ncclReduceScatter(mine.data(), piece.data(), kCount, kNcclFloat32, kNcclMax, comm, stream),
        0);
    ASSERT_EQ(
        ncclAllReduce(mine.data(), scaled.data(), mine.size(), kNcclFloat32, op, comm, stream), 0);
    fakeStreamEnqueue(
        stream, [](void* scalar) { *static_cast<float*>(scalar) = 2.0F; }, &deviceFactor);
    ASSERT_EQ(ncclAllReduce(mine.data(), scaledLater.data(), mine.size(), kNcclFloat32, deviceOp,
                            comm, stream),
              0);
    EXPECT_EQ(ncclRedOpDestroy(op, comm), 0);
    EXPECT_EQ(ncclRedOpDestroy(deviceOp, comm), 0);
    EXPECT_EQ(ncclRedOpDestroy(op, comm), kNcclInvalidArgument);
    fakeStreamSynchronize(stream);
    for (std::size_t i = 0; i < mine.size(); ++i) {
      const auto base = static_cast<float>(i % 100);
      ASSERT_EQ(sum[i], 6 * base);
      ASSERT_EQ(scaled[i], 7 * base);
      ASSERT_EQ(scaledLater[i], 12 * base);
    }
    for (std::size_t i = 0; i < kCount; ++i) {
      const std::size_t place = static_cast<std::size_t>(rank) * kCount + i;
      ASSERT_EQ(piece[i], 3 * static_cast<float>(place % 100));
    }
  });
}

TEST_F(FakeNccl, GroupsMoveAllAtOnce) {
  constexpr int kRanks = 4;
  // More than the mailboxes hold, to everybody, with nobody receiving first.
  const std::size_t count = 3 * 65536 + random_.below(1000);
  const Bytes data = random(count * kRanks * kRanks);
  onRanks(kRanks, [&](int rank, void* comm, fakeStream_t stream) {
    Bytes got(count * kRanks, 0xAB);
    const fakeStream_t other = fakeStreamCreate();
    ASSERT_EQ(ncclGroupStart(), 0);
    ASSERT_EQ(ncclGroupStart(), 0);
    for (int peer = 0; peer < kRanks; ++peer) {
      const auto place = static_cast<std::size_t>(peer) * count;
      const auto own = static_cast<std::size_t>(rank * kRanks + peer) * count;
      ASSERT_EQ(ncclSend(&data[own], count, kNcclUint8, peer, comm, stream), 0);
      ASSERT_EQ(ncclRecv(&got[place], count, kNcclUint8, peer, comm, other), 0);
    }
    ASSERT_EQ(ncclGroupEnd(), 0);
    ASSERT_EQ(ncclGroupEnd(), 0);
    fakeStreamSynchronize(other);
    for (int peer = 0; peer < kRanks; ++peer) {
      const auto place = static_cast<std::size_t>(peer) * count;
      const auto theirs = static_cast<std::size_t>(peer * kRanks + rank) * count;
      EXPECT_EQ(std::memcmp(&got[place], &data[theirs], count), 0);
    }
    fakeStreamDestroy(other);
  });
}

TEST_F(FakeNccl, OneThreadDrivesAllRanks) {
  constexpr int kRanks = 4;
  std::vector<void*> comms(kRanks);
  ASSERT_EQ(ncclCommInitAll(comms.data(), kRanks, nullptr), 0);
  std::vector<std::vector<int>> got(kRanks, std::vector<int>(kRanks));
  std::vector<int> own = {10, 11, 12, 13};
  ASSERT_EQ(ncclGroupStart(), 0);
  for (std::size_t rank = 0; rank < kRanks; ++rank) {
    int device = -1;
    EXPECT_EQ(ncclCommCuDevice(comms[rank], &device), 0);
    EXPECT_EQ(device, static_cast<int>(rank));
    // NULL is another stream on each.
    ASSERT_EQ(ncclAllGather(&own[rank], got[rank].data(), 1, kNcclInt32, comms[rank], nullptr), 0);
  }
  ASSERT_EQ(ncclGroupEnd(), 0);
  // A split of all ranks in one group: none can wait for another inside its own call.
  std::vector<void*> halves(kRanks);
  ASSERT_EQ(ncclGroupStart(), 0);
  for (int rank = 0; rank < kRanks; ++rank) {
    const auto at = static_cast<std::size_t>(rank);
    ASSERT_EQ(ncclCommSplit(comms[at], rank % 2, -rank, &halves[at], nullptr), 0);
  }
  ASSERT_EQ(ncclGroupEnd(), 0);
  for (int rank = 0; rank < kRanks; ++rank) {
    const auto at = static_cast<std::size_t>(rank);
    fakeSetDevice(rank);
    fakeStreamSynchronize(nullptr);
    EXPECT_EQ(got[at], own);
    int place = -1;
    int count = 0;
    EXPECT_EQ(ncclCommUserRank(halves[at], &place), 0);
    EXPECT_EQ(ncclCommCount(halves[at], &count), 0);
    EXPECT_EQ(count, 2);
    EXPECT_EQ(place, rank < 2 ? 1 : 0);  // by key, which falls
    EXPECT_EQ(ncclCommDestroy(halves[at]), 0);
    EXPECT_EQ(ncclCommDestroy(comms[at]), 0);
  }
  fakeSetDevice(0);
}

TEST_F(FakeNccl, RanksMayBeProcesses) {
  constexpr int kRanks = 3;
  ncclUniqueId id;
  ASSERT_EQ(ncclGetUniqueId(&id), 0);
  const std::size_t count = 200000;
  const Bytes data = random(count * kRanks);
  std::vector<pid_t> children;
  for (int rank = 0; rank < kRanks; ++rank) {
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      ::alarm(60);
      const fakeStream_t stream = fakeStreamCreate();
      void* comm = nullptr;
      if (ncclCommInitRank(&comm, kRanks, id, rank) != 0) ::_exit(2);
      Bytes got(data.size());
      const std::uint8_t* const own = &data[static_cast<std::size_t>(rank) * count];
      if (ncclAllGather(own, got.data(), count, kNcclUint8, comm, stream) != 0) ::_exit(3);
      fakeStreamSynchronize(stream);
      ::_exit(got == data && fakeFaultCount() == 0 ? 0 : 4);
    }
    children.push_back(child);
  }
  for (const pid_t child : children) {
    int status = -1;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
  }
}

TEST_F(FakeNccl, GraphsRepeatWhatWasCaptured) {
  onRanks(2, [&](int rank, void* comm, fakeStream_t stream) {
    int value = 0;
    std::vector<int> got(2, -1);
    fakeStreamBeginCapture(stream);
    EXPECT_EQ(fakeStreamIsCapturing(stream), 1);
    fakeStreamEnqueue(
        stream, [](void* argument) { ++*static_cast<int*>(argument); }, &value);
    ASSERT_EQ(ncclAllGather(&value, got.data(), 1, kNcclInt32, comm, stream), 0);
    const fakeGraph_t graph = fakeStreamEndCapture(stream);
    EXPECT_EQ(fakeStreamIsCapturing(stream), 0);
    fakeStreamSynchronize(stream);
    EXPECT_EQ(got, std::vector<int>({-1, -1}));
    for (int launch = 1; launch <= 3; ++launch) {
      fakeGraphLaunch(graph, stream);
      fakeStreamSynchronize(stream);
      EXPECT_EQ(got, std::vector<int>({launch, launch})) << rank;
    }
    fakeGraphDestroy(graph);
  });
}

TEST_F(FakeNccl, FindsCallsThatDoNotFit) {
  expectedFaults_ = 2;
  onRanks(2, [&](int rank, void* comm, fakeStream_t stream) {
    std::vector<int> buffer(100);
    ASSERT_EQ(ncclAllGather(buffer.data(), buffer.data() + 50, rank == 0 ? 10 : 11, kNcclInt32,
                            comm, stream),
              0);
    fakeStreamSynchronize(stream);
    int state = 0;
    EXPECT_EQ(ncclCommGetAsyncError(comm, &state), 0);
    EXPECT_EQ(state, kNcclInternalError);
  });
  EXPECT_NE(std::string(fakeFaultText()).find("ranks call different things"), std::string::npos);
}

TEST_F(FakeNccl, FindsWhatWouldHang) {
  expectedFaults_ = 1;
  fakeNcclSetTimeLimitMs(200);
  onRanks(2, [&](int rank, void* comm, fakeStream_t stream) {
    int value = 0;
    if (rank == 0) {
      ASSERT_EQ(ncclRecv(&value, 1, kNcclInt32, 1, comm, stream), 0);
    }
    fakeStreamSynchronize(stream);
  });
  EXPECT_NE(std::string(fakeFaultText()).find("would hang: rank 0"), std::string::npos);
}

TEST_F(FakeNccl, AbortEndsAWait) {
  ncclUniqueId id;
  ASSERT_EQ(ncclGetUniqueId(&id), 0);
  std::vector<void*> comms(2);
  ASSERT_EQ(ncclGroupStart(), 0);
  for (int rank = 0; rank < 2; ++rank) {
    ASSERT_EQ(ncclCommInitRank(&comms[static_cast<std::size_t>(rank)], 2, id, rank), 0);
  }
  ASSERT_EQ(ncclGroupEnd(), 0);
  int value = 0;
  ASSERT_EQ(ncclRecv(&value, 1, kNcclInt32, 1, comms[0], nullptr), 0);
  std::thread watchdog([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    EXPECT_EQ(ncclCommAbort(comms[0]), 0);
  });
  fakeStreamSynchronize(nullptr);
  watchdog.join();
  EXPECT_EQ(ncclCommAbort(comms[1]), 0);
}

TEST_F(FakeNccl, NonBlockingCommunicatorsAreInProgress) {
  fakeNcclSetProgressDelayMs(20);
  const auto untilReady = [](void* comm) {
    int state = kNcclInProgress;
    while (state == kNcclInProgress) {
      ASSERT_EQ(ncclCommGetAsyncError(comm, &state), 0);
      std::this_thread::yield();
    }
    EXPECT_EQ(state, kNcclSuccess);
  };
  ncclUniqueId id;
  ASSERT_EQ(ncclGetUniqueId(&id), 0);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < 2; ++rank) {
    threads.emplace_back([&, rank] {
      ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
      config.blocking = 0;
      void* comm = nullptr;
      EXPECT_EQ(ncclCommInitRankConfig(&comm, 2, id, rank, &config), kNcclInProgress);
      ASSERT_NE(comm, nullptr);
      untilReady(comm);
      const int own = rank + 5;
      std::vector<int> got(2);
      const fakeStream_t stream = fakeStreamCreate();
      EXPECT_EQ(ncclAllGather(&own, got.data(), 1, kNcclInt32, comm, stream), kNcclInProgress);
      untilReady(comm);
      fakeStreamSynchronize(stream);
      EXPECT_EQ(got, std::vector<int>({5, 6}));
      fakeStreamDestroy(stream);
      EXPECT_EQ(ncclCommDestroy(comm), 0);
    });
  }
  for (std::thread& thread : threads) thread.join();
  fakeNcclSetProgressDelayMs(2);
}

TEST_F(FakeNccl, ErrorsOfArgumentsEndTheGroup) {
  onRanks(1, [&](int, void* comm, fakeStream_t stream) {
    int value = 1;
    int result = 0;
    EXPECT_EQ(ncclSend(&value, 1, 99, 0, comm, stream), kNcclInvalidArgument);
    ASSERT_EQ(ncclGroupStart(), 0);
    EXPECT_EQ(ncclAllReduce(&value, &result, 1, kNcclInt32, kNcclSum, comm, stream), 0);
    EXPECT_EQ(ncclBroadcast(&value, &value, 1, kNcclInt32, 1, comm, stream), kNcclInvalidArgument);
    EXPECT_EQ(ncclGroupEnd(), kNcclInvalidArgument);
    fakeStreamSynchronize(stream);
    EXPECT_EQ(result, 0);
    EXPECT_EQ(ncclGroupEnd(), kNcclInvalidUsage);
    fakeNcclSetAsyncError(comm, kNcclRemoteError);
    EXPECT_EQ(ncclAllReduce(&value, &result, 1, kNcclInt32, kNcclSum, comm, stream),
              kNcclRemoteError);
    int state = 0;
    EXPECT_EQ(ncclCommGetAsyncError(comm, &state), 0);
    EXPECT_EQ(state, kNcclRemoteError);
    fakeNcclSetAsyncError(comm, 0);
  });
}

TEST_F(FakeNccl, TracesWhatReachesIt) {
  fakeNcclTrace(1);
  onRanks(1, [&](int, void* comm, fakeStream_t stream) {
    int value = 1;
    ASSERT_EQ(ncclBcast(&value, 1, kNcclInt32, 0, comm, stream), 0);
    fakeStreamSynchronize(stream);
  });
  fakeNcclTrace(0);
  EXPECT_STREQ(fakeNcclTraceText(),
               "CommInitRank\nBcast\nBroadcast count=1 datatype=2 op=0 peer=0\nCommDestroy\n");
}

}  // namespace
}  // namespace zipccl::testing
