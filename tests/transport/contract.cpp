// SPDX-License-Identifier: Apache-2.0
//
// The checks of the transports' contract. Sizes, roots and splits come from the shared seed, so
// that all ranks agree on them without a message.

#include "contract.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <thread>

#include "base/clock.hpp"
#include "support/sanitized.hpp"

namespace zipccl::transport {

namespace {

constexpr std::size_t kGuardBytes = 64;
constexpr std::byte kPoison{0xA5};
constexpr std::byte kGuard{0x5C};

std::size_t index(int rank) { return static_cast<std::size_t>(rank); }

constexpr std::array<std::size_t, 11> kSizes = {
    0,
    1,
    2,
    127,
    4096,
    4099,
    60 * 1024,
    (1u << 16) + 1,
    120 * 1024,
    zipccl::testing::kIsSanitized ? 300'001 : 700'001,
    zipccl::testing::kIsSanitized ? 2'500'000 : 10'000'000};

/// The largest size is for few ranks only: what it can show does not depend on their number.
bool isForFewRanks(std::size_t bytes) { return bytes > 2'000'000; }

void expectGathered(Guarded& receive, std::uint64_t seed, std::uint64_t key, int rankCount,
                    std::size_t bytesPerRank) {
  for (int r = 0; r < rankCount; ++r) {
    EXPECT_TRUE(sameBytes(receive.span().subspan(index(r) * bytesPerRank, bytesPerRank),
                          patternOf(seed, r, key, bytesPerRank)))
        << "part of rank " << r << " of " << rankCount << ", " << bytesPerRank << " bytes a rank";
  }
  EXPECT_TRUE(receive.isGuardIntact());
}

void checkAllGather(Transport& transport, std::uint64_t seed) {
  const int rank = transport.rank();
  const int rankCount = transport.rankCount();
  std::uint64_t key = 0;
  for (const std::size_t bytes : kSizes) {
    for (const bool isInPlace : {false, true}) {
      for (const bool isStarted : {false, true}) {
        ++key;
        if (isForFewRanks(bytes) && ((rankCount != 2 && rankCount != 4) || isInPlace != isStarted))
          continue;
        const std::vector<std::byte> mine = patternOf(seed, rank, key, bytes);
        Guarded receive(bytes * index(rankCount), key % 8);
        Guarded send(bytes, key % 3);
        std::byte* const from = isInPlace ? receive.data() + index(rank) * bytes : send.data();
        if (bytes != 0) std::memcpy(from, mine.data(), bytes);
        if (isStarted) {
          Request request = transport.startAllGather(from, receive.data(), bytes);
          transport.wait(request);
          EXPECT_FALSE(request.isActive());
        } else {
          transport.allGather(from, receive.data(), bytes);
        }
        expectGathered(receive, seed, key, rankCount, bytes);
        EXPECT_TRUE(send.isGuardIntact());
      }
    }
  }
}

void checkBroadcast(Transport& transport, std::uint64_t seed) {
  std::uint64_t key = 1000;
  for (const std::size_t bytes : kSizes) {
    for (int root = 0; root < transport.rankCount(); ++root) {
      ++key;
      if (isForFewRanks(bytes) && root != 1) continue;
      const std::vector<std::byte> expected = patternOf(seed, root, key, bytes);
      Guarded buffer(bytes, key % 5);
      if (transport.rank() == root && bytes != 0) {
        std::memcpy(buffer.data(), expected.data(), bytes);
      }
      if (key % 2 == 0) {
        transport.broadcast(buffer.data(), bytes, root);
      } else {
        Request request = transport.startBroadcast(buffer.data(), bytes, root);
        transport.wait(request);
      }
      EXPECT_TRUE(sameBytes(buffer.span(), expected)) << bytes << " bytes from root " << root;
      EXPECT_TRUE(buffer.isGuardIntact());
    }
  }
}

/// An all-to-all with a random matrix of sizes, many of them zero, to oneself too.
struct UnevenSplit {
  UnevenSplit(int rankCount, Random& shared, std::uint64_t maxBytes) : ranks(rankCount) {
    const bool isSparse = shared.chance(0.5);
    for (int i = 0; i < rankCount * rankCount; ++i) {
      const std::uint64_t bytes = shared.below(maxBytes + 1);
      sizes.push_back(isSparse && shared.chance(0.6) ? 0 : bytes);
    }
  }
  [[nodiscard]] std::size_t bytes(int from, int to) const {
    return static_cast<std::size_t>(sizes[index(from) * index(ranks) + index(to)]);
  }

  int ranks;
  std::vector<std::uint64_t> sizes;
};

std::uint64_t pairKey(std::uint64_t key, int to) { return key * 4096 + static_cast<unsigned>(to); }

/// The buffers of one rank in an uneven all-to-all.
class SplitBuffers {
 public:
  SplitBuffers(const Transport& transport, std::uint64_t seed, std::uint64_t key,
               const UnevenSplit& split)
      : rank_(transport.rank()), seed_(seed), key_(key) {
    for (int r = 0; r < transport.rankCount(); ++r) {
      sent_.push_back(patternOf(seed, rank_, pairKey(key, r), split.bytes(rank_, r)));
      received_.emplace_back(split.bytes(r, rank_), index(r) % 4);
    }
    for (int r = 0; r < transport.rankCount(); ++r) {
      const bool isBesideWork = (key + index(rank_) + index(r)) % 2 == 0;
      sends.push_back({.peer = r,
                       .data = sent_[index(r)].data(),
                       .bytes = sent_[index(r)].size(),
                       .isBesideWork = isBesideWork});
      receives.push_back({.peer = r,
                          .data = received_[index(r)].data(),
                          .bytes = received_[index(r)].bytes(),
                          .isBesideWork = isBesideWork});
    }
  }

  void expectArrived() {
    for (std::size_t r = 0; r < received_.size(); ++r) {
      EXPECT_TRUE(sameBytes(
          received_[r].span(),
          patternOf(seed_, static_cast<int>(r), pairKey(key_, rank_), received_[r].bytes())))
          << "from rank " << r << " to rank " << rank_;
      EXPECT_TRUE(received_[r].isGuardIntact());
    }
  }

  std::vector<SendMessage> sends;
  std::vector<ReceiveMessage> receives;

 private:
  int rank_;
  std::uint64_t seed_;
  std::uint64_t key_;
  std::vector<std::vector<std::byte>> sent_;
  std::vector<Guarded> received_;
};

void checkUnevenExchange(Transport& transport, std::uint64_t seed) {
  Random shared(seed, 7);
  Random own(seed, 100 + static_cast<std::uint64_t>(transport.rank()));
  for (std::uint64_t key = 2000; key < 2030; ++key) {
    const std::uint64_t maxBytes = key % 10 == 0 ? 700'000 : key % 3 == 0 ? 3 : 20'000;
    const UnevenSplit split(transport.rankCount(), shared, maxBytes);
    SplitBuffers buffers(transport, seed, key, split);
    // The order in which a rank names its messages is its own affair.
    std::shuffle(buffers.sends.begin(), buffers.sends.end(), own);
    std::shuffle(buffers.receives.begin(), buffers.receives.end(), own);
    transport.exchange(buffers.sends, buffers.receives);
    buffers.expectArrived();
  }
}

/// Everyone first sends to the right and only then receives from the left, in calls of their own.
void checkRing(Transport& transport, std::uint64_t seed) {
  const int rank = transport.rank();
  const int rankCount = transport.rankCount();
  const int right = (rank + 1) % rankCount;
  const int left = (rank + rankCount - 1) % rankCount;
  std::uint64_t key = 3000;
  for (const std::size_t bytes : kSizes) {
    for (const bool isBesideWork : {false, true}) {
      ++key;
      const std::vector<std::byte> mine = patternOf(seed, rank, key, bytes);
      Guarded received(bytes);
      const SendMessage send{right, mine.data(), bytes, isBesideWork};
      const ReceiveMessage receive{left, received.data(), bytes, isBesideWork};
      Request sending = transport.startExchange({&send, 1}, {});
      transport.exchange({}, {&receive, 1});
      transport.wait(sending);
      EXPECT_TRUE(sameBytes(received.span(), patternOf(seed, left, key, bytes)));
      EXPECT_TRUE(received.isGuardIntact());
    }
  }
}

/// Messages of one pair arrive in the order they were started, within a call and over calls.
void checkMessageOrder(Transport& transport, std::uint64_t seed) {
  constexpr std::size_t kMessageCount = 12;
  Random shared(seed, 11);
  std::vector<std::size_t> sizes;
  for (std::size_t i = 0; i < kMessageCount; ++i) {
    sizes.push_back(i % 4 == 1 ? 0 : static_cast<std::size_t>(shared.below(70'000)));
  }
  std::vector<std::vector<std::byte>> sent;
  std::vector<std::vector<Guarded>> received(index(transport.rankCount()));
  std::vector<Request> requests;
  for (std::size_t i = 0; i < kMessageCount; ++i) {
    sent.push_back(patternOf(seed, transport.rank(), 4000 + i, sizes[i]));
    for (std::vector<Guarded>& ofPeer : received) ofPeer.emplace_back(sizes[i]);
  }
  // The messages are cut into calls at different places on different ranks.
  std::size_t step = 1 + index(transport.rank());
  for (std::size_t first = 0; first < kMessageCount; first += step) {
    std::vector<SendMessage> sends;
    std::vector<ReceiveMessage> receives;
    for (std::size_t i = first; i < std::min(first + step, kMessageCount); ++i) {
      for (int peer = 0; peer < transport.rankCount(); ++peer) {
        const bool isBesideWork = i % 3 == 0;
        sends.push_back({peer, sent[i].data(), sizes[i], isBesideWork});
        receives.push_back({peer, received[index(peer)][i].data(), sizes[i], isBesideWork});
      }
    }
    requests.push_back(transport.startExchange(sends, receives));
  }
  // Finished in an order that differs from rank to rank.
  if (transport.rank() % 2 == 1) std::reverse(requests.begin(), requests.end());
  for (Request& request : requests) transport.wait(request);
  for (int peer = 0; peer < transport.rankCount(); ++peer) {
    for (std::size_t i = 0; i < kMessageCount; ++i) {
      EXPECT_TRUE(
          sameBytes(received[index(peer)][i].span(), patternOf(seed, peer, 4000 + i, sizes[i])))
          << "message " << i << " of rank " << peer;
      EXPECT_TRUE(received[index(peer)][i].isGuardIntact());
    }
  }
}

/// A large message is not sent before its receiver has come to it, though the receiver is in a
/// call: so nobody runs ahead of a late rank without bound.
void checkLateReceiver(Transport& transport, std::uint64_t seed) {
  constexpr std::size_t kBytes = 200'000;
  if (transport.rankCount() < 2) return;
  const std::vector<std::byte> sent = patternOf(seed, 0, 4500, kBytes);
  if (transport.rank() == 0) {
    const SendMessage send{1, sent.data(), kBytes, true};
    Request request = transport.startExchange({&send, 1}, {});
    for (const std::int64_t endUs = nowUs() + 50'000; nowUs() < endUs;) {
      if (transport.test(request)) FAIL() << "sent before it was received";
    }
    transport.barrier();
    transport.wait(request);
    return;
  }
  transport.barrier();
  if (transport.rank() != 1) return;
  Guarded received(kBytes);
  const ReceiveMessage receive{0, received.data(), kBytes, true};
  transport.exchange({}, {&receive, 1});
  EXPECT_TRUE(sameBytes(received.span(), sent));
  EXPECT_TRUE(received.isGuardIntact());
}

/// Each rank waits for its all-gathers in an order of its own: whatever it waits for, it does its
/// part in all of them.
void checkAllGathersInAnyOrder(Transport& transport, std::uint64_t seed) {
  constexpr std::uint64_t kCount = 5;
  constexpr std::size_t kBytes = 300'001;
  const int rankCount = transport.rankCount();
  std::vector<std::vector<std::byte>> mine;
  std::vector<Guarded> gathered;
  std::vector<Request> requests;
  for (std::uint64_t i = 0; i < kCount; ++i) {
    mine.push_back(patternOf(seed, transport.rank(), 6000 + i, kBytes));
    gathered.emplace_back(kBytes * index(rankCount));
  }
  for (std::uint64_t i = 0; i < kCount; ++i) {
    requests.push_back(transport.startAllGather(mine[i].data(), gathered[i].data(), kBytes));
  }
  for (std::uint64_t i = 0; i < kCount; ++i) {
    const std::uint64_t place = (i + index(transport.rank())) % kCount;
    transport.wait(requests[transport.rank() % 2 == 0 ? place : kCount - 1 - place]);
  }
  for (std::uint64_t i = 0; i < kCount; ++i) {
    expectGathered(gathered[i], seed, 6000 + i, rankCount, kBytes);
  }
}

/// Several operations of all kinds in flight, polled rather than waited for, with a barrier
/// between.
void checkOperationsInFlight(Transport& transport, std::uint64_t seed) {
  const int rankCount = transport.rankCount();
  constexpr std::size_t kBytes = 300'001;
  Random shared(seed, 13);
  for (std::uint64_t key = 5000; key < 5004; ++key) {
    const UnevenSplit split(rankCount, shared, 50'000);
    SplitBuffers buffers(transport, seed, key, split);
    const std::vector<std::byte> mine = patternOf(seed, transport.rank(), key, kBytes);
    Guarded gathered(kBytes * index(rankCount));
    const int root = static_cast<int>(shared.below(static_cast<std::uint64_t>(rankCount)));
    Guarded broadcast(kBytes);
    const std::vector<std::byte> expected = patternOf(seed, root, key + 100, kBytes);
    if (transport.rank() == root) std::memcpy(broadcast.data(), expected.data(), kBytes);

    std::vector<Request> requests;
    requests.push_back(transport.startExchange(buffers.sends, buffers.receives));
    requests.push_back(transport.startAllGather(mine.data(), gathered.data(), kBytes));
    requests.push_back(transport.startBroadcast(broadcast.data(), kBytes, root));
    if (key % 2 == 0) transport.barrier();
    std::size_t openCount = requests.size();
    const Deadline limit(std::chrono::seconds(60));
    while (openCount != 0 && !limit.hasPassed()) {
      openCount = 0;
      for (Request& request : requests) {
        if (!transport.test(request)) ++openCount;
      }
      if (openCount != 0) std::this_thread::yield();
    }
    ASSERT_EQ(openCount, 0u) << "operations do not end by test()";
    buffers.expectArrived();
    expectGathered(gathered, seed, key, rankCount, kBytes);
    EXPECT_TRUE(sameBytes(broadcast.span(), expected));
  }
}

/// No rank is out of a barrier before the last came in. All ranks share one monotonic clock.
void checkWaitAny(Transport& transport, std::uint64_t seed) {
  const int rank = transport.rank();
  const int rankCount = transport.rankCount();
  std::vector<Request> none(3);
  EXPECT_EQ(transport.waitAny(none), none.size());

  // One message to and from each rank, each an operation of its own; every rank starts them in
  // another order and waits for whichever is complete.
  constexpr std::size_t kBytes = 100'003;
  std::vector<std::vector<std::byte>> sent;
  std::vector<Guarded> received;
  for (int r = 0; r < rankCount; ++r) {
    sent.push_back(patternOf(seed, rank, static_cast<std::uint64_t>(r), kBytes));
    received.emplace_back(kBytes);
  }
  std::vector<Request> requests;
  for (int step = 0; step < rankCount; ++step) {
    const int to = (rank + step) % rankCount;
    const SendMessage send{to, sent[index(to)].data(), kBytes};
    requests.push_back(transport.startExchange({&send, 1}, {}));
  }
  for (int r = rankCount - 1; r >= 0; --r) {
    const ReceiveMessage receive{r, received[index(r)].data(), kBytes};
    requests.push_back(transport.startExchange({}, {&receive, 1}));
  }
  std::size_t completed = 0;
  while (completed < requests.size()) {
    const std::size_t place = transport.waitAny(requests);
    ASSERT_LT(place, requests.size());
    EXPECT_FALSE(requests[place].isActive());
    completed = static_cast<std::size_t>(std::count_if(
        requests.begin(), requests.end(), [](const Request& each) { return !each.isActive(); }));
  }
  EXPECT_EQ(transport.waitAny(requests), requests.size());
  for (int r = 0; r < rankCount; ++r) {
    EXPECT_TRUE(sameBytes(received[index(r)].span(),
                          patternOf(seed, r, static_cast<std::uint64_t>(rank), kBytes)));
    EXPECT_TRUE(received[index(r)].isGuardIntact());
  }
}

void checkBarrier(Transport& transport, std::uint64_t seed) {
  Random shared(seed, 17);
  for (int round = 0; round < 4; ++round) {
    const int late =
        static_cast<int>(shared.below(static_cast<std::uint64_t>(transport.rankCount())));
    if (transport.rank() == late) std::this_thread::sleep_for(std::chrono::milliseconds(20));
    const std::array<std::int64_t, 2> times = [&] {
      const std::int64_t cameUs = nowUs();
      transport.barrier();
      return std::array<std::int64_t, 2>{cameUs, nowUs()};
    }();
    std::vector<std::array<std::int64_t, 2>> all(index(transport.rankCount()));
    transport.allGatherControl(std::as_bytes(std::span(times)),
                               std::as_writable_bytes(std::span(all)));
    std::int64_t lastCameUs = 0;
    for (const auto& [cameUs, leftUs] : all) lastCameUs = std::max(lastCameUs, cameUs);
    for (const auto& [cameUs, leftUs] : all) EXPECT_GE(leftUs, lastCameUs);
  }
}

void checkControl(Transport& transport, std::uint64_t seed) {
  std::uint64_t key = 6000;
  for (const std::size_t bytes :
       {std::size_t{0}, std::size_t{1}, std::size_t{77}, Transport::kMaxControlBytes}) {
    ++key;
    const std::vector<std::byte> mine = patternOf(seed, transport.rank(), key, bytes);
    Guarded all(bytes * index(transport.rankCount()));
    transport.allGatherControl(mine, all.span(), std::chrono::seconds(60));
    expectGathered(all, seed, key, transport.rankCount(), bytes);
  }
  std::vector<std::byte> tooLarge(Transport::kMaxControlBytes + 1);
  std::vector<std::byte> room(tooLarge.size() * index(transport.rankCount()));
  EXPECT_THROW(transport.allGatherControl(tooLarge, room), Error);
  EXPECT_THROW(transport.allGatherControl(std::span(tooLarge).first(8), std::span(room).first(7)),
               Error);
}

void checkStatistics(Transport& transport, std::uint64_t) {
  const TransportStatistics before = transport.statistics();
  const auto others = static_cast<std::uint64_t>(transport.rankCount() - 1);
  std::vector<std::byte> send(1000);
  std::vector<std::byte> receive(1000 * index(transport.rankCount()));
  transport.allGather(send.data(), receive.data(), 1000);
  transport.broadcast(send.data(), 500, 0);
  std::vector<SendMessage> sends;
  std::vector<ReceiveMessage> receives;
  for (int r = 0; r < transport.rankCount(); ++r) {
    sends.push_back({.peer = r, .data = send.data(), .bytes = 10});
    receives.push_back({.peer = r, .data = receive.data() + 10 * r, .bytes = 10});
  }
  transport.exchange(sends, receives);
  transport.allGatherControl(std::span(send).first(4),
                             std::span(receive).first(4 * index(transport.rankCount())));
  transport.barrier();
  const TransportStatistics& after = transport.statistics();
  const bool isRoot = transport.rank() == 0;
  EXPECT_EQ(after.wireBytes - before.wireBytes, others * (1000 + (isRoot ? 500 : 0) + 10));
  EXPECT_EQ(after.receivedBytes - before.receivedBytes, others * (1000 + 10) + (isRoot ? 0 : 500));
  EXPECT_EQ(after.controlBytes - before.controlBytes, others * 4);
  EXPECT_EQ(after.operationCount - before.operationCount, 3u);
}

template <class Call>
void expectInvalidArgument(Call call, const char* what) {
  try {
    call();
    ADD_FAILURE() << what << " is accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument) << error.what();
  }
}

/// Wrong arguments start nothing and leave the transport as it was.
void checkArguments(Transport& transport, std::uint64_t seed) {
  const int rankCount = transport.rankCount();
  std::vector<std::byte> buffer(64 * index(rankCount) + 64);
  std::byte* const data = buffer.data();
  expectInvalidArgument([&] { transport.allGather(nullptr, data, 8); }, "null send");
  expectInvalidArgument([&] { transport.allGather(data, nullptr, 8); }, "null receive");
  expectInvalidArgument([&] { transport.allGather(data + 1, data, 8); }, "an overlap");
  expectInvalidArgument(
      [&] { transport.allGather(data, data + 1, ~std::size_t{0} / index(rankCount)); }, "overflow");
  expectInvalidArgument([&] { transport.broadcast(data, 8, rankCount); }, "a root too high");
  expectInvalidArgument([&] { transport.broadcast(data, 8, -1); }, "a root below 0");
  expectInvalidArgument([&] { transport.broadcast(nullptr, 8, 0); }, "a null broadcast");
  for (const int peer : {-1, rankCount}) {
    const SendMessage send{.peer = peer, .data = data, .bytes = 8};
    const ReceiveMessage receive{.peer = peer, .data = data, .bytes = 8};
    expectInvalidArgument([&] { transport.exchange({&send, 1}, {}); }, "a send to nobody");
    expectInvalidArgument([&] { transport.exchange({}, {&receive, 1}); }, "a receive from nobody");
  }
  const SendMessage nullSend{.peer = 0, .data = nullptr, .bytes = 8};
  const ReceiveMessage nullReceive{.peer = 0, .data = nullptr, .bytes = 8};
  expectInvalidArgument([&] { transport.exchange({&nullSend, 1}, {}); }, "a null message");
  expectInvalidArgument([&] { transport.exchange({}, {&nullReceive, 1}); }, "a null message");
  EXPECT_FALSE(transport.hasFailed());
  EXPECT_FALSE(transport.failure().has_value());
  Request inactive;
  transport.wait(inactive);
  EXPECT_TRUE(transport.test(inactive));
  transport.exchange({}, {});
  checkControl(transport, seed);
}

/// A long random program of operations, the same on all ranks.
void checkRandomProgram(Transport& transport, std::uint64_t seed) {
  Random shared(seed, 19);
  const int rankCount = transport.rankCount();
  for (std::uint64_t key = 7000; key < 7080; ++key) {
    const auto bytes = static_cast<std::size_t>(shared.below(shared.chance(0.2) ? 200'000 : 600));
    switch (shared.below(5)) {
      case 0: {
        const std::vector<std::byte> mine = patternOf(seed, transport.rank(), key, bytes);
        Guarded gathered(bytes * index(rankCount));
        transport.allGather(mine.data(), gathered.data(), bytes);
        expectGathered(gathered, seed, key, rankCount, bytes);
        break;
      }
      case 1: {
        const int root = static_cast<int>(shared.below(static_cast<std::uint64_t>(rankCount)));
        std::vector<std::byte> buffer = patternOf(seed, transport.rank(), key, bytes);
        transport.broadcast(buffer.data(), bytes, root);
        EXPECT_TRUE(sameBytes(buffer, patternOf(seed, root, key, bytes)));
        break;
      }
      case 2:
        transport.barrier();
        break;
      case 3: {
        const std::size_t controlBytes = bytes % 512;
        const std::vector<std::byte> mine = patternOf(seed, transport.rank(), key, controlBytes);
        Guarded all(controlBytes * index(rankCount));
        transport.allGatherControl(mine, all.span());
        expectGathered(all, seed, key, rankCount, controlBytes);
        break;
      }
      default: {
        const UnevenSplit split(rankCount, shared, bytes);
        SplitBuffers buffers(transport, seed, key, split);
        transport.exchange(buffers.sends, buffers.receives);
        buffers.expectArrived();
        break;
      }
    }
  }
}

constexpr std::array kChecks = {
    ContractCheck{"AllGather", checkAllGather},
    ContractCheck{"AllGathersInAnyOrder", checkAllGathersInAnyOrder},
    ContractCheck{"Broadcast", checkBroadcast},
    ContractCheck{"UnevenExchange", checkUnevenExchange},
    ContractCheck{"Ring", checkRing},
    ContractCheck{"MessageOrder", checkMessageOrder},
    ContractCheck{"LateReceiver", checkLateReceiver},
    ContractCheck{"OperationsInFlight", checkOperationsInFlight},
    ContractCheck{"WaitAny", checkWaitAny},
    ContractCheck{"Barrier", checkBarrier},
    ContractCheck{"Control", checkControl},
    ContractCheck{"Statistics", checkStatistics},
    ContractCheck{"Arguments", checkArguments},
    ContractCheck{"RandomProgram", checkRandomProgram},
};

}  // namespace

std::span<const ContractCheck> contractChecks() { return kChecks; }

Guarded::Guarded(std::size_t bytes, std::size_t misalignment)
    : bytes_(bytes),
      startBytes_(kGuardBytes + misalignment),
      storage_(startBytes_ + bytes + kGuardBytes, kGuard) {
  std::fill_n(data(), bytes, kPoison);
}

bool Guarded::isGuardIntact() const {
  const auto isGuard = [](std::byte b) { return b == kGuard; };
  const auto start = static_cast<std::ptrdiff_t>(startBytes_);
  const auto end = static_cast<std::ptrdiff_t>(startBytes_ + bytes_);
  return std::all_of(storage_.begin(), storage_.begin() + start, isGuard) &&
         std::all_of(storage_.begin() + end, storage_.end(), isGuard);
}

std::vector<std::byte> patternOf(std::uint64_t seed, int rank, std::uint64_t key,
                                 std::size_t bytes) {
  std::vector<std::byte> out(bytes);
  Random(seed ^ (key * 0x9E3779B97F4A7C15u), static_cast<std::uint64_t>(rank)).fill(out);
  return out;
}

::testing::AssertionResult sameBytes(std::span<const std::byte> got,
                                     std::span<const std::byte> expected) {
  if (got.size() != expected.size()) {
    return ::testing::AssertionFailure() << got.size() << " bytes, not " << expected.size();
  }
  if (got.empty() || std::memcmp(got.data(), expected.data(), got.size()) == 0) {
    return ::testing::AssertionSuccess();
  }
  const auto [g, e] = std::mismatch(got.begin(), got.end(), expected.begin());
  return ::testing::AssertionFailure()
         << "byte " << (g - got.begin()) << " of " << got.size() << " is " << static_cast<int>(*g)
         << ", not " << static_cast<int>(*e);
}

}  // namespace zipccl::transport
