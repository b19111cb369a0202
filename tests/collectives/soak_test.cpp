// SPDX-License-Identifier: Apache-2.0
//
// Long runs over threads: random calls of every collective on one group of ranks and on many, every
// bit verified, scratch measured where it is allocated, and no memory that grows. A run of ctest
// makes a few hundred calls; ZIPCCL_SOAK_CALLS sets another number, and with it the large counts
// become as large as they are meant to be. scripts/soak.sh makes 10^5.

#include <gtest/gtest.h>
#include <malloc.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <deque>
#include <functional>
#include <iterator>
#include <variant>
#include <vector>

#include "all_gather_check.hpp"
#include "forwarding_codec.hpp"
#include "local_group.hpp"
#include "pair_check.hpp"
#include "reduce_check.hpp"
#include "reference_reduction.hpp"
#include "rooted_check.hpp"
#include "support/seeded_test.hpp"

namespace zipccl::collectives {
namespace {

using testing::AllGatherCase;
using testing::Content;
using testing::ForwardingCodec;
using testing::kAllContents;
using testing::LocalGroup;
using testing::PairCase;
using testing::ReduceCase;
using testing::RootedCase;
using testing::testSettings;

/// Calls between two looks at the memory: one start of the ranks' threads for each.
constexpr std::uint64_t kBatch = 50;

std::uint64_t soakCalls() {
  const char* const text = std::getenv("ZIPCCL_SOAK_CALLS");
  if (text != nullptr) return std::max<std::uint64_t>(std::strtoull(text, nullptr, 10), 4 * kBatch);
  return std::max<std::uint64_t>(testing::scaled(800), 4 * kBatch);
}

bool isSoak() { return std::getenv("ZIPCCL_SOAK_CALLS") != nullptr; }

/// Bytes that the program has allocated and not freed; zero where a sanitizer keeps the books.
std::uint64_t allocatedBytes() {
  const struct mallinfo2 info = ::mallinfo2();
  return info.uordblks + info.hblkhd;
}

/// What the codec of one rank has allocated, now and at most.
struct Allocations {
  std::atomic<std::uint64_t> nowBytes = 0;
  std::atomic<std::uint64_t> mostBytes = 0;
};

class CountingCodec final : public ForwardingCodec {
 public:
  explicit CountingCodec(Allocations& allocations) : allocations_(allocations) {}

  [[nodiscard]] std::byte* allocate(std::uint64_t bytes) override {
    std::byte* const memory = ForwardingCodec::allocate(bytes);
    allocations_.nowBytes += bytes;
    allocations_.mostBytes = std::max(allocations_.mostBytes.load(), allocations_.nowBytes.load());
    return memory;
  }
  void release(std::byte* memory, std::uint64_t bytes) noexcept override {
    allocations_.nowBytes -= bytes;
    ForwardingCodec::release(memory, bytes);
  }

 private:
  Allocations& allocations_;
};

/// One call of any collective, the same on all ranks.
using Call = std::variant<AllGatherCase, PairCase, ReduceCase, RootedCase>;

void make(Communicator& communicator, const AllGatherCase& test) {
  testing::checkAllGather(communicator, test, testing::makeShards(test, communicator.rankCount()));
}
void make(Communicator& communicator, const PairCase& test) {
  testing::checkPairs(communicator, test);
}
void make(Communicator& communicator, const ReduceCase& test) {
  testing::checkReduce(communicator, test, testing::expectedResult(test, communicator.rankCount()));
}
void make(Communicator& communicator, const RootedCase& test) {
  testing::checkRooted(communicator, test);
}

class Soak : public zipccl::testing::SeededTest {
 protected:
  template <class Item, std::size_t count>
  Item any(const Item (&items)[count]) {
    return items[random_.below(count)];
  }

  std::vector<Content> anyContents() {
    std::vector<Content> contents(random_.between(1, 3));
    for (Content& content : contents) content = any(kAllContents);
    return contents;
  }

  std::uint64_t anyCount() {
    return random_.below(std::uint64_t{1} << random_.between(0, random_.chance(0.05) ? 15 : 12));
  }

  Call anyCall(int rankCount) {
    static constexpr Datatype kDatatypes[] = {Datatype::kBfloat16, Datatype::kBfloat16,
                                              Datatype::kFloat16,  Datatype::kFloat32,
                                              Datatype::kFloat32,  Datatype::kInt32};
    const Datatype datatype = any(kDatatypes);
    const std::uint64_t misalignedElements = random_.below(64);
    switch (random_.below(4)) {
      case 0:
        return AllGatherCase{.datatype = datatype,
                             .elementCount = anyCount(),
                             .contents = anyContents(),
                             .inPlace = random_.chance(0.5),
                             .misalignedElements = misalignedElements,
                             .seed = random_()};
      case 1:
        return anyExchange(datatype, rankCount);
      case 2: {
        static constexpr ReduceOp kOps[] = {ReduceOp::kSum, ReduceOp::kAvg, ReduceOp::kMax};
        const bool isScaled = datatype != Datatype::kInt32 && random_.chance(0.3);
        return ReduceCase{
            .isAllReduce = random_.chance(0.5),
            .datatype = datatype,
            .reduction = isScaled ? testing::preMulSum(datatype, 0.3) : Reduction{.op = any(kOps)},
            .elementCount = anyCount(),
            .contents = anyContents(),
            .inPlace = random_.chance(0.5),
            .misalignedElements = misalignedElements,
            .seed = random_()};
      }
      default:
        return RootedCase{
            .kind = any(testing::kAllRooted),
            .datatype = datatype,
            .elementCount = anyCount(),
            .root = static_cast<int>(random_.below(static_cast<std::uint64_t>(rankCount))),
            .contents = anyContents(),
            .inPlace = random_.chance(0.5),
            .misalignedElements = misalignedElements,
            .seed = random_()};
    }
  }

  PairCase anyExchange(Datatype datatype, int rankCount) {
    PairCase test{.way = any(testing::kAllWays),
                  .datatype = datatype,
                  .elementCount = anyCount(),
                  .contents = anyContents(),
                  .misalignedElements = random_.below(64),
                  .seed = random_()};
    if (test.way == testing::Way::kAllToAll) return test;
    const auto ranks = static_cast<std::size_t>(rankCount);
    test.counts.assign(ranks, std::vector<std::uint64_t>(ranks));
    for (auto& row : test.counts) {
      for (std::uint64_t& count : row) count = random_.chance(0.3) ? 0 : anyCount();
    }
    return test;
  }

  /// Makes `count` calls, in batches.
  void makeCalls(LocalGroup& group, std::uint64_t count) {
    for (std::uint64_t made = 0; made < count && !HasFailure(); made += kBatch) {
      std::vector<Call> calls;
      for (std::uint64_t i = 0; i < std::min(kBatch, count - made); ++i) {
        calls.push_back(anyCall(group.rankCount()));
      }
      group.runAll([&](Communicator& communicator) {
        for (const Call& call : calls) {
          std::visit([&](const auto& test) { make(communicator, test); }, call);
        }
      });
    }
  }
};

TEST_F(Soak, OneGroupKeepsItsMemory) {
  constexpr int kRanks = 4;
  CommunicatorSettings settings = testSettings();
  settings.agreed.maxScratchBytes = std::uint64_t{1} << 22;
  std::deque<Allocations> allocations(kRanks);
  LocalGroup group(kRanks, settings, {}, [&](int rank) {
    return std::make_unique<CountingCodec>(allocations[static_cast<std::size_t>(rank)]);
  });
  const std::uint64_t calls = soakCalls() / 2;
  makeCalls(group, calls / 2);
  const std::uint64_t halfwayBytes = allocatedBytes();
  makeCalls(group, calls / 2);
  const std::uint64_t endBytes = allocatedBytes();
  if (isSoak() && halfwayBytes != 0) {
    // Statistics of classes come and go until there are as many as are kept, and the heap has
    // holes: it grows for the first ten thousand calls, by a MiB and a half, and then no more. A
    // leak of 64 bytes a call would be more than this in the second half of a soak.
    constexpr std::uint64_t kClassesBytes = 3U << 19;
    EXPECT_LT(endBytes, halfwayBytes + kClassesBytes) << "after " << calls << " calls";
  }
  for (const Allocations& ofRank : allocations) {
    EXPECT_LE(ofRank.mostBytes, settings.agreed.maxScratchBytes);
    EXPECT_GT(ofRank.mostBytes, 0U);
  }
  RecordProperty("calls", static_cast<int>(calls));
  RecordProperty("halfwayBytes", static_cast<int>(halfwayBytes));
  RecordProperty("endBytes", static_cast<int>(endBytes));
}

TEST_F(Soak, ManyGroupsLeaveNothingBehind) {
  const std::uint64_t calls = soakCalls() / 2;
  std::uint64_t earlyBytes = 0;
  for (std::uint64_t made = 0; made < calls && !HasFailure();) {
    {
      const int rankCount = static_cast<int>(random_.between(1, 8));
      CommunicatorSettings settings =
          testSettings(random_.chance(0.2) ? StrategyChoice::kNative : StrategyChoice::kStaged);
      settings.agreed.checksum = random_.chance(0.3);
      settings.agreed.minBytes = random_.chance(0.3) ? random_.below(5000) : 0;
      settings.agreed.maxScratchBytes = std::uint64_t{1} << random_.between(14, 24);
      std::deque<Allocations> allocations(static_cast<std::size_t>(rankCount));
      {
        LocalGroup group(rankCount, settings, {}, [&](int rank) {
          return std::make_unique<CountingCodec>(allocations[static_cast<std::size_t>(rank)]);
        });
        makeCalls(group, 4 * kBatch);
        made += 4 * kBatch;
      }
      for (const Allocations& ofRank : allocations) {
        EXPECT_LE(ofRank.mostBytes, settings.agreed.maxScratchBytes) << rankCount << " ranks";
        EXPECT_EQ(ofRank.nowBytes, 0U) << "scratch that was not given back";
      }
    }
    if (made <= calls / 4) earlyBytes = allocatedBytes();
  }
  if (isSoak() && earlyBytes != 0) {
    EXPECT_LT(allocatedBytes(), earlyBytes + (std::uint64_t{1} << 18));
  }
}

/// Counts at which messages take many chunks; 10^7 in a soak.
class LargeCounts : public Soak {
 protected:
  static constexpr int kRanks = 3;

  static std::uint64_t count() { return isSoak() ? 10'000'000 : testing::scaled(1'100'007); }

  /// Makes one call, with what all ranks share made beforehand.
  static void check(const std::function<void(Communicator&)>& call) {
    CommunicatorSettings settings = testSettings();
    settings.agreed.maxScratchBytes = std::uint64_t{32} << 20;
    std::deque<Allocations> allocations(kRanks);
    LocalGroup group(kRanks, settings, {}, [&](int rank) {
      return std::make_unique<CountingCodec>(allocations[static_cast<std::size_t>(rank)]);
    });
    group.runAll(call);
    EXPECT_EQ(group[0].statistics().stagedCalls, 1U);
    if (!testing::kIsThreadSanitized) {
      EXPECT_GT(group[0].statistics().chunks, 1U);
    }
    for (const Allocations& ofRank : allocations) {
      EXPECT_LE(ofRank.mostBytes, settings.agreed.maxScratchBytes);
    }
  }

  static void check(const ReduceCase& test) {
    const testing::Shard expected = testing::expectedResult(test, kRanks);
    check([&](Communicator& communicator) { testing::checkReduce(communicator, test, expected); });
  }
};

TEST_F(LargeCounts, OfAllGather) {
  const AllGatherCase test{.elementCount = count(),
                           .contents = {Content::kPatchwork, Content::kZeros},
                           .seed = random_()};
  const std::vector<testing::Shard> shards = testing::makeShards(test, kRanks);
  check([&](Communicator& communicator) { testing::checkAllGather(communicator, test, shards); });
}

TEST_F(LargeCounts, OfUnevenAllToAll) {
  PairCase test{.way = testing::Way::kAllToAllv,
                .datatype = Datatype::kFloat32,
                .contents = {Content::kWidened},
                .seed = random_()};
  test.counts = {{0, count(), 5}, {count() / 3, 0, 0}, {1, count() / 2, 3}};
  check([&](Communicator& communicator) { testing::checkPairs(communicator, test); });
}

TEST_F(LargeCounts, OfReduceScatter) {
  // The reference takes its time with bf16.
  check(ReduceCase{.datatype = isSoak() ? Datatype::kBfloat16 : Datatype::kFloat32,
                   .reduction = {.op = ReduceOp::kAvg},
                   .elementCount = isSoak() ? count() : count() / 2,
                   .contents = {Content::kPatchwork},
                   .seed = random_()});
}

TEST_F(LargeCounts, OfAllReduce) {
  check(ReduceCase{.isAllReduce = true,
                   .datatype = Datatype::kFloat32,
                   .elementCount = isSoak() ? 3 * count() : 2 * count(),
                   .contents = {Content::kWidened},
                   .inPlace = true,
                   .seed = random_()});
}

TEST_F(LargeCounts, OfCallsWithARoot) {
  const testing::Rooted kind = any(testing::kAllRooted);
  for (const testing::Rooted each : testing::kAllRooted) {
    if (!isSoak() && each != kind) continue;
    const RootedCase test{.kind = each,
                          .elementCount = count(),
                          .root = 1,
                          .contents = {Content::kPatchwork},
                          .seed = random_()};
    check([&](Communicator& communicator) { testing::checkRooted(communicator, test); });
  }
}

}  // namespace
}  // namespace zipccl::collectives
