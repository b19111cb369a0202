// SPDX-License-Identifier: Apache-2.0
//
// Communicators of the C API over those of NCCL (zipccl/zipccl_nccl.h), on a fake NCCL: ranks are
// threads, streams are asynchronous, and what arrives is compared bit for bit. Compiled once more
// against an NCCL that lacks what came with 2.28.

#include <gtest/gtest.h>
#include <zipccl/zipccl_nccl.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "collectives/reference_reduction.hpp"
#include "collectives/tensors.hpp"
#include "fake_nccl.h"
#include "fake_nccl_fixture.hpp"
#include "nccl_calls.h"

namespace zipccl::testing {
namespace {

using collectives::Datatype;
using collectives::elementBytes;
using collectives::ReduceOp;
using collectives::testing::Content;
using collectives::testing::kAllContents;
using collectives::testing::makeShard;
using collectives::testing::referenceReduction;
using collectives::testing::Shard;

constexpr int kNcclSuccess = 0;
constexpr std::byte kPoison{0xA5};

enum class Kind {
  kAllGather,
  kAlltoAll,
  kAlltoAllv,
  kReduceScatter,
  kAllReduce,
  kBroadcast,
  kGather,
  kScatter,
  kSendRecv,  ///< a message for each ordered pair, to oneself too
};
constexpr Kind kAllKinds[] = {Kind::kAllGather,     Kind::kAlltoAll,  Kind::kAlltoAllv,
                              Kind::kReduceScatter, Kind::kAllReduce, Kind::kBroadcast,
                              Kind::kGather,        Kind::kScatter,   Kind::kSendRecv};

/// One rank's end, in its thread.
struct Rank {
  int rank = 0;
  int count = 0;
  void* nccl = nullptr;
  zipcclComm_t comm = nullptr;
  fakeStream_t stream = nullptr;

  [[nodiscard]] std::size_t own() const { return static_cast<std::size_t>(rank); }
};

zipcclConfig_t configOf(zipcclStrategy_t strategy) {
  zipcclConfig_t config = ZIPCCL_CONFIG_INITIALIZER;
  config.strategy = strategy;
  config.maxScratchBytes = 1 << 20;
  config.timeoutMs = 5000;
  return config;
}

ncclComm* handleOf(const Rank& rank) { return static_cast<ncclComm*>(rank.nccl); }

/// A buffer between poisoned bytes, poisoned itself.
class Buffer {
 public:
  explicit Buffer(std::size_t bytes) : memory_(bytes + 2 * kGuard, kPoison), bytes_(bytes) {}
  explicit Buffer(const Shard& content) : Buffer(content.size()) { put(0, content); }

  [[nodiscard]] std::byte* at(std::size_t offset = 0) { return memory_.data() + kGuard + offset; }
  void put(std::size_t offset, const Shard& content) {
    std::copy(content.begin(), content.end(), at(offset));
  }
  void expect(const Shard& content, const std::string& what) {
    ASSERT_EQ(content.size(), bytes_) << what;
    for (std::size_t i = 0; i < bytes_; ++i) {
      ASSERT_EQ(*at(i), content[i]) << what << ": byte " << i << " of " << bytes_;
    }
    EXPECT_TRUE(*(at() - 1) == kPoison && *at(bytes_) == kPoison) << what << " wrote beside";
  }

 private:
  static constexpr std::size_t kGuard = 64;

  std::vector<std::byte> memory_;
  std::size_t bytes_;
};

/// What all ranks know of a call.
struct Spec {
  Kind kind = Kind::kAllGather;
  Datatype datatype = Datatype::kBfloat16;
  std::size_t count = 30'000;
  std::vector<Content> contents{Content::kGaussian};  ///< of ranks 0, 1, ..., and again
  ReduceOp op = ReduceOp::kSum;
  int root = 0;
  bool isInPlace = false;
  std::uint64_t seed = 1;

  [[nodiscard]] std::size_t bytes() const { return count * elementBytes(datatype); }
  /// Of uneven exchanges: also nothing, and more than `count`.
  [[nodiscard]] std::size_t messageCount(int from, int to) const {
    return count * static_cast<std::size_t>((3 * from + 5 * to) % 4) / 2;
  }
  [[nodiscard]] Shard part(int from, int to, std::size_t elements) const {
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

/// A call of one rank, with its buffers and what must be in them.
class Prepared {
 public:
  Prepared(const Spec& spec, const Rank& rank) : spec_(spec), rank_(rank) {
    std::vector<Shard> parts;
    switch (spec.kind) {
      case Kind::kAllGather:
      case Kind::kGather:
        for (int r = 0; r < rank.count; ++r) parts.push_back(spec.part(r, 0, spec.count));
        if (spec.kind == Kind::kAllGather || rank.rank == spec.root) {
          setBuffers(parts[rank.own()], joined(parts), rank.own() * spec.bytes());
        } else {
          setBuffers(parts[rank.own()], {});
        }
        break;
      case Kind::kBroadcast:
        setBuffers(spec.part(rank.rank, 0, spec.count), spec.part(spec.root, 0, spec.count), 0);
        break;
      case Kind::kScatter:
        for (int r = 0; r < rank.count; ++r) parts.push_back(spec.part(spec.root, r, spec.count));
        setBuffers(rank.rank == spec.root ? joined(parts) : Shard{}, parts[rank.own()]);
        break;
      case Kind::kAlltoAll: {
        std::vector<Shard> out;
        for (int r = 0; r < rank.count; ++r) {
          out.push_back(spec.part(rank.rank, r, spec.count));
          parts.push_back(spec.part(r, rank.rank, spec.count));
        }
        setBuffers(joined(out), joined(parts));
        break;
      }
      case Kind::kAlltoAllv:
      case Kind::kSendRecv:
        setUneven();
        break;
      case Kind::kReduceScatter:
      case Kind::kAllReduce:
        setReduction();
        break;
    }
  }

  [[nodiscard]] zipcclResult_t call() {
    const auto datatype = static_cast<zipcclDataType_t>(spec_.datatype);
    const auto op = static_cast<zipcclRedOp_t>(spec_.op);
    const zipcclComm_t comm = rank_.comm;
    void* const stream = rank_.stream;
    switch (spec_.kind) {
      case Kind::kAllGather:
        return zipcclAllGather(send_, receive_, spec_.count, datatype, comm, stream);
      case Kind::kAlltoAll:
        return zipcclAlltoAll(send_, receive_, spec_.count, datatype, comm, stream);
      case Kind::kAlltoAllv:
        return zipcclAlltoAllv(send_, sendCounts_.data(), sendPlaces_.data(), receive_,
                               receiveCounts_.data(), receivePlaces_.data(), datatype, comm,
                               stream);
      case Kind::kReduceScatter:
        return zipcclReduceScatter(send_, receive_, spec_.count, datatype, op, comm, stream);
      case Kind::kAllReduce:
        return zipcclAllReduce(send_, receive_, spec_.count, datatype, op, comm, stream);
      case Kind::kBroadcast:
        return zipcclBroadcast(send_, receive_, spec_.count, datatype, spec_.root, comm, stream);
      case Kind::kGather:
        return zipcclGather(send_, receive_, spec_.count, datatype, spec_.root, comm, stream);
      case Kind::kScatter:
        return zipcclScatter(send_, receive_, spec_.count, datatype, spec_.root, comm, stream);
      case Kind::kSendRecv:
        break;
    }
    EXPECT_EQ(zipcclGroupStart(), zipcclSuccess);
    for (int r = 0; r < rank_.count; ++r) {
      const auto at = static_cast<std::size_t>(r);
      const std::size_t bytesEach = elementBytes(spec_.datatype);
      EXPECT_EQ(zipcclSend(send_ + sendPlaces_[at] * bytesEach, sendCounts_[at], datatype, r, comm,
                           stream),
                zipcclSuccess);
      EXPECT_EQ(zipcclRecv(receive_ + receivePlaces_[at] * bytesEach, receiveCounts_[at], datatype,
                           r, comm, stream),
                zipcclSuccess);
    }
    return zipcclGroupEnd();
  }

  /// Once the stream has come to its end.
  void check() {
    const std::string what = "rank " + std::to_string(rank_.rank) + ", kind " +
                             std::to_string(static_cast<int>(spec_.kind)) + ", count " +
                             std::to_string(spec_.count) + ", datatype " +
                             std::to_string(static_cast<int>(spec_.datatype));
    out_->expect(output_, what);
    if (in_) in_->expect(input_, what + ", the input");
  }

 private:
  /// `inPlaceAt`: where the input stands in the output, if the call has such a form.
  void setBuffers(const Shard& input, const Shard& output, std::size_t inPlaceAt = kNowhere) {
    output_ = output;
    out_ = std::make_unique<Buffer>(output.size());
    receive_ = out_->at();
    if (spec_.isInPlace && inPlaceAt != kNowhere) {
      out_->put(inPlaceAt, input);
      send_ = out_->at(inPlaceAt);
      return;
    }
    input_ = input;
    in_ = std::make_unique<Buffer>(input);
    send_ = in_->at();
  }

  void setReduction() {
    const auto ranks = static_cast<std::size_t>(rank_.count);
    const bool isAll = spec_.kind == Kind::kAllReduce;
    std::vector<Shard> addends;
    for (int r = 0; r < rank_.count; ++r) {
      addends.push_back(spec_.part(r, 0, spec_.count * (isAll ? 1 : ranks)));
    }
    const Shard sum = referenceReduction(spec_.datatype, {.op = spec_.op}, addends);
    const Shard& own = addends[rank_.own()];
    if (isAll) {
      setBuffers(own, sum, 0);
      return;
    }
    const auto at = static_cast<std::ptrdiff_t>(rank_.own() * spec_.bytes());
    const Shard part(sum.begin() + at,
                     sum.begin() + at + static_cast<std::ptrdiff_t>(spec_.bytes()));
    if (!spec_.isInPlace) {
      setBuffers(own, part);
      return;
    }
    out_ = std::make_unique<Buffer>(own);
    output_ = own;
    std::copy(part.begin(), part.end(), output_.begin() + at);
    send_ = out_->at();
    receive_ = out_->at(static_cast<std::size_t>(at));
  }

  /// Parts with gaps between them, which must stay as they are.
  void setUneven() {
    constexpr std::size_t kGap = 5;
    const std::size_t bytesEach = elementBytes(spec_.datatype);
    const Shard gap(kGap * bytesEach, kPoison);
    std::vector<Shard> in, out;
    std::size_t sent = 0;
    std::size_t received = 0;
    for (int r = 0; r < rank_.count; ++r) {
      sendCounts_.push_back(spec_.messageCount(rank_.rank, r));
      receiveCounts_.push_back(spec_.messageCount(r, rank_.rank));
      sendPlaces_.push_back(sent);
      receivePlaces_.push_back(received);
      sent += sendCounts_.back() + kGap;
      received += receiveCounts_.back() + kGap;
      in.insert(in.end(), {spec_.part(rank_.rank, r, sendCounts_.back()), gap});
      out.insert(out.end(), {spec_.part(r, rank_.rank, receiveCounts_.back()), gap});
    }
    setBuffers(joined(in), joined(out));
  }

  static constexpr std::size_t kNowhere = ~std::size_t{0};

  Spec spec_;
  Rank rank_;
  std::unique_ptr<Buffer> in_;  ///< null in place
  std::unique_ptr<Buffer> out_;
  Shard input_;
  Shard output_;
  std::byte* send_ = nullptr;
  std::byte* receive_ = nullptr;
  std::vector<std::size_t> sendCounts_, sendPlaces_, receiveCounts_, receivePlaces_;
};

std::uint64_t callsOf(const zipcclCommStats_t& stats) { return stats.calls; }

zipcclCommStats_t statsOf(const Rank& rank) {
  zipcclCommStats_t stats = ZIPCCL_COMM_STATS_INITIALIZER;
  EXPECT_EQ(zipcclCommGetStats(rank.comm, &stats), zipcclSuccess) << zipcclGetLastError(nullptr);
  return stats;
}

class NcclComm : public FakeNcclTest<50> {
 protected:
  /// Runs `work` for each rank of communicators of NCCL, in a thread of its own.
  static void onNccl(int ranks, const std::function<void(Rank&)>& work) {
    onFakeRanks(ranks, [&](int number, void* comm) {
      Rank rank{.rank = number, .count = ranks, .nccl = comm};
      rank.stream = fakeStreamCreate();
      work(rank);
      fakeStreamDestroy(rank.stream);
    });
  }

  /// The same with communicators of ZipCCL over them.
  static void onRanks(int ranks, zipcclStrategy_t strategy,
                      const std::function<void(Rank&)>& work) {
    onNccl(ranks, [&](Rank& rank) {
      const zipcclConfig_t config = configOf(strategy);
      ASSERT_EQ(zipcclCommInitNccl(&rank.comm, handleOf(rank), &config), zipcclSuccess)
          << zipcclGetLastError(nullptr);
      work(rank);
      EXPECT_EQ(zipcclCommDestroy(rank.comm), zipcclSuccess) << zipcclGetLastError(nullptr);
    });
  }

  /// All calls, in a group if there are several.
  static void run(const Rank& rank, const std::vector<Spec>& specs) {
    std::vector<std::unique_ptr<Prepared>> calls;
    for (const Spec& spec : specs) calls.push_back(std::make_unique<Prepared>(spec, rank));
    if (specs.size() > 1) {
      EXPECT_EQ(zipcclGroupStart(), zipcclSuccess);
    }
    for (const auto& call : calls) {
      EXPECT_EQ(call->call(), zipcclSuccess) << zipcclGetLastError(rank.comm);
    }
    if (specs.size() > 1) {
      EXPECT_EQ(zipcclGroupEnd(), zipcclSuccess) << zipcclGetLastError(nullptr);
    }
    fakeStreamSynchronize(rank.stream);
    for (const auto& call : calls) call->check();
    zipcclResult_t error = zipcclInternalError;
    EXPECT_EQ(zipcclCommGetAsyncError(rank.comm, &error), zipcclSuccess);
    EXPECT_EQ(error, zipcclSuccess) << zipcclGetLastError(rank.comm);
  }

  Spec randomSpec(int ranks) {
    static constexpr Datatype kCoded[] = {Datatype::kBfloat16, Datatype::kFloat16,
                                          Datatype::kFloat32};
    static constexpr std::size_t kCounts[] = {0, 1, 2, 31, 1023, 1024, 1025, 8192};
    Spec spec;
    spec.kind = kAllKinds[random_.below(std::size(kAllKinds))];
    spec.datatype = kCoded[random_.below(std::size(kCoded))];
    const bool isReduction = spec.kind == Kind::kReduceScatter || spec.kind == Kind::kAllReduce;
    if (!isReduction && random_.below(8) == 0) spec.datatype = Datatype::kUint8;
    if (isReduction && random_.chance(0.5)) spec.op = ReduceOp::kAvg;
    spec.count =
        random_.below(2) == 0 ? kCounts[random_.below(std::size(kCounts))] : random_.below(40'000);
    spec.contents.clear();
    for (int rank = 0; rank < ranks; ++rank) {
      spec.contents.push_back(kAllContents[random_.below(std::size(kAllContents))]);
    }
    spec.isInPlace = random_.chance(0.5);
    spec.root = static_cast<int>(random_.below(static_cast<std::uint64_t>(ranks)));
    spec.seed = random_();
    return spec;
  }
};

TEST_F(NcclComm, EveryCollectiveDeliversEveryBit) {
  for (const int ranks : {2, 3}) {
    const std::uint64_t seed = random_();
    onRanks(ranks, zipcclStrategyStaged, [&](Rank& rank) {
      std::uint64_t state = seed;
      for (const Kind kind : kAllKinds) {
        const std::uint64_t before = statsOf(rank).stagedCalls;
        for (const bool isInPlace : {false, true}) {
          Spec spec;
          spec.kind = kind;
          spec.contents = {Content::kGaussian, Content::kManyEscapes};
          spec.root = ranks - 1;
          spec.isInPlace = isInPlace;
          spec.seed = splitMix64(state);
          run(rank, {spec});
        }
        EXPECT_EQ(statsOf(rank).stagedCalls, before + 2) << static_cast<int>(kind);
      }
      EXPECT_EQ(statsOf(rank).nativeCalls, 0U);
    });
  }
}

TEST_F(NcclComm, RandomGroupsDeliverEveryBit) {
  constexpr int kGroups = 20;
  for (const zipcclStrategy_t strategy : {zipcclStrategyStaged, zipcclStrategyAuto}) {
    // Two ranks: there native reductions have the same bits.
    const int ranks = strategy == zipcclStrategyStaged ? 3 : 2;
    std::vector<std::vector<Spec>> groups(kGroups);
    for (std::vector<Spec>& group : groups) {
      group.resize(1 + random_.below(3));
      for (Spec& spec : group) spec = randomSpec(ranks);
    }
    onRanks(ranks, strategy, [&](Rank& rank) {
      for (const std::vector<Spec>& group : groups) {
        run(rank, group);
        if (::testing::Test::HasFatalFailure()) return;
      }
    });
  }
}

TEST_F(NcclComm, OneThreadMayHaveAllRanks) {
  constexpr int kRanks = 3;
  void* nccl[kRanks] = {};
  ASSERT_EQ(ncclCommInitAll(nccl, kRanks, nullptr), kNcclSuccess);
  ncclComm* handles[kRanks];
  std::copy_n(reinterpret_cast<ncclComm**>(nccl), kRanks, handles);
  zipcclComm_t comms[kRanks];
  const zipcclConfig_t config = configOf(zipcclStrategyStaged);
  ASSERT_EQ(zipcclCommInitAllNccl(comms, handles, kRanks, &config), zipcclSuccess)
      << zipcclGetLastError(nullptr);
  std::vector<Rank> ranks;
  for (int number = 0; number < kRanks; ++number) {
    fakeSetDevice(number);
    ranks.push_back({.rank = number,
                     .count = kRanks,
                     .nccl = nccl[number],
                     .comm = comms[number],
                     .stream = fakeStreamCreate()});
  }
  fakeSetDevice(0);
  for (const Kind kind : kAllKinds) {
    Spec spec;
    spec.kind = kind;
    spec.seed = random_();
    std::vector<std::unique_ptr<Prepared>> calls;
    for (const Rank& rank : ranks) calls.push_back(std::make_unique<Prepared>(spec, rank));
    ASSERT_EQ(zipcclGroupStart(), zipcclSuccess);
    for (const auto& call : calls) EXPECT_EQ(call->call(), zipcclSuccess);
    ASSERT_EQ(zipcclGroupEnd(), zipcclSuccess) << zipcclGetLastError(nullptr);
    for (const Rank& rank : ranks) fakeStreamSynchronize(rank.stream);
    for (const auto& call : calls) call->check();
  }
  for (const Rank& rank : ranks) {
    EXPECT_GE(statsOf(rank).stagedCalls, std::size(kAllKinds));
    fakeStreamDestroy(rank.stream);
    EXPECT_EQ(zipcclCommDestroy(rank.comm), zipcclSuccess);
    EXPECT_EQ(ncclCommDestroy(rank.nccl), kNcclSuccess);
  }
}

TEST_F(NcclComm, TheProgramsOwnCallsStandBesideIt) {
  onRanks(2, zipcclStrategyStaged, [&](Rank& rank) {
    // What one call delivers the next one sends, in the order of the stream.
    const Spec spec{.seed = 5};
    Prepared first(spec, rank);
    const Shard mine = spec.part(rank.rank, 0, spec.count);
    Buffer in(mine), middle(2 * spec.bytes()), out(2 * spec.bytes());
    ASSERT_EQ(ncclAllGather(in.at(), middle.at(), spec.count, 9, rank.nccl, rank.stream),
              kNcclSuccess);
    ASSERT_EQ(zipcclAllGather(middle.at(rank.own() * spec.bytes()), out.at(), spec.count,
                              zipcclBfloat16, rank.comm, rank.stream),
              zipcclSuccess);
    ASSERT_EQ(ncclAllReduce(out.at(), out.at(), 2 * spec.bytes(), 1, 3, rank.nccl, rank.stream),
              kNcclSuccess);
    fakeStreamSynchronize(rank.stream);
    out.expect(joined({spec.part(0, 0, spec.count), spec.part(1, 0, spec.count)}), "out");
  });
}

TEST_F(NcclComm, SendsAndReceivesNeedNoGroup) {
  const std::uint64_t seed = random_();
  onRanks(2, zipcclStrategyStaged, [&](Rank& rank) {
    for (int repeat = 0; repeat < 6; ++repeat) {
      Spec spec{.seed = seed + static_cast<unsigned>(repeat)};
      Buffer buffer(spec.bytes());
      const Shard content = spec.part(0, 1, spec.count);
      if (rank.rank == 0) {
        buffer.put(0, content);
        EXPECT_EQ(zipcclSend(buffer.at(), spec.count, zipcclBfloat16, 1, rank.comm, rank.stream),
                  zipcclSuccess);
      } else {
        EXPECT_EQ(zipcclRecv(buffer.at(), spec.count, zipcclBfloat16, 0, rank.comm, rank.stream),
                  zipcclSuccess);
      }
      fakeStreamSynchronize(rank.stream);
      buffer.expect(content, "message");
    }
    EXPECT_EQ(statsOf(rank).stagedCalls, 6U);
  });
}

TEST_F(NcclComm, StatisticsTellWhatWent) {
  onRanks(3, zipcclStrategyAuto, [&](Rank& rank) {
    Spec spec;
    spec.datatype = Datatype::kUint8;
    spec.count = 1000;
    run(rank, {spec});
    zipcclCommStats_t stats = statsOf(rank);
    EXPECT_EQ(callsOf(stats), 1U);
    EXPECT_EQ(stats.nativeCalls, 1U);
    EXPECT_EQ(stats.inputBytes, 1000U);
    EXPECT_EQ(stats.wireBytesSent, 2000U);
    EXPECT_STREQ(stats.lastReason, "native: the datatype has no frame format");
    EXPECT_EQ(stats.compressionAgreed, 1);
  });
  onRanks(3, zipcclStrategyStaged, [&](Rank& rank) {
    Spec spec;
    spec.seed = 3;
    run(rank, {spec});
    const zipcclCommStats_t stats = statsOf(rank);
    EXPECT_EQ(stats.stagedCalls, 1U);
    EXPECT_EQ(stats.stagedInputBytes, spec.bytes());
    EXPECT_GT(stats.wireBytesSent, spec.bytes());
    EXPECT_LT(stats.wireBytesSent, 2 * spec.bytes() * 8 / 10);
    EXPECT_EQ(stats.lastStrategy, zipcclStrategyStaged);
  });
}

TEST_F(NcclComm, WhatDynamicPartsTakeIsCounted) {
  onRanks(2, zipcclStrategyStaged, [&](Rank& rank) {
    Spec spec;
    spec.contents = {Content::kRandomBits};
    spec.seed = 8;
    run(rank, {spec});
    // Random bits do not become fewer.
    EXPECT_GE(statsOf(rank).wireBytesSent, spec.bytes());
    EXPECT_EQ(statsOf(rank).dynamicCalls, 1U);
  });
}

TEST_F(NcclComm, OperationsOfProgramsAreNccls) {
  onRanks(2, zipcclStrategyStaged, [&](Rank& rank) {
    float factor = 0.5F;
    zipcclRedOp_t op = zipcclSum;
    ASSERT_EQ(zipcclRedOpCreatePreMulSum(&op, &factor, zipcclFloat32, zipcclScalarHostImmediate,
                                         rank.comm),
              zipcclSuccess)
        << zipcclGetLastError(rank.comm);
    Spec spec;
    spec.datatype = Datatype::kFloat32;
    std::vector<Shard> addends;
    for (int r = 0; r < 2; ++r) addends.push_back(spec.part(r, 0, spec.count));
    Buffer buffer(addends[rank.own()]);
    EXPECT_EQ(zipcclAllReduce(buffer.at(), buffer.at(), spec.count, zipcclFloat32, op, rank.comm,
                              rank.stream),
              zipcclSuccess)
        << zipcclGetLastError(rank.comm);
    fakeStreamSynchronize(rank.stream);
    buffer.expect(referenceReduction(spec.datatype,
                                     collectives::testing::preMulSum(spec.datatype, 0.5), addends),
                  "sum");
    EXPECT_EQ(statsOf(rank).nativeCalls, 1U);
    EXPECT_EQ(zipcclRedOpDestroy(op, rank.comm), zipcclSuccess);
    EXPECT_NE(zipcclRedOpDestroy(op, rank.comm), zipcclSuccess);
  });
}

TEST_F(NcclComm, WrongArgumentsStartNothing) {
  onRanks(2, zipcclStrategyStaged, [&](Rank& rank) {
    std::vector<std::byte> memory(64);
    EXPECT_EQ(
        zipcclBroadcast(memory.data(), memory.data(), 4, zipcclFloat32, 2, rank.comm, rank.stream),
        zipcclInvalidArgument);
    EXPECT_NE(std::string(zipcclGetLastError(rank.comm)).find("root is 2"), std::string::npos);
    EXPECT_EQ(zipcclAllGather(nullptr, memory.data(), 4, zipcclFloat32, rank.comm, rank.stream),
              zipcclInvalidArgument);
    EXPECT_EQ(
        zipcclAllGather(memory.data(), memory.data(), 4, zipcclNumTypes, rank.comm, rank.stream),
        zipcclInvalidArgument);
    EXPECT_EQ(zipcclSend(memory.data(), 4, zipcclFloat32, -1, rank.comm, rank.stream),
              zipcclInvalidArgument);
    // A group in which a call is wrong makes none.
    Spec spec;
    Prepared good(spec, rank);
    ASSERT_EQ(zipcclGroupStart(), zipcclSuccess);
    EXPECT_EQ(good.call(), zipcclSuccess);
    EXPECT_EQ(zipcclRecv(memory.data(), 4, zipcclFloat32, 7, rank.comm, rank.stream),
              zipcclInvalidArgument);
    EXPECT_EQ(zipcclGroupEnd(), zipcclInvalidArgument);
    EXPECT_EQ(callsOf(statsOf(rank)), 0U);
    run(rank, {spec});
  });
}

TEST_F(NcclComm, InitRefusesWhatIsNone) {
  zipcclComm_t comm = nullptr;
  EXPECT_EQ(zipcclCommInitNccl(&comm, nullptr, nullptr), zipcclInvalidArgument);
  ncclComm* none[1] = {nullptr};
  EXPECT_EQ(zipcclCommInitAllNccl(&comm, none, 1, nullptr), zipcclInvalidArgument);
  EXPECT_EQ(zipcclCommInitAllNccl(&comm, none, 0, nullptr), zipcclInvalidArgument);
  zipcclConfig_t config = ZIPCCL_CONFIG_INITIALIZER;
  config.checksum = 1;
  onNccl(1, [&](Rank& rank) {
    EXPECT_EQ(zipcclCommInitNccl(&comm, handleOf(rank), &config), zipcclInvalidArgument);
    EXPECT_NE(std::string(zipcclGetLastError(nullptr)).find("checksum"), std::string::npos);
  });
}

TEST_F(NcclComm, OneRankIsACommunicatorToo) {
  onRanks(1, zipcclStrategyStaged, [&](Rank& rank) {
    int count = 0;
    int own = -1;
    EXPECT_EQ(zipcclCommCount(rank.comm, &count), zipcclSuccess);
    EXPECT_EQ(zipcclCommUserRank(rank.comm, &own), zipcclSuccess);
    EXPECT_EQ(count, 1);
    EXPECT_EQ(own, 0);
    for (const Kind kind : kAllKinds) {
      Spec spec;
      spec.kind = kind;
      run(rank, {spec});
    }
    EXPECT_EQ(statsOf(rank).stagedCalls, 0U);
    EXPECT_GE(statsOf(rank).nativeCalls, 7U);  // uneven exchanges have nothing for oneself
  });
}

TEST_F(NcclComm, WhereRanksDifferEveryCallIsNative) {
  onNccl(2, [&](Rank& rank) {
    zipcclConfig_t config = configOf(zipcclStrategyStaged);
    config.minBytes = rank.rank;
    ASSERT_EQ(zipcclCommInitNccl(&rank.comm, handleOf(rank), &config), zipcclSuccess);
    run(rank, {Spec{}});
    EXPECT_EQ(statsOf(rank).compressionAgreed, 0);
    EXPECT_EQ(statsOf(rank).nativeCalls, 1U);
    EXPECT_STREQ(statsOf(rank).lastReason, "native: settings differ between ranks");
    EXPECT_EQ(zipcclCommDestroy(rank.comm), zipcclSuccess);
  });
}

TEST_F(NcclComm, AnAbortEndsAWait) {
  std::atomic<bool> isOver = false;
  onRanks(2, zipcclStrategyStaged, [&](Rank& rank) {
    Prepared first({}, rank), second({}, rank);
    if (rank.rank == 1) {
      while (!isOver) std::this_thread::sleep_for(std::chrono::milliseconds(1));
      // So that the fake library has no rank that waits for ever.
      EXPECT_EQ(first.call(), zipcclSuccess);
      EXPECT_EQ(zipcclCommAbort(rank.comm), zipcclSuccess);
      fakeStreamSynchronize(rank.stream);
      return;
    }
    std::thread watchdog([&] {
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
      EXPECT_EQ(zipcclCommAbort(rank.comm), zipcclSuccess);
    });
    EXPECT_EQ(first.call(), zipcclSuccess);
    // A new class: this one waits for what the first one tells.
    EXPECT_EQ(second.call(), zipcclRemoteError);
    watchdog.join();
    zipcclResult_t error = zipcclSuccess;
    EXPECT_EQ(zipcclCommGetAsyncError(rank.comm, &error), zipcclSuccess);
    EXPECT_EQ(error, zipcclRemoteError);
    EXPECT_NE(std::string(zipcclGetLastError(rank.comm)).find("aborted"), std::string::npos);
    EXPECT_EQ(second.call(), zipcclRemoteError);
    isOver = true;
    fakeStreamSynchronize(rank.stream);
  });
}

TEST_F(NcclComm, ErrorsOfNcclAreTold) {
  onRanks(2, zipcclStrategyStaged, [&](Rank& rank) {
    run(rank, {Spec{}});
    fakeNcclSetAsyncError(rank.nccl, zipcclRemoteError);
    zipcclResult_t error = zipcclSuccess;
    EXPECT_EQ(zipcclCommGetAsyncError(rank.comm, &error), zipcclSuccess);
    EXPECT_EQ(error, zipcclRemoteError);
    fakeNcclSetAsyncError(rank.nccl, 0);
  });
}

TEST_F(NcclComm, ASecondThreadIsRefused) {
  onRanks(2, zipcclStrategyStaged, [&](Rank& rank) {
    const Spec spec{.seed = 4};
    Prepared first(spec, rank), second(spec, rank), third(spec, rank);
    std::thread other;
    if (rank.rank == 0) {
      other = std::thread([&] {
        std::this_thread::sleep_for(std::chrono::milliseconds(100));
        Prepared call(spec, rank);
        EXPECT_EQ(call.call(), zipcclInvalidUsage);
        const std::string words = zipcclGetLastError(nullptr);
        EXPECT_NE(words.find("another thread"), std::string::npos) << words;
      });
    } else {
      // So long, rank 0 waits in its second call for what the first one brings.
      std::this_thread::sleep_for(std::chrono::milliseconds(300));
    }
    EXPECT_EQ(first.call(), zipcclSuccess);
    EXPECT_EQ(second.call(), zipcclSuccess);
    EXPECT_EQ(third.call(), zipcclSuccess);
    if (other.joinable()) other.join();
    fakeStreamSynchronize(rank.stream);
    third.check();
  });
}

}  // namespace
}  // namespace zipccl::testing
