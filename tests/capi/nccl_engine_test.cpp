// SPDX-License-Identifier: Apache-2.0
//
// The engine behind the table of zipccl/nccl_engine.h, over a fake NCCL: ranks are threads, streams
// are asynchronous, and what arrives is compared bit for bit. Everything that can be is compressed,
// with so little scratch that calls take many rounds.

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>
#include <zipccl/nccl_engine.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "collectives/reference_reduction.hpp"
#include "collectives/tensors.hpp"
#include "fake_nccl.h"
#include "fake_nccl_api.hpp"
#include "fake_nccl_fixture.hpp"
#include "nccl_calls.h"
#include "rank_processes.hpp"
#include "support/sanitized.hpp"
#include "support/seeded_test.hpp"

namespace zipccl::testing {
namespace {

using collectives::Datatype;
using collectives::elementBytes;
using collectives::ReduceOp;
using collectives::Reduction;
using collectives::testing::Content;
using collectives::testing::kAllContents;
using collectives::testing::makeShard;
using collectives::testing::referenceReduction;
using collectives::testing::Shard;

constexpr int kSuccess = 0;
constexpr int kRemoteError = 6;
constexpr std::byte kPoison{0xA5};

// Before the library reads its settings, which it does once.
const bool kIsEnvironmentSet = [] {
  ::setenv("ZIPCCL_STRATEGY", "staged", 1);
  ::setenv("ZIPCCL_MAX_SCRATCH", "1M", 1);
  ::setenv("ZIPCCL_TIMEOUT", "5", 0);
  return true;
}();

const zipcclNcclEngine& engine() { return *zipcclGetNcclEngine(ZIPCCL_NCCL_ENGINE_VERSION); }

/// One rank's end, in its thread.
struct Rank {
  int rank = 0;
  int count = 0;
  void* comm = nullptr;
  void* attached = nullptr;
  fakeStream_t streams[2] = {};

  void synchronize() const {
    for (const fakeStream_t stream : streams) fakeStreamSynchronize(stream);
  }
};

/// What a program asks for. All ranks know all of it.
struct TestCall {
  zipcclNcclKind kind = zipcclNcclAllGather;  ///< zipcclNcclSend: a message for each ordered pair
  Datatype datatype = Datatype::kBfloat16;
  std::uint64_t count = 0;
  std::vector<Content> contents{Content::kGaussian};  ///< of ranks 0, 1, ..., and again
  bool isInPlace = false;
  int root = 0;
  Reduction reduction;
  int stream = 0;
  std::uint64_t offset = 0;  ///< elements that the buffers are off a multiple of 64 bytes
  std::uint64_t seed = 0;

  [[nodiscard]] std::uint64_t bytes() const { return count * elementBytes(datatype); }
  /// Messages of pairs differ in size.
  [[nodiscard]] std::uint64_t messageCount(int from, int to) const {
    return (count * static_cast<std::uint64_t>(1 + (3 * from + 5 * to) % 4) / 4) % (count + 1);
  }
  [[nodiscard]] Shard part(int from, int to, std::uint64_t elements) const {
    const Content content = contents[static_cast<std::size_t>(from) % contents.size()];
    return makeShard(seed + 1000U * static_cast<unsigned>(to + 1), from, datatype, elements,
                     content);
  }
};

Shard joined(const std::vector<Shard>& parts) {
  Shard all;
  for (const Shard& part : parts) all.insert(all.end(), part.begin(), part.end());
  return all;
}

/// A buffer between poisoned bytes.
class Buffer {
 public:
  Buffer(std::uint64_t bytes, std::uint64_t offsetBytes)
      : memory_(bytes + 256, kPoison), bytes_(bytes) {
    const auto start = reinterpret_cast<std::uintptr_t>(memory_.data());
    at_ = memory_.data() + (64 - start % 64) + 64 + offsetBytes % 64;
  }
  [[nodiscard]] std::byte* data() const { return at_; }
  [[nodiscard]] std::uint64_t bytes() const { return bytes_; }
  void put(std::uint64_t at, const Shard& content) {
    if (!content.empty()) std::memcpy(at_ + at, content.data(), content.size());
  }
  void expect(const Shard& content, const std::string& what) const {
    ASSERT_EQ(content.size(), bytes_);
    for (std::uint64_t i = 0; i < bytes_; ++i) {
      ASSERT_EQ(at_[i], content[i]) << what << ": byte " << i << " of " << bytes_;
    }
    EXPECT_TRUE(at_[-1] == kPoison && at_[bytes_] == kPoison) << what << " wrote beside its buffer";
  }

 private:
  std::vector<std::byte> memory_;
  std::uint64_t bytes_;
  std::byte* at_;
};

/// A call of one rank: its buffers, what it expects, and what it passes.
class Made {
 public:
  Made(const TestCall& test, const Rank& rank) : test_(test), rank_(rank), op_(opOf()) {
    const auto ranks = static_cast<std::uint64_t>(rank.count);
    switch (test.kind) {
      case zipcclNcclAllGather: {
        std::vector<Shard> shards;
        for (int r = 0; r < rank.count; ++r) shards.push_back(test.part(r, 0, test.count));
        make(shards[own()], joined(shards), own() * test.bytes());
        break;
      }
      case zipcclNcclBroadcast:
        make(test.part(rank.rank, 0, test.count), test.part(test.root, 0, test.count), 0);
        break;
      case zipcclNcclReduceScatter:
      case zipcclNcclAllReduce: {
        const bool isAll = test.kind == zipcclNcclAllReduce;
        const std::uint64_t elements = isAll ? test.count : ranks * test.count;
        std::vector<Shard> addends;
        for (int r = 0; r < rank.count; ++r) addends.push_back(test.part(r, 0, elements));
        Shard sum = referenceReduction(test.datatype, test.reduction, addends);
        if (isAll) {
          make(addends[own()], sum, 0);
        } else {
          const auto at = static_cast<std::ptrdiff_t>(own() * test.bytes());
          makeReduceScatter(
              addends[own()],
              {sum.begin() + at, sum.begin() + at + static_cast<std::ptrdiff_t>(test.bytes())});
        }
        break;
      }
      case zipcclNcclAlltoAll: {
        std::vector<Shard> out, in;
        for (int r = 0; r < rank.count; ++r) {
          out.push_back(test.part(rank.rank, r, test.count));
          in.push_back(test.part(r, rank.rank, test.count));
        }
        make(joined(out), joined(in), {});
        break;
      }
      case zipcclNcclGather: {
        std::vector<Shard> shards;
        for (int r = 0; r < rank.count; ++r) shards.push_back(test.part(r, 0, test.count));
        if (rank.rank == test.root) {
          make(shards[own()], joined(shards), own() * test.bytes());
        } else {
          make(shards[own()], {}, {});
        }
        break;
      }
      case zipcclNcclScatter: {
        std::vector<Shard> parts;
        for (int r = 0; r < rank.count; ++r) parts.push_back(test.part(test.root, r, test.count));
        make(rank.rank == test.root ? joined(parts) : Shard{}, parts[own()], {});
        break;
      }
      default:
        for (int r = 0; r < rank.count; ++r) {
          addMessage(zipcclNcclSend, r, test.part(rank.rank, r, test.messageCount(rank.rank, r)));
          addMessage(zipcclNcclRecv, r, test.part(r, rank.rank, test.messageCount(r, rank.rank)));
        }
    }
  }
  Made(const Made&) = delete;
  Made& operator=(const Made&) = delete;
  ~Made() {
    if (op_ > 4) {
      engine().redOpDestroyed(rank_.attached, op_);
      EXPECT_EQ(ncclRedOpDestroy(op_, rank_.comm), kSuccess);
    }
  }

  [[nodiscard]] const std::vector<zipcclNcclCall>& calls() const { return calls_; }

  void check() const {
    const std::string what = "rank " + std::to_string(rank_.rank) + ", kind " +
                             std::to_string(static_cast<int>(test_.kind)) + ", count " +
                             std::to_string(test_.count) + ", datatype " +
                             std::to_string(static_cast<int>(test_.datatype));
    for (std::size_t i = 0; i < outputs_.size(); ++i) outputs_[i]->expect(expected_[i], what);
  }

 private:
  [[nodiscard]] std::size_t own() const { return static_cast<std::size_t>(rank_.rank); }

  [[nodiscard]] int opOf() const {
    if (test_.reduction.op != ReduceOp::kPreMulSum) return static_cast<int>(test_.reduction.op);
    int op = 0;
    std::array<std::byte, 8> scalar = test_.reduction.scalar;
    const int datatype = static_cast<int>(test_.datatype);
    EXPECT_EQ(ncclRedOpCreatePreMulSum(&op, scalar.data(), datatype, 1, rank_.comm), kSuccess);
    engine().redOpCreated(rank_.attached, op, scalar.data(), datatype, 1);
    return op;
  }

  [[nodiscard]] std::shared_ptr<Buffer> buffer(std::uint64_t bytes) const {
    return std::make_shared<Buffer>(bytes, test_.offset * elementBytes(test_.datatype));
  }

  [[nodiscard]] zipcclNcclCall call(zipcclNcclKind kind, int peer, std::uint64_t count) const {
    zipcclNcclCall made{};
    made.kind = kind;
    made.isGrouped = 1;
    made.count = count;
    made.datatype = static_cast<int>(test_.datatype);
    made.op = op_;
    made.peer = peer;
    made.comm = rank_.comm;
    made.attached = rank_.attached;
    made.stream = rank_.streams[test_.stream];
    return made;
  }

  /// `inPlaceAt`: where in the output the input stands when in place, if there is such a form.
  void make(const Shard& input, const Shard& output, std::optional<std::uint64_t> inPlaceAt) {
    auto out = buffer(output.size());
    zipcclNcclCall made = call(test_.kind, test_.root, test_.count);
    made.recvbuff = out->data();
    if (test_.isInPlace && inPlaceAt) {
      out->put(*inPlaceAt, input);
      made.sendbuff = out->data() + *inPlaceAt;
    } else {
      auto in = buffer(input.size());
      in->put(0, input);
      made.sendbuff = in->data();
      inputs_.push_back(in);
    }
    add(made, out, output);
  }

  void makeReduceScatter(const Shard& input, const Shard& output) {
    auto in = buffer(input.size());
    in->put(0, input);
    zipcclNcclCall made = call(test_.kind, test_.root, test_.count);
    made.sendbuff = in->data();
    if (test_.isInPlace) {
      made.recvbuff = in->data() + own() * test_.bytes();
      Shard all = input;
      if (!output.empty()) {
        std::memcpy(all.data() + own() * test_.bytes(), output.data(), output.size());
      }
      add(made, in, all);
    } else {
      auto out = buffer(output.size());
      made.recvbuff = out->data();
      inputs_.push_back(in);
      add(made, out, output);
    }
  }

  void addMessage(zipcclNcclKind kind, int peer, const Shard& content) {
    auto made = call(kind, peer, content.size() / elementBytes(test_.datatype));
    auto at = buffer(content.size());
    if (kind == zipcclNcclSend) {
      at->put(0, content);
      made.sendbuff = at->data();
      inputs_.push_back(at);
      calls_.push_back(made);
    } else {
      made.recvbuff = at->data();
      add(made, at, content);
    }
  }

  void add(const zipcclNcclCall& made, std::shared_ptr<Buffer> out, Shard expected) {
    calls_.push_back(made);
    outputs_.push_back(std::move(out));
    expected_.push_back(std::move(expected));
  }

  TestCall test_;
  Rank rank_;
  int op_;
  std::vector<zipcclNcclCall> calls_;
  std::vector<std::shared_ptr<Buffer>> inputs_;
  std::vector<std::shared_ptr<Buffer>> outputs_;
  std::vector<Shard> expected_;
};

class NcclEngine : public FakeNcclTest<50> {
 protected:
  void SetUp() override {
    ASSERT_NE(zipcclGetNcclEngine(ZIPCCL_NCCL_ENGINE_VERSION), nullptr);
    ASSERT_NE(fakeNcclApi().image, nullptr);
    FakeNcclTest::SetUp();
  }

  /// Runs `work` for each rank, in a thread of its own.
  static void onRanks(int ranks, const std::function<void(Rank&)>& work) {
    onFakeRanks(ranks, [&](int number, void* comm) {
      Rank rank{.rank = number, .count = ranks, .comm = comm};
      engine().attach(&fakeNcclApi(), &rank.comm, 1, &rank.attached);
      for (fakeStream_t& stream : rank.streams) stream = fakeStreamCreate();
      work(rank);
      for (const fakeStream_t stream : rank.streams) fakeStreamDestroy(stream);
      engine().detach(rank.attached);
    });
  }

  /// All calls in one group.
  static void runGroup(const Rank& rank, const std::vector<TestCall>& tests) {
    std::vector<std::unique_ptr<Made>> made;
    std::vector<zipcclNcclCall> calls;
    for (const TestCall& test : tests) {
      made.push_back(std::make_unique<Made>(test, rank));
      const std::vector<zipcclNcclCall>& its = made.back()->calls();
      calls.insert(calls.end(), its.begin(), its.end());
    }
    const int result = engine().run(calls.data(), calls.size());
    const char* const words = engine().lastError(rank.attached);
    EXPECT_EQ(result, kSuccess) << (words != nullptr ? words : "");
    rank.synchronize();
    for (const auto& each : made) each->check();
    expectNoError(rank);
  }

  static void expectNoError(const Rank& rank) {
    const int error = engine().asyncError(rank.attached, kSuccess);
    const char* const words = engine().lastError(rank.attached);
    EXPECT_EQ(error, kSuccess) << (words != nullptr ? words : "");
  }

  TestCall randomCall(int ranks) {
    static constexpr zipcclNcclKind kKinds[] = {
        zipcclNcclAllGather, zipcclNcclReduceScatter, zipcclNcclAllReduce, zipcclNcclBroadcast,
        zipcclNcclAlltoAll,  zipcclNcclGather,        zipcclNcclScatter,   zipcclNcclSend};
    static constexpr Datatype kCoded[] = {Datatype::kBfloat16, Datatype::kFloat16,
                                          Datatype::kFloat32};
    static constexpr std::uint64_t kCounts[] = {0, 1, 2, 7, 31, 33, 1023, 1024, 1025, 8192, 20000};
    TestCall test;
    test.kind = kKinds[random_.below(std::size(kKinds))];
    test.datatype = kCoded[random_.below(std::size(kCoded))];
    const bool isReduction =
        test.kind == zipcclNcclReduceScatter || test.kind == zipcclNcclAllReduce;
    if (!isReduction && random_.below(8) == 0) test.datatype = Datatype::kUint8;
    test.count =
        random_.below(2) == 0 ? kCounts[random_.below(std::size(kCounts))] : random_.below(60000);
    test.contents.clear();
    for (int rank = 0; rank < ranks; ++rank) {
      test.contents.push_back(kAllContents[random_.below(std::size(kAllContents))]);
    }
    test.isInPlace = random_.below(2) == 0;
    test.root = static_cast<int>(random_.below(static_cast<std::uint64_t>(ranks)));
    test.stream = static_cast<int>(random_.below(2));
    test.offset = random_.below(3);
    test.seed = random_();
    if (isReduction && random_.chance(0.5)) test.reduction = {.op = ReduceOp::kAvg};
    return test;
  }
};

TEST_F(NcclEngine, GivesOutOneVersion) {
  EXPECT_EQ(zipcclGetNcclEngine(ZIPCCL_NCCL_ENGINE_VERSION + 1), nullptr);
  EXPECT_EQ(engine().size, sizeof(zipcclNcclEngine));
}

TEST_F(NcclEngine, EveryKindDeliversEveryBit) {
  for (const int ranks : {2, 3}) {
    const std::uint64_t seed = random_();
    onRanks(ranks, [&](Rank& rank) {
      ASSERT_NE(rank.attached, nullptr);
      std::uint64_t state = seed;
      Random chosen(seed);  // alike on all ranks
      for (int kind = 0; kind < zipcclNcclNumKinds; ++kind) {
        if (kind == zipcclNcclReduce || kind == zipcclNcclRecv) continue;
        for (const Content content : kAllContents) {
          if (!isVisited(chosen, 3)) continue;
          TestCall test;
          test.kind = static_cast<zipcclNcclKind>(kind);
          test.count = 50'001;
          test.contents = {content, Content::kGaussian};
          test.seed = splitMix64(state);
          runGroup(rank, {test});
        }
      }
    });
  }
}

TEST_F(NcclEngine, RandomGroupsDeliverEveryBit) {
  constexpr int kGroups = kIsSanitized ? 10 : 25;
  for (const int ranks : {2, 4}) {
    std::vector<std::vector<TestCall>> groups;
    for (int i = 0; i < kGroups; ++i) {
      std::vector<TestCall> group(1 + random_.below(4));
      for (TestCall& test : group) test = randomCall(ranks);
      groups.push_back(group);
    }
    onRanks(ranks, [&](Rank& rank) {
      for (const auto& group : groups) {
        runGroup(rank, group);
        if (::testing::Test::HasFatalFailure()) return;
      }
    });
  }
}

TEST_F(NcclEngine, LearnsThePoolSoThatDynamicPartsEnd) {
  // What a call sends over the real library: the groups that carry dynamic parts are additional.
  constexpr int kCalls = 5;
  onRanks(2, [&](Rank& rank) {
    for (int i = 0; i < kCalls; ++i) {
      TestCall test;
      test.count = 40'000;
      test.contents = {Content::kManyEscapes};
      test.seed = 77;
      // Threads share the trace: rank 0 reads it while rank 1 waits for the next call.
      if (rank.rank == 0) fakeNcclTrace(1);
      runGroup(rank, {test});
      if (rank.rank != 0) continue;
      const std::string trace = fakeNcclTraceText();
      std::size_t gathers = 0;
      for (std::size_t at = 0; (at = trace.find("AllGather", at)) != std::string::npos; ++at) {
        ++gathers;
      }
      fakeNcclTrace(0);
      if (i == kCalls - 1) {
        EXPECT_GE(gathers, 1U);
        EXPECT_LE(gathers, 2U) << trace;
      }
    }
  });
}

TEST_F(NcclEngine, CallsItDoesNotWantGoAsTheyAre) {
  onRanks(2, [&](Rank& rank) {
    TestCall test;
    test.count = 5000;
    test.seed = 5;
    const Made made(test, rank);
    zipcclNcclCall call = made.calls()[0];
    EXPECT_EQ(engine().wants(&call), 1);
    call.datatype = static_cast<int>(Datatype::kInt32);
    EXPECT_EQ(engine().wants(&call), 0);
    call = made.calls()[0];
    call.kind = zipcclNcclReduceScatter;
    call.op = 2;
    EXPECT_EQ(engine().wants(&call), 0) << "Max";
    call.op = 7;
    EXPECT_EQ(engine().wants(&call), 0) << "an opaque operation of which nothing is known";
    float scalar = 0.5F + static_cast<float>(rank.rank);
    int op = 0;
    ASSERT_EQ(ncclRedOpCreatePreMulSum(&op, &scalar, 7, 1, rank.comm), kSuccess);
    engine().redOpCreated(rank.attached, op, &scalar, 7, 1);
    call.op = op;
    call.datatype = 7;
    EXPECT_EQ(engine().wants(&call), 0) << "a scalar that other ranks do not have";
    engine().redOpDestroyed(rank.attached, op);
    ASSERT_EQ(ncclRedOpDestroy(op, rank.comm), kSuccess);
    call = made.calls()[0];
    call.kind = zipcclNcclSend;
    call.peer = 1 - rank.rank;
    EXPECT_EQ(engine().wants(&call), 1);
    call.isGrouped = 0;
    EXPECT_EQ(engine().wants(&call), 1) << "its peer may have it in a group";
    call.count = 1'000'000;
    EXPECT_EQ(engine().wants(&call), 0) << "a message takes one round, or none";
    call.count = test.count;
    call.peer = rank.rank;
    EXPECT_EQ(engine().wants(&call), 0);

    call = made.calls()[0];
    int window = 0;
    engine().windowRegistered(rank.attached, call.recvbuff, 64, &window);
    EXPECT_EQ(engine().wants(&call), 0);
    engine().windowDeregistered(rank.attached, &window);
    EXPECT_EQ(engine().wants(&call), 1);

    fakeStreamBeginCapture(rank.streams[0]);
    EXPECT_EQ(engine().wants(&call), 0);
    fakeGraphDestroy(fakeStreamEndCapture(rank.streams[0]));
    EXPECT_EQ(engine().wants(&call), 1);
  });
}

TEST_F(NcclEngine, ACapturedCallGoesAsItIs) {
  onRanks(2, [&](Rank& rank) {
    TestCall test;
    test.count = 3000;
    test.seed = 6;
    const Made made(test, rank);
    fakeStreamBeginCapture(rank.streams[0]);
    EXPECT_EQ(engine().run(made.calls().data(), 1), kSuccess);
    const fakeGraph_t graph = fakeStreamEndCapture(rank.streams[0]);
    fakeGraphLaunch(graph, rank.streams[0]);
    rank.synchronize();
    made.check();
    fakeGraphDestroy(graph);
  });
}

TEST_F(NcclEngine, OneThreadDrivesSeveralRanks) {
  constexpr int kRanks = 2;
  void* comms[kRanks] = {};
  void* attached[kRanks] = {};
  ASSERT_EQ(ncclCommInitAll(comms, kRanks, nullptr), kSuccess);
  engine().attach(&fakeNcclApi(), comms, kRanks, attached);
  std::vector<Rank> ranks;
  for (int number = 0; number < kRanks; ++number) {
    ASSERT_NE(attached[number], nullptr);
    fakeSetDevice(number);
    Rank rank{.rank = number, .count = kRanks, .comm = comms[number], .attached = attached[number]};
    for (fakeStream_t& stream : rank.streams) stream = fakeStreamCreate();
    ranks.push_back(rank);
  }
  fakeSetDevice(0);
  for (int i = 0; i < 10; ++i) {
    const TestCall test = randomCall(kRanks);
    std::vector<std::unique_ptr<Made>> made;
    std::vector<zipcclNcclCall> calls;
    for (const Rank& rank : ranks) {
      fakeSetDevice(rank.rank);
      made.push_back(std::make_unique<Made>(test, rank));
      const auto& its = made.back()->calls();
      calls.insert(calls.end(), its.begin(), its.end());
    }
    fakeSetDevice(0);
    EXPECT_EQ(engine().run(calls.data(), calls.size()), kSuccess);
    EXPECT_EQ(fakeGetDevice(), 0);
    for (const Rank& rank : ranks) rank.synchronize();
    for (const auto& each : made) each->check();
  }
  for (const Rank& rank : ranks) {
    for (const fakeStream_t stream : rank.streams) fakeStreamDestroy(stream);
    engine().detach(rank.attached);
    EXPECT_EQ(ncclCommDestroy(rank.comm), kSuccess);
  }
}

// NCCL may come back from the group of one rank only when it has heard of the others, so what one
// rank has to wait for holds up all of a thread.
TEST_F(NcclEngine, RanksOfAThreadStayInOneGroup) {
  constexpr int kRanks = 2;
  constexpr int kMessages = 33;  // one more than are decided on ahead of what headers say
  void* comms[kRanks] = {};
  void* attached[kRanks] = {};
  ASSERT_EQ(ncclCommInitAll(comms, kRanks, nullptr), kSuccess);
  engine().attach(&fakeNcclApi(), comms, kRanks, attached);
  std::vector<Shard> sent;
  std::vector<std::unique_ptr<Buffer>> received;
  std::atomic<bool> isOpen = false;
  fakeSetDevice(0);
  const fakeStream_t streams[kRanks] = {fakeStreamCreate(), (fakeSetDevice(1), fakeStreamCreate())};
  // Rank 0 hears of nothing until then, rank 1 of what it sends.
  fakeStreamEnqueue(
      streams[0],
      [](void* argument) {
        const auto& opened = *static_cast<const std::atomic<bool>*>(argument);
        while (!opened) std::this_thread::sleep_for(std::chrono::milliseconds(1));
      },
      &isOpen);
  std::thread opener([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    isOpen = true;
  });
  fakeNcclTrace(1);
  for (int i = 0; i < kMessages; ++i) {
    constexpr std::uint64_t kCount = 3000;
    sent.push_back(makeShard(random_(), 1, Datatype::kBfloat16, kCount, Content::kGaussian));
    received.push_back(std::make_unique<Buffer>(sent.back().size(), 0));
    zipcclNcclCall calls[kRanks] = {};
    for (int rank = 0; rank < kRanks; ++rank) {
      calls[rank].kind = rank == 0 ? zipcclNcclRecv : zipcclNcclSend;
      calls[rank].isGrouped = 1;
      calls[rank].count = kCount;
      calls[rank].datatype = static_cast<int>(Datatype::kBfloat16);
      calls[rank].peer = 1 - rank;
      calls[rank].comm = comms[rank];
      calls[rank].attached = attached[rank];
      calls[rank].stream = streams[rank];
    }
    calls[0].recvbuff = received.back()->data();
    calls[1].sendbuff = sent.back().data();
    EXPECT_EQ(engine().run(calls, kRanks), kSuccess);
  }
  fakeNcclTrace(0);
  opener.join();
  const std::string trace = fakeNcclTraceText();
  for (int rank = 0; rank < kRanks; ++rank) fakeStreamSynchronize(streams[rank]);
  for (int i = 0; i < kMessages; ++i) {
    const auto at = static_cast<std::size_t>(i);
    received[at]->expect(sent[at], "message " + std::to_string(i));
  }
  // Of each group the order of the two is all that is open.
  const auto count = [&](const std::string& words) {
    int found = 0;
    for (std::size_t at = trace.find(words); at != std::string::npos;
         at = trace.find(words, at + 1)) {
      ++found;
    }
    return found;
  };
  EXPECT_EQ(count("GroupStart\n"), kMessages) << trace;
  EXPECT_EQ(count("Send "), kMessages);
  EXPECT_EQ(count("Recv "), kMessages);
  for (int rank = 0; rank < kRanks; ++rank) {
    fakeStreamDestroy(streams[rank]);
    engine().detach(attached[rank]);
    EXPECT_EQ(ncclCommDestroy(comms[rank]), kSuccess);
  }
}

TEST_F(NcclEngine, CallsReturnBeforeOtherRanksCome) {
  constexpr int kSettled = 4;
  constexpr int kAhead = 6;
  std::atomic<bool> hasReturned = false;
  const std::uint64_t seed = random_();
  onRanks(2, [&](Rank& rank) {
    std::vector<std::unique_ptr<Made>> made;
    const auto call = [&](int number) {
      TestCall test;
      test.count = 30'000;
      // Frames with dynamic parts, too.
      test.contents = {number % 3 == 2 ? Content::kRandomBits : Content::kGaussian};
      test.seed = seed + static_cast<unsigned>(number);
      made.push_back(std::make_unique<Made>(test, rank));
      EXPECT_EQ(engine().run(made.back()->calls().data(), 1), kSuccess);
    };
    for (int number = 0; number < kSettled; ++number) call(number);
    rank.synchronize();
    const auto start = std::chrono::steady_clock::now();
    if (rank.rank == 1) {
      while (!hasReturned && std::chrono::steady_clock::now() - start < std::chrono::seconds(20)) {
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
      }
      EXPECT_TRUE(hasReturned) << "rank 0 waits in a call for rank 1";
    }
    for (int number = 0; number < kAhead; ++number) call(kSettled + number);
    if (rank.rank == 0) hasReturned = true;
    rank.synchronize();
    for (const auto& each : made) each->check();
    expectNoError(rank);
  });
}

TEST_F(NcclEngine, AnAbortEndsAWait) {
  std::atomic<bool> isOver = false;
  onRanks(2, [&](Rank& rank) {
    TestCall test;
    test.count = 30'000;
    const Made made(test, rank);
    if (rank.rank == 1) {
      while (!isOver) std::this_thread::sleep_for(std::chrono::milliseconds(1));
      // So that the fake library has no rank that waits for ever.
      EXPECT_EQ(engine().run(made.calls().data(), 1), kSuccess);
      engine().abort(rank.attached);
      rank.synchronize();
      return;
    }
    std::thread watchdog([&] {
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
      engine().abort(rank.attached);
    });
    const auto start = std::chrono::steady_clock::now();
    EXPECT_EQ(engine().run(made.calls().data(), 1), kSuccess);
    // A new class: this one waits for what the first one tells.
    EXPECT_EQ(engine().run(made.calls().data(), 1), kRemoteError);
    EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(10));
    watchdog.join();
    EXPECT_EQ(engine().asyncError(rank.attached, kSuccess), kRemoteError);
    EXPECT_NE(std::string(engine().lastError(rank.attached)).find("aborted"), std::string::npos);
    EXPECT_EQ(engine().run(made.calls().data(), 1), kRemoteError);
    isOver = true;
    rank.synchronize();
  });
}

TEST_F(NcclEngine, CommunicatorsOfOneStreamKeepItsOrder) {
  const std::uint64_t seed = random_();
  onRanks(3, [&](Rank& rank) {
    Rank other = rank;
    ASSERT_EQ(ncclCommSplit(rank.comm, 0, rank.rank, &other.comm, nullptr), kSuccess);
    engine().attach(&fakeNcclApi(), &other.comm, 1, &other.attached);
    for (int repeat = 0; repeat < 4; ++repeat) {
      TestCall test;
      test.kind = repeat % 2 == 0 ? zipcclNcclAllGather : zipcclNcclReduceScatter;
      test.count = 100'000;  // several rounds
      test.contents = {Content::kGaussian, Content::kManyEscapes};
      test.seed = seed + static_cast<unsigned>(repeat);
      const Made first(test, rank);
      test.seed ^= 1U << 20;
      const Made second(test, other);
      std::vector<zipcclNcclCall> calls = first.calls();
      calls.insert(calls.end(), second.calls().begin(), second.calls().end());
      if (rank.rank == repeat % 3) {
        EXPECT_EQ(engine().run(calls.data(), calls.size()), kSuccess);
      } else {
        for (const zipcclNcclCall& call : calls) EXPECT_EQ(engine().run(&call, 1), kSuccess);
      }
      rank.synchronize();
      first.check();
      second.check();
    }
    engine().detach(other.attached);
    EXPECT_EQ(ncclCommDestroy(other.comm), kSuccess);
  });
}

TEST_F(NcclEngine, AStreamIsAnothersOnceAllCallsAreOnIt) {
  const std::uint64_t seed = random_();
  onRanks(2, [&](Rank& rank) {
    std::array<Rank, 3> ranks = {rank, rank, rank};
    for (std::size_t i = 1; i < ranks.size(); ++i) {
      ASSERT_EQ(ncclCommSplit(rank.comm, 0, rank.rank, &ranks[i].comm, nullptr), kSuccess);
      engine().attach(&fakeNcclApi(), &ranks[i].comm, 1, &ranks[i].attached);
    }
    std::vector<std::unique_ptr<Made>> made;
    std::vector<zipcclNcclCall> calls;
    const auto add = [&](const Rank& of, zipcclNcclKind kind, Datatype datatype) {
      TestCall test;
      test.kind = kind;
      test.count = 20'000;
      test.datatype = datatype;
      test.seed = seed + made.size();
      made.push_back(std::make_unique<Made>(test, of));
      for (const zipcclNcclCall& call : made.back()->calls()) calls.push_back(call);
    };
    add(ranks[0], zipcclNcclAllGather, Datatype::kBfloat16);
    add(ranks[0], zipcclNcclAllGather, Datatype::kInt32);
    add(ranks[1], zipcclNcclAllGather, Datatype::kInt32);
    add(ranks[2], zipcclNcclSend, Datatype::kBfloat16);
    // Rank 0 has one stream for all of them. On rank 1 the second call, which comes in a later
    // round than the third, must be on its stream before that waits for messages which are encoded
    // behind the third.
    const fakeStream_t third = fakeStreamCreate();
    for (std::size_t i = 1; i < calls.size() && rank.rank == 1; ++i) {
      const bool isWithSecond = i == 1 || calls[i].kind == zipcclNcclSend;
      calls[i].stream = isWithSecond ? rank.streams[1] : third;
    }
    EXPECT_EQ(engine().run(calls.data(), calls.size()), kSuccess);
    rank.synchronize();
    fakeStreamSynchronize(third);
    for (const auto& each : made) each->check();
    fakeStreamDestroy(third);
    for (std::size_t i = 1; i < ranks.size(); ++i) {
      expectNoError(ranks[i]);
      engine().detach(ranks[i].attached);
      EXPECT_EQ(ncclCommDestroy(ranks[i].comm), kSuccess);
    }
  });
}

TEST_F(NcclEngine, MessagesAloneFitThoseOfGroups) {
  const std::uint64_t seed = random_();
  onRanks(2, [&](Rank& rank) {
    for (int repeat = 0; repeat < 12; ++repeat) {
      TestCall test;
      test.kind = zipcclNcclSend;
      test.count = 50'000;
      test.contents = {Content::kGaussian, Content::kRandomBits};
      test.seed = seed + static_cast<unsigned>(repeat);
      const Made made(test, rank);
      std::vector<zipcclNcclCall> own;
      std::vector<zipcclNcclCall> others;
      for (const zipcclNcclCall& call : made.calls()) {
        (call.peer == rank.rank ? own : others).push_back(call);
      }
      EXPECT_EQ(engine().run(own.data(), own.size()), kSuccess);
      if (rank.rank == repeat % 2) {
        EXPECT_EQ(engine().run(others.data(), others.size()), kSuccess);
      } else {
        // First what the peer sends, or the two would wait for each other.
        std::sort(others.begin(), others.end(), [](const auto& a, const auto& b) {
          return a.kind == zipcclNcclRecv && b.kind != zipcclNcclRecv;
        });
        for (zipcclNcclCall& call : others) {
          call.isGrouped = 0;
          const bool isSend = call.kind == zipcclNcclSend;
          EXPECT_EQ(engine().wants(&call), 1);
          EXPECT_EQ(engine().wants(&call) != 0 ? engine().run(&call, 1)
                    : isSend ? ncclSend(call.sendbuff, call.count, call.datatype, call.peer,
                                        call.comm, call.stream)
                             : ncclRecv(call.recvbuff, call.count, call.datatype, call.peer,
                                        call.comm, call.stream),
                    kSuccess);
        }
      }
      rank.synchronize();
      made.check();
      expectNoError(rank);
    }
  });
}

// With NCCL the messages of a group do not wait for each other: rank 1 needs both of its own before
// it sends what rank 2 receives first, and only then does rank 2 take the third of the group.
TEST_F(NcclEngine, MessagesOfAGroupDoNotWaitForEachOther) {
  constexpr std::uint64_t kCount = 40'000;
  constexpr std::uint64_t kBytes = kCount * 2;
  const std::uint64_t seed = random_();
  onRanks(3, [&](Rank& rank) {
    const auto message = [&](zipcclNcclKind kind, int peer, std::byte* buffer) {
      zipcclNcclCall call{};
      call.kind = kind;
      call.count = kCount;
      call.datatype = static_cast<int>(Datatype::kBfloat16);
      call.peer = peer;
      call.comm = rank.comm;
      call.attached = rank.attached;
      call.stream = rank.streams[0];
      if (kind == zipcclNcclSend) call.sendbuff = buffer;
      if (kind == zipcclNcclRecv) call.recvbuff = buffer;
      return call;
    };
    for (std::uint64_t repeat = 0; repeat < 20; ++repeat) {
      const std::uint64_t pairCount = 2 + repeat % 9;
      const auto content = [&](std::uint64_t number) {
        const Content kind = (repeat + number) % 5 == 0 ? Content::kRandomBits : Content::kGaussian;
        return makeShard(seed + 100 * repeat + number, 0, Datatype::kBfloat16, kCount, kind);
      };
      std::vector<Buffer> buffers;
      for (std::uint64_t i = 0; i < pairCount + 2; ++i) buffers.emplace_back(kBytes, 0);
      const std::uint64_t last = pairCount;       // from 0 to 2
      const std::uint64_t other = pairCount + 1;  // from 1 to 2
      std::vector<std::uint64_t> received;
      const auto run = [&](const std::vector<zipcclNcclCall>& calls) {
        EXPECT_EQ(engine().run(calls.data(), calls.size()), kSuccess);
      };
      if (rank.rank == 0) {
        std::vector<zipcclNcclCall> group;
        for (std::uint64_t i = 0; i <= pairCount; ++i) {
          buffers[i].put(0, content(i));
          group.push_back(message(zipcclNcclSend, i < pairCount ? 1 : 2, buffers[i].data()));
          group.back().isGrouped = 1;
        }
        run(group);
      } else if (rank.rank == 1) {
        for (std::uint64_t i = 0; i < pairCount; ++i) {
          run({message(zipcclNcclRecv, 0, buffers[i].data())});
          received.push_back(i);
        }
        buffers[other].put(0, content(other));
        run({message(zipcclNcclSend, 2, buffers[other].data())});
      } else {
        run({message(zipcclNcclRecv, 1, buffers[other].data())});
        run({message(zipcclNcclRecv, 0, buffers[last].data())});
        received = {other, last};
      }
      rank.synchronize();
      for (const std::uint64_t number : received) {
        buffers[number].expect(content(number), "message " + std::to_string(number));
      }
      expectNoError(rank);
    }
  });
}

// Each rank learns of earlier messages in its own time, which must not decide what shares a round:
// messages that one rank leaves to its next round would be waited for in the round before it.
TEST_F(NcclEngine, GroupsOfMessagesMayBeQueuedOneBehindTheOther) {
  for (const std::size_t mostMessages : {std::size_t{12}, std::size_t{45}}) {
    const std::uint64_t seed = random_();
    onRanks(2, [&](Rank& rank) {
      Random random(seed);  // the same on both ranks
      std::vector<std::unique_ptr<Made>> made;
      for (unsigned group = 0; group < (kIsSanitized ? 3U : 8U); ++group) {
        std::vector<zipcclNcclCall> calls;
        const std::size_t messages = random.between(1, mostMessages);
        for (std::size_t i = 0; i < messages; ++i) {
          TestCall test;
          test.kind = zipcclNcclSend;
          test.count = 60'000;
          test.contents = {random.chance(0.2) ? Content::kManyEscapes : Content::kGaussian};
          test.datatype = random.chance(0.1) ? Datatype::kUint8 : Datatype::kBfloat16;
          test.seed = random();
          made.push_back(std::make_unique<Made>(test, rank));
          const std::vector<zipcclNcclCall>& its = made.back()->calls();
          calls.insert(calls.end(), its.begin(), its.end());
        }
        EXPECT_EQ(engine().run(calls.data(), calls.size()), kSuccess);
      }
      rank.synchronize();
      for (const auto& each : made) each->check();
      expectNoError(rank);
    });
  }
}

TEST_F(NcclEngine, WhatOneRankPassesAloneDecidesNothing) {
  constexpr zipcclNcclKind kKinds[] = {zipcclNcclBroadcast, zipcclNcclGather, zipcclNcclScatter,
                                       zipcclNcclSend};
  onRanks(2, [&](Rank& rank) {
    for (const zipcclNcclKind kind : kKinds) {
      TestCall test;
      test.kind = kind;
      test.count = 20'000;
      test.seed = 11;
      const Made made(test, rank);
      std::vector<zipcclNcclCall> calls = made.calls();
      int window = 0;
      if (rank.rank == 0) {
        // The root's large buffer, or all messages that it sends.
        for (const zipcclNcclCall& call : calls) {
          const void* const buffer = kind == zipcclNcclGather ? call.recvbuff : call.sendbuff;
          if (buffer == nullptr || call.peer != (kind == zipcclNcclSend ? 1 : 0)) continue;
          engine().windowRegistered(rank.attached, const_cast<void*>(buffer), 64, &window);
        }
      }
      EXPECT_EQ(engine().run(calls.data(), calls.size()), kSuccess);
      rank.synchronize();
      made.check();
      engine().windowDeregistered(rank.attached, &window);
    }
  });
}

TEST_F(NcclEngine, ARankMayLeaveBeforeOthersTookItsParts) {
  const std::uint64_t seed = random_();
  onRanks(2, [&](Rank& rank) {
    TestCall test;
    test.kind = zipcclNcclSend;
    test.count = 20'000;  // its static part fits what NCCL keeps for a receiver
    test.contents = {Content::kRandomBits};
    test.seed = seed;
    const Made made(test, rank);
    std::vector<zipcclNcclCall> calls;
    for (const zipcclNcclCall& call : made.calls()) {
      const bool isToLeave = call.kind == (rank.rank == 0 ? zipcclNcclSend : zipcclNcclRecv);
      if (call.peer == 1 - rank.rank && isToLeave) calls.push_back(call);
    }
    if (rank.rank == 1) std::this_thread::sleep_for(std::chrono::milliseconds(1500));
    EXPECT_EQ(engine().run(calls.data(), calls.size()), kSuccess);
    rank.synchronize();
    if (rank.rank == 0) return;  // detaches, and destroys its communicator
    const Shard sent = test.part(0, 1, test.messageCount(0, 1));
    EXPECT_EQ(std::memcmp(calls[0].recvbuff, sent.data(), sent.size()), 0);
    expectNoError(rank);
  });
}

TEST_F(NcclEngine, FortyRanksWithSmallCountsDeliverEveryBit) {
  constexpr int kRanks = kIsSanitized ? 12 : 40;
  std::vector<TestCall> tests;
  for (const zipcclNcclKind kind : {zipcclNcclAllGather, zipcclNcclAllReduce, zipcclNcclAlltoAll,
                                    zipcclNcclReduceScatter, zipcclNcclSend, zipcclNcclBroadcast}) {
    TestCall test = randomCall(kRanks);
    test.kind = kind;
    test.datatype = Datatype::kBfloat16;
    test.reduction = {};
    // Of an AllReduce two ranks have a part, and the others none.
    test.count = kind == zipcclNcclAllReduce ? 1025 : 1 + random_.below(2000);
    tests.push_back(test);
  }
  fakeSetJitterUs(0);
  onRanks(kRanks, [&](Rank& rank) {
    ASSERT_NE(rank.attached, nullptr);
    for (const TestCall& test : tests) {
      runGroup(rank, {test});
      if (::testing::Test::HasFatalFailure()) return;
    }
  });
}

TEST_F(NcclEngine, SoakOfRandomGroupsKeepsItsMemory) {
  constexpr int kRanks = 3;
  const std::uint64_t rounds = repeats(kIsSanitized ? 2 : 4, 400);
  const auto residentBytes = [] {
    std::ifstream file("/proc/self/statm");
    std::uint64_t pages = 0, resident = 0;
    file >> pages >> resident;
    return resident * 4096;
  };
  std::atomic<std::uint64_t> settled = 0;
  std::vector<std::vector<std::vector<TestCall>>> groups(rounds);
  for (auto& round : groups) {
    round.resize(12);
    for (auto& group : round) {
      group.resize(1 + random_.below(4));
      for (TestCall& test : group) test = randomCall(kRanks);
    }
  }
  onRanks(kRanks, [&](Rank& rank) {
    for (std::uint64_t round = 0; round < rounds; ++round) {
      for (const auto& group : groups[round]) {
        runGroup(rank, group);
        if (::testing::Test::HasFailure()) return;
      }
      if (rank.rank == 0 && round == rounds / 2) settled = residentBytes();
    }
  });
  constexpr std::uint64_t kNoise = std::uint64_t{64} << 20;
  if (!kIsSanitized) {
    EXPECT_LT(residentBytes(), settled + kNoise);
  }
}

// -------------------------------------------------------------------------------------------------

// Ranks as processes: this program again, told by its environment what to play.

/// A message from rank 1 to rank 0 of which much is a dynamic part.
struct OneMessage {
  explicit OneMessage(const Rank& ofRank, std::uint64_t count) : rank(ofRank) {
    TestCall test;
    test.count = count;
    test.contents = {Content::kRandomBits};
    content = test.part(1, 0, count);
    buffer = rank.rank == 1 ? content : Shard(content.size());
    call.kind = rank.rank == 1 ? zipcclNcclSend : zipcclNcclRecv;
    call.isGrouped = 1;
    call.sendbuff = buffer.data();
    call.recvbuff = buffer.data();
    call.count = count;
    call.datatype = static_cast<int>(Datatype::kBfloat16);
    call.peer = 1 - rank.rank;
    call.comm = rank.comm;
    call.attached = rank.attached;
    call.stream = rank.streams[0];
  }
  [[nodiscard]] int run() const { return engine().run(&call, 1); }
  [[nodiscard]] bool isRight() const { return buffer == content; }

  Rank rank;
  Shard content;
  Shard buffer;
  zipcclNcclCall call{};
};

int playExitWithoutDestroy(const Rank& rank) {
  const OneMessage message(rank, 20'000);
  if (rank.rank == 0) std::this_thread::sleep_for(std::chrono::milliseconds(500));
  if (message.run() != kSuccess) return 2;
  rank.synchronize();
  return message.isRight() && engine().asyncError(rank.attached, kSuccess) == kSuccess ? 0 : 3;
}

/// Whoever is left has all of the message, or an error, or is freed by an abort.
int playKilledPeer(const Rank& rank) {
  const OneMessage message(rank, 600'000);
  if (rank.rank == 1) {
    std::thread([] {
      std::this_thread::sleep_for(std::chrono::microseconds(freshSeed() % 20'000));
      ::kill(::getpid(), SIGKILL);
    }).detach();
  }
  const int result = message.run();
  for (int wait = 0; wait < 100 && fakeStreamIsIdle(rank.streams[0]) == 0; ++wait) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  const int error = engine().asyncError(rank.attached, result);
  if (error == kSuccess && fakeStreamIsIdle(rank.streams[0]) != 0) {
    return message.isRight() ? 0 : 4;
  }
  engine().abort(rank.attached);
  ncclCommAbort(rank.comm);
  rank.synchronize();
  engine().detach(rank.attached);
  return message.run() == kSuccess ? 5 : 0;
}

int playFork(const Rank& rank) {
  for (int repeat = 0; repeat < 2; ++repeat) {
    const OneMessage message(rank, 20'000);
    if (message.run() != kSuccess) return 2;
    rank.synchronize();
    if (!message.isRight()) return 3;
    const pid_t child = ::fork();
    if (child == 0) {
      ::alarm(20);
      std::exit(0);
    }
    int status = 0;
    if (::waitpid(child, &status, 0) != child || !WIFEXITED(status)) return 4;
  }
  engine().detach(rank.attached);
  return ncclCommDestroy(rank.comm) == kSuccess ? 0 : 5;
}

int play(const PlayedRank& played) {
  Rank rank{.rank = played.rank, .count = played.count};
  fakeSetDevice(rank.rank);
  if (ncclCommInitRank(&rank.comm, rank.count, played.id, rank.rank) != kSuccess) return 10;
  engine().attach(&fakeNcclApi(), &rank.comm, 1, &rank.attached);
  if (rank.attached == nullptr) return 11;
  for (fakeStream_t& stream : rank.streams) stream = fakeStreamCreate();
  if (played.scene == "exit") return playExitWithoutDestroy(rank);
  if (played.scene == "kill") return playKilledPeer(rank);
  return played.scene == "fork" ? playFork(rank) : 12;
}

class Player : public ::testing::Environment {
  void SetUp() override {
    if (const std::optional<PlayedRank> played = playedRank()) std::exit(play(*played));
  }
};
const auto* const kPlayer = ::testing::AddGlobalTestEnvironment(new Player);

const std::vector<int> kBothEndWell{0, 0};

TEST(NcclEngineProcesses, MayExitWithTheirCommunicators) {
  for (int repeat = 0; repeat < 3; ++repeat) {
    EXPECT_EQ(playInProcesses("exit", 2), kBothEndWell) << "exit status * 256";
  }
}

TEST(NcclEngineProcesses, AreFreedOfAKilledPeer) {
  for (int repeat = 0; repeat < 4; ++repeat) {
    EXPECT_EQ(playInProcesses("kill", 2)[0], 0) << "exit status * 256";
  }
}

TEST(NcclEngineProcesses, MayFork) {
  EXPECT_EQ(playInProcesses("fork", 2), kBothEndWell) << "exit status * 256";
}

}  // namespace
}  // namespace zipccl::testing
