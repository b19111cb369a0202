// SPDX-License-Identifier: Apache-2.0
//
// Random sequences of calls: ranks as threads make groups and single calls on several communicators
// and streams, of all kinds, sizes and datatypes, all from one plan, and every byte that arrives is
// checked. ZIPCCL_SOAK_CALLS sets their number, and then memory is watched, which must not grow.

#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <thread>
#include <vector>

#include "dropin_testing.hpp"

namespace zipccl::testing {
namespace {

constexpr int kRanks = 3;

/// One call that all ranks make; what they send is a function of plan and rank.
struct Planned {
  int kind = 0;
  int comm = 0;
  int stream = 0;
  std::size_t count = 0;
  int datatype = kBf16;
  int root = 0;
  int number = 0;
};

/// Calls of one sequence, in a group or one by one.
struct Sequence {
  bool isGrouped = false;
  bool isNested = false;
  std::vector<Planned> calls;
};

enum : int { kAllGather, kInPlace, kAlltoAll, kBroadcast, kGather, kScatter, kSum, kPairs, kKinds };

Sequence plan(Random& random, int& number) {
  Sequence sequence;
  sequence.isGrouped = random.chance(0.6);
  sequence.isNested = random.chance(0.2);
  const auto calls = sequence.isGrouped ? random.between(1, 6) : 1;
  for (std::uint64_t i = 0; i < calls; ++i) {
    Planned call;
    call.kind = static_cast<int>(random.below(kKinds));
    // Sends and receives that wait for each other need a group.
    if (call.kind == kPairs && !sequence.isGrouped) call.kind = kAllGather;
    call.comm = static_cast<int>(random.below(2));
    call.stream = static_cast<int>(random.below(2));
    call.count = random.chance(0.1)   ? 0
                 : random.chance(0.5) ? random.between(1, 100)
                                      : random.between(64, 3000);
    call.datatype = random.chance(0.7) ? kBf16 : kNcclFloat16;
    call.root = static_cast<int>(random.below(kRanks));
    call.number = number++;
    sequence.calls.push_back(call);
  }
  return sequence;
}

/// Two-byte elements that tell where they come from. Of sums small whole numbers, which add exactly
/// in any order: 1, 2, 3 as bf16 or fp16 are these bits.
std::uint16_t element(const Planned& call, int from, int to, std::size_t at) {
  if (call.kind == kSum) {
    constexpr std::uint16_t kBf[] = {0x3F80, 0x4000, 0x4040};
    constexpr std::uint16_t kHalf[] = {0x3C00, 0x4000, 0x4200};
    return call.datatype == kBf16 ? kBf[from] : kHalf[from];
  }
  return static_cast<std::uint16_t>(static_cast<std::size_t>(call.number * 31 + from * 7 + to) +
                                    at * 13);
}

/// The buffers of a call of one rank.
struct Made {
  Elements send;
  Elements receive;
  std::size_t receivesFrom = 0;  // places in `receive`
};

class Rank {
 public:
  Rank(int rank, void* first) : rank_(rank) {
    comms_[0] = first;
    EXPECT_EQ(ncclCommSplit(first, 0, -rank, &comms_[1], nullptr), 0);
    for (fakeStream_t& stream : streams_) stream = fakeStreamCreate();
  }
  Rank(const Rank&) = delete;
  Rank& operator=(const Rank&) = delete;
  ~Rank() {
    for (const fakeStream_t stream : streams_) fakeStreamDestroy(stream);
    EXPECT_EQ(ncclCommDestroy(comms_[1]), 0);
  }

  void make(const Sequence& sequence) {
    std::vector<Made> made(sequence.calls.size());
    for (std::size_t i = 0; i < made.size(); ++i) prepare(sequence.calls[i], made[i]);
    const int depth = sequence.isGrouped ? (sequence.isNested ? 2 : 1) : 0;
    for (int i = 0; i < depth; ++i) EXPECT_EQ(ncclGroupStart(), 0);
    for (std::size_t i = 0; i < made.size(); ++i) call(sequence.calls[i], made[i]);
    for (int i = 0; i < depth; ++i) EXPECT_EQ(ncclGroupEnd(), 0);
    for (const fakeStream_t stream : streams_) fakeStreamSynchronize(stream);
    for (std::size_t i = 0; i < made.size(); ++i) check(sequence.calls[i], made[i]);
  }

 private:
  /// The rank of this communicator: of the second one the order is reversed.
  [[nodiscard]] int place(const Planned& call) const {
    return call.comm == 0 ? rank_ : kRanks - 1 - rank_;
  }

  void prepare(const Planned& call, Made& made) const {
    const int own = place(call);
    const bool isToAll = call.kind == kAlltoAll || call.kind == kScatter || call.kind == kPairs;
    const int places = isToAll ? kRanks : 1;
    for (int to = 0; to < places; ++to) {
      for (std::size_t at = 0; at < call.count; ++at) {
        made.send.push_back(element(call, own, to, at));
      }
    }
    const bool isFromAll = call.kind == kAllGather || call.kind == kInPlace ||
                           call.kind == kAlltoAll || call.kind == kPairs ||
                           (call.kind == kGather && own == call.root);
    made.receivesFrom = isFromAll ? kRanks : 1;
    made.receive = poisoned(made.receivesFrom * call.count);
    if (call.kind == kInPlace && call.count != 0) {
      std::memcpy(&made.receive[static_cast<std::size_t>(own) * call.count], made.send.data(),
                  2 * call.count);
    }
  }

  void call(const Planned& p, Made& made) {
    void* const comm = comms_[p.comm];
    const fakeStream_t stream = streams_[p.stream];
    const void* const send = made.send.data();
    void* const receive = made.receive.data();
    const auto own = static_cast<std::size_t>(place(p));
    int result = 0;
    switch (p.kind) {
      case kAllGather:
        result = ncclAllGather(send, receive, p.count, p.datatype, comm, stream);
        break;
      case kInPlace:
        result = ncclAllGather(made.receive.data() + own * p.count, receive, p.count, p.datatype,
                               comm, stream);
        break;
      case kAlltoAll:
        result = ncclAlltoAll(send, receive, p.count, p.datatype, comm, stream);
        break;
      case kBroadcast:
        result = ncclBroadcast(send, receive, p.count, p.datatype, p.root, comm, stream);
        break;
      case kGather:
        result = ncclGather(send, receive, p.count, p.datatype, p.root, comm, stream);
        break;
      case kScatter:
        result = ncclScatter(send, receive, p.count, p.datatype, p.root, comm, stream);
        break;
      case kSum:
        result = ncclAllReduce(send, receive, p.count, p.datatype, kNcclSum, comm, stream);
        break;
      case kPairs:
        for (int peer = 0; peer < kRanks; ++peer) {
          const std::size_t at = static_cast<std::size_t>(peer) * p.count;
          EXPECT_EQ(ncclSend(made.send.data() + at, p.count, p.datatype, peer, comm, stream), 0);
          EXPECT_EQ(ncclRecv(made.receive.data() + at, p.count, p.datatype, peer, comm, stream), 0);
        }
        break;
      default:
        break;
    }
    EXPECT_EQ(result, 0);
  }

  void check(const Planned& call, const Made& made) const {
    const int own = place(call);
    for (std::size_t from = 0; from < made.receivesFrom; ++from) {
      for (std::size_t at = 0; at < call.count; ++at) {
        const std::uint16_t got = made.receive[from * call.count + at];
        std::uint16_t wanted = element(call, static_cast<int>(from), 0, at);
        if (call.kind == kAlltoAll || call.kind == kPairs) {
          wanted = element(call, static_cast<int>(from), own, at);
        } else if (call.kind == kScatter) {
          wanted = element(call, call.root, own, at);
        } else if (call.kind == kBroadcast) {
          wanted = element(call, call.root, 0, at);
        } else if (call.kind == kGather && own != call.root) {
          wanted = 0xA5C3;
        } else if (call.kind == kSum) {
          wanted = call.datatype == kBf16 ? 0x40C0 : 0x4600;  // 6
        }
        ASSERT_EQ(got, wanted) << "kind " << call.kind << " count " << call.count << " from "
                               << from << " at " << at;
      }
    }
  }

  int rank_;
  void* comms_[2] = {};
  fakeStream_t streams_[2] = {};
};

std::size_t residentPages() {
  std::ifstream file("/proc/self/statm");
  std::size_t total = 0;
  std::size_t resident = 0;
  file >> total >> resident;
  return resident;
}

class Sequences : public Dropin {};

TEST_F(Sequences, OfRandomCallsDeliverTheirBits) {
  const char* const soak = std::getenv("ZIPCCL_SOAK_CALLS");
  const bool isLong = soak != nullptr;
  const int sequences = isLong ? std::atoi(soak) : 1000;
  fakeSetJitterUs(isLong ? 0 : 20);
  recordingEngine().setChunk(500);
  std::size_t pagesAtTenth = 0;
  onRanks(kRanks, [&](const RankOf& own) {
    Random random(seed_, 1);  // the same plan on all ranks
    int number = 0;
    Rank rank(own.rank, own.comm);
    for (int i = 0; i < sequences && !HasFailure(); ++i) {
      rank.make(plan(random, number));
      if (own.rank == 0 && i == sequences / 10) pagesAtTenth = residentPages();
    }
    if (own.rank == 0 && isLong) {
      EXPECT_LE(residentPages(), pagesAtTenth + 4096) << "pages, since a tenth of the sequences";
    }
  });
  std::printf("%d sequences, %d runs of the engine with %d calls in %d rounds\n", sequences,
              recordingEngine().runs(), recordingEngine().callsInRuns(),
              recordingEngine().rounds());
  EXPECT_GT(recordingEngine().runs(), sequences / 4);
}

}  // namespace
}  // namespace zipccl::testing
