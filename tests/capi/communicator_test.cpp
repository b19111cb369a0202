// SPDX-License-Identifier: Apache-2.0
//
// The C API as a program sees it: communicators of threads, AllGather, statistics, errors.

#include <gtest/gtest.h>
#include <zipccl/zipccl.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstring>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "support/seeded_test.hpp"

extern "C" zipcclConfig_t configMadeByC(void);
extern "C" zipcclCommStats_t statsMadeByC(void);

namespace {

constexpr std::size_t kCount = 20'000;

/// The communicators of one process; destroyed with it.
class Comms {
 public:
  explicit Comms(int rankCount, zipcclStrategy_t strategy = zipcclStrategyStaged,
                 std::int64_t timeoutMs = 60'000, std::int64_t linkBytesPerSecond = 0)
      : comms_(static_cast<std::size_t>(rankCount)) {
    zipcclConfig_t config = ZIPCCL_CONFIG_INITIALIZER;
    config.strategy = strategy;
    config.timeoutMs = timeoutMs;
    if (linkBytesPerSecond != 0) config.emulatedLinkBytesPerSecond = linkBytesPerSecond;
    EXPECT_EQ(zipcclCommInitAllLocal(comms_.data(), rankCount, &config), zipcclSuccess)
        << zipcclGetLastError(nullptr);
  }
  Comms(const Comms&) = delete;
  Comms& operator=(const Comms&) = delete;
  ~Comms() {
    for (zipcclComm_t comm : comms_) EXPECT_EQ(zipcclCommDestroy(comm), zipcclSuccess);
  }

  [[nodiscard]] zipcclComm_t operator[](std::size_t rank) const { return comms_[rank]; }
  [[nodiscard]] std::size_t size() const { return comms_.size(); }

  /// Calls `body(rank)` in a thread for each rank.
  void onAllRanks(const std::function<void(std::size_t)>& body) const {
    std::vector<std::jthread> threads;
    for (std::size_t rank = 0; rank < size(); ++rank) {
      threads.emplace_back([&body, rank] { body(rank); });
    }
  }

 private:
  std::vector<zipcclComm_t> comms_;
};

zipcclCommStats_t statsOf(zipcclComm_t comm) {
  zipcclCommStats_t stats = ZIPCCL_COMM_STATS_INITIALIZER;
  EXPECT_EQ(zipcclCommGetStats(comm, &stats), zipcclSuccess);
  return stats;
}

class CApi : public zipccl::testing::SeededTest {
 protected:
  /// What rank `rank` sends: bf16 numbers of N(0, 0.02).
  [[nodiscard]] std::vector<std::uint16_t> shardOf(std::size_t rank) const {
    zipccl::Random random(seed_, rank);
    std::vector<std::uint16_t> shard(kCount);
    for (std::uint16_t& element : shard) {
      const auto value = static_cast<float>(0.02 * random.normal());
      std::uint32_t bits = 0;
      std::memcpy(&bits, &value, sizeof(bits));
      element = static_cast<std::uint16_t>(bits >> 16);
    }
    return shard;
  }

  void checkAllGather(const Comms& comms) const {
    std::vector<std::uint16_t> expected;
    for (std::size_t rank = 0; rank < comms.size(); ++rank) {
      const std::vector<std::uint16_t> shard = shardOf(rank);
      expected.insert(expected.end(), shard.begin(), shard.end());
    }
    comms.onAllRanks([&](std::size_t rank) {
      const std::vector<std::uint16_t> shard = shardOf(rank);
      std::vector<std::uint16_t> received(expected.size(), 0xAAAA);
      EXPECT_EQ(zipcclAllGather(shard.data(), received.data(), kCount, zipcclBfloat16, comms[rank],
                                nullptr),
                zipcclSuccess)
          << zipcclGetLastError(comms[rank]);
      EXPECT_EQ(received, expected) << "rank " << rank;
    });
  }
};

TEST_F(CApi, GathersOverOneToFourRanks) {
  for (const int rankCount : {1, 2, 4}) checkAllGather(Comms(rankCount));
}

TEST_F(CApi, EveryRankKnowsItsPlace) {
  const Comms comms(3);
  for (std::size_t i = 0; i < 3; ++i) {
    int count = -1;
    int rank = -1;
    EXPECT_EQ(zipcclCommCount(comms[i], &count), zipcclSuccess);
    EXPECT_EQ(zipcclCommUserRank(comms[i], &rank), zipcclSuccess);
    EXPECT_EQ(count, 3);
    EXPECT_EQ(rank, static_cast<int>(i));
  }
}

TEST_F(CApi, StatisticsTellWhatHappenedAndWhy) {
  const Comms staged(4);
  EXPECT_EQ(statsOf(staged[0]).calls, 0U);
  EXPECT_STREQ(statsOf(staged[0]).lastReason, "");
  checkAllGather(staged);
  const zipcclCommStats_t stats = statsOf(staged[2]);
  EXPECT_EQ(stats.size, sizeof(stats));
  EXPECT_EQ(stats.calls, 1U);
  EXPECT_EQ(stats.stagedCalls, 1U);
  EXPECT_EQ(stats.nativeCalls, 0U);
  EXPECT_EQ(stats.inputBytes, 2 * kCount);
  EXPECT_EQ(stats.stagedInputBytes, 2 * kCount);
  EXPECT_LT(stats.encodedBytes, 2 * kCount * 3 / 4);
  EXPECT_EQ(stats.wireBytesSent, 3 * stats.encodedBytes);
  EXPECT_EQ(stats.chunks, 1U);
  EXPECT_GT(stats.scratchBytes, 0U);
  EXPECT_EQ(stats.compressionAgreed, 1);
  EXPECT_EQ(stats.lastStrategy, zipcclStrategyStaged);
  EXPECT_STREQ(stats.lastReason, "staged: asked for");

  const Comms native(2, zipcclStrategyNative);
  checkAllGather(native);
  EXPECT_EQ(statsOf(native[1]).nativeCalls, 1U);
  EXPECT_EQ(statsOf(native[1]).encodedBytes, 0U);
  EXPECT_EQ(statsOf(native[1]).wireBytesSent, 2 * kCount);
  EXPECT_STREQ(statsOf(native[1]).lastReason, "native: asked for");
}

TEST_F(CApi, AutoDecidesOnAMeasurement) {
  const Comms comms(2, zipcclStrategyAuto, 60'000, 1'000'000'000);
  checkAllGather(comms);
  const zipcclCommStats_t stats = statsOf(comms[0]);
  EXPECT_EQ(stats.calls, 1U);
  EXPECT_NE(std::string(stats.lastReason).find("predicted"), std::string::npos) << stats.lastReason;
}

TEST_F(CApi, AutoLeavesMemoryAlone) {
  const Comms comms(2, zipcclStrategyAuto);
  checkAllGather(comms);
  const zipcclCommStats_t stats = statsOf(comms[0]);
  EXPECT_EQ(stats.stagedCalls, 0U);
  EXPECT_NE(std::string(stats.lastReason).find("memory"), std::string::npos) << stats.lastReason;
}

TEST_F(CApi, StatisticsFillNoMoreThanTheCallerHas) {
  const Comms comms(1);
  checkAllGather(comms);
  constexpr std::size_t kOldBytes = offsetof(zipcclCommStats_t, stagedCalls);
  std::vector<std::byte> memory(kOldBytes);
  auto* old = reinterpret_cast<zipcclCommStats_t*>(memory.data());
  std::memcpy(memory.data(), &kOldBytes, sizeof(kOldBytes));
  ASSERT_EQ(zipcclCommGetStats(comms[0], old), zipcclSuccess);
  EXPECT_EQ(old->size, kOldBytes);
  EXPECT_EQ(old->calls, 1U);
  zipcclCommStats_t unsized = ZIPCCL_COMM_STATS_INITIALIZER;
  unsized.size = 0;
  EXPECT_EQ(zipcclCommGetStats(comms[0], &unsized), zipcclInvalidArgument);
}

TEST_F(CApi, InitializersAreTheSameInCAndCpp) {
  const zipcclConfig_t config = ZIPCCL_CONFIG_INITIALIZER;
  const zipcclConfig_t fromC = configMadeByC();
  EXPECT_EQ(std::memcmp(&config, &fromC, sizeof(config)), 0);
  EXPECT_EQ(fromC.size, sizeof(zipcclConfig_t));
  EXPECT_EQ(fromC.strategy, ZIPCCL_CONFIG_UNDEF_INT);
  const zipcclCommStats_t stats = statsMadeByC();
  EXPECT_EQ(stats.size, sizeof(zipcclCommStats_t));
  EXPECT_EQ(stats.calls, 0U);
}

TEST_F(CApi, RanksMayHaveTheirOwnSettings) {
  std::vector<zipcclConfig_t> configs(3, configMadeByC());
  for (zipcclConfig_t& config : configs) config.strategy = zipcclStrategyStaged;
  configs[1].checksum = 1;
  std::vector<zipcclComm_t> comms(3);
  ASSERT_EQ(zipcclCommInitAllLocalConfigs(comms.data(), 3, configs.data()), zipcclSuccess);
  for (zipcclComm_t comm : comms) {
    EXPECT_EQ(statsOf(comm).compressionAgreed, 0);
    EXPECT_EQ(zipcclCommDestroy(comm), zipcclSuccess);
  }
}

/// An array of a caller whose header has fewer fields.
TEST_F(CApi, ConfigsOfAnOlderCallerAreReadWhereTheyStand) {
  constexpr std::size_t kOldBytes = offsetof(zipcclConfig_t, minBytes);
  static_assert(kOldBytes < sizeof(zipcclConfig_t));
  constexpr int kRanks = 3;
  // Exactly as many bytes as there are, so that the address sanitizer sees a read behind them.
  std::vector<std::byte> old(kRanks * kOldBytes);
  const auto put = [&](int rank, std::size_t size, int strategy) {
    zipcclConfig_t config = ZIPCCL_CONFIG_INITIALIZER;
    config.size = size;
    config.strategy = strategy;
    std::memcpy(old.data() + static_cast<std::size_t>(rank) * kOldBytes, &config, kOldBytes);
  };
  const auto* const configs = reinterpret_cast<const zipcclConfig_t*>(old.data());
  for (int rank = 0; rank < kRanks; ++rank) put(rank, kOldBytes, zipcclStrategyNative);
  std::vector<zipcclComm_t> comms(kRanks);
  ASSERT_EQ(zipcclCommInitAllLocalConfigs(comms.data(), kRanks, configs), zipcclSuccess)
      << zipcclGetLastError(nullptr);
  for (zipcclComm_t comm : comms) {
    EXPECT_EQ(statsOf(comm).compressionAgreed, 1);
    EXPECT_EQ(zipcclCommDestroy(comm), zipcclSuccess);
  }
  put(1, sizeof(zipcclConfig_t), zipcclStrategyNative);
  EXPECT_EQ(zipcclCommInitAllLocalConfigs(comms.data(), kRanks, configs), zipcclInvalidArgument);
  EXPECT_EQ(zipcclGetLastError(nullptr), "zipcclCommInitAllLocalConfigs: configs[1].size is " +
                                             std::to_string(sizeof(zipcclConfig_t)) +
                                             ", configs[0].size is " + std::to_string(kOldBytes) +
                                             "; all have the size of one struct");
}

/// The code and the words of a call that must fail.
void expectError(zipcclResult_t result, zipcclResult_t expected, zipcclComm_t comm,
                 const std::string& words) {
  EXPECT_EQ(result, expected) << zipcclGetLastError(comm);
  EXPECT_EQ(zipcclGetLastError(nullptr), words);
  if (comm != nullptr) {
    EXPECT_EQ(zipcclGetLastError(comm), words);
  }
}

/// What rank `from` has for rank `to`, made of its shard.
std::vector<std::uint16_t> partOf(std::vector<std::uint16_t> shard, std::size_t to) {
  for (std::uint16_t& element : shard) element = static_cast<std::uint16_t>(element + to);
  return shard;
}

TEST_F(CApi, AllToAllBothWays) {
  const Comms comms(3);
  comms.onAllRanks([&](std::size_t rank) {
    std::vector<std::uint16_t> send;
    std::vector<std::uint16_t> expected;
    for (std::size_t peer = 0; peer < 3; ++peer) {
      const std::vector<std::uint16_t> mine = partOf(shardOf(rank), peer);
      const std::vector<std::uint16_t> theirs = partOf(shardOf(peer), rank);
      send.insert(send.end(), mine.begin(), mine.end());
      expected.insert(expected.end(), theirs.begin(), theirs.end());
    }
    std::vector<std::uint16_t> received(send.size(), 0xAAAA);
    EXPECT_EQ(
        zipcclAlltoAll(send.data(), received.data(), kCount, zipcclBfloat16, comms[rank], nullptr),
        zipcclSuccess)
        << zipcclGetLastError(comms[rank]);
    EXPECT_EQ(received, expected) << "rank " << rank;

    // Parts of rank + 1 times a thousand elements, from where each rank's part begins.
    const std::size_t most = 3 * 1000;
    std::size_t sendCounts[3];
    std::size_t receiveCounts[3];
    std::size_t offsets[3];
    std::vector<std::uint16_t> expectedv(3 * kCount, 0xAAAA);
    for (std::size_t peer = 0; peer < 3; ++peer) {
      sendCounts[peer] = (rank + 1) * 1000;
      receiveCounts[peer] = (peer + 1) * 1000;
      offsets[peer] = peer * kCount;
      std::copy_n(expected.begin() + static_cast<std::ptrdiff_t>(offsets[peer]),
                  receiveCounts[peer],
                  expectedv.begin() + static_cast<std::ptrdiff_t>(offsets[peer]));
      ASSERT_LE(receiveCounts[peer], most);
    }
    std::vector<std::uint16_t> receivedv(3 * kCount, 0xAAAA);
    EXPECT_EQ(zipcclAlltoAllv(send.data(), sendCounts, offsets, receivedv.data(), receiveCounts,
                              offsets, zipcclBfloat16, comms[rank], nullptr),
              zipcclSuccess)
        << zipcclGetLastError(comms[rank]);
    EXPECT_EQ(receivedv, expectedv) << "rank " << rank;
    EXPECT_EQ(statsOf(comms[rank]).stagedCalls, 2U);
  });
}

TEST_F(CApi, ReductionsOfSmallNumbersAreExact) {
  // Sums of a few small integers are numbers of bf16, so any order gives them.
  const auto bits = [](int value) {
    const auto number = static_cast<float>(value);
    std::uint32_t word = 0;
    std::memcpy(&word, &number, sizeof(word));
    return static_cast<std::uint16_t>(word >> 16);
  };
  const Comms comms(4);
  comms.onAllRanks([&](std::size_t rank) {
    zipcclComm_t comm = comms[rank];
    const int own = static_cast<int>(rank);
    std::vector<std::uint16_t> send(4 * kCount);
    for (std::size_t i = 0; i < send.size(); ++i) send[i] = bits(own + static_cast<int>(i % 7));
    const auto expected = [&](std::size_t i, int times) {
      return bits(times * (6 + 4 * static_cast<int>(i % 7)));
    };
    std::vector<std::uint16_t> received(send.size(), 0xAAAA);
    EXPECT_EQ(zipcclAllReduce(send.data(), received.data(), send.size(), zipcclBfloat16, zipcclSum,
                              comm, nullptr),
              zipcclSuccess)
        << zipcclGetLastError(comm);
    for (std::size_t i = 0; i < received.size(); ++i) ASSERT_EQ(received[i], expected(i, 1));

    std::uint16_t two = bits(2);
    zipcclRedOp_t doubled = zipcclSum;
    ASSERT_EQ(
        zipcclRedOpCreatePreMulSum(&doubled, &two, zipcclBfloat16, zipcclScalarHostImmediate, comm),
        zipcclSuccess);
    EXPECT_EQ(zipcclReduceScatter(send.data(), received.data(), kCount, zipcclBfloat16, doubled,
                                  comm, nullptr),
              zipcclSuccess)
        << zipcclGetLastError(comm);
    for (std::size_t i = 0; i < kCount; ++i) ASSERT_EQ(received[i], expected(rank * kCount + i, 2));
    EXPECT_EQ(zipcclReduceScatter(send.data(), received.data(), kCount, zipcclFloat32, doubled,
                                  comm, nullptr),
              zipcclInvalidArgument)
        << "made for another datatype";
    EXPECT_EQ(zipcclRedOpDestroy(doubled, comm), zipcclSuccess);
    EXPECT_EQ(zipcclRedOpDestroy(doubled, comm), zipcclInvalidArgument);
    EXPECT_EQ(zipcclRedOpDestroy(zipcclSum, comm), zipcclInvalidArgument);
    EXPECT_EQ(zipcclAllReduce(send.data(), received.data(), kCount, zipcclBfloat16, doubled, comm,
                              nullptr),
              zipcclInvalidArgument);
    EXPECT_EQ(zipcclRedOpCreatePreMulSum(&doubled, &two, zipcclBfloat16, zipcclScalarDevice, comm),
              zipcclInvalidArgument);
    EXPECT_EQ(statsOf(comm).stagedCalls, 2U);
  });
}

TEST_F(CApi, BroadcastGatherAndScatter) {
  const Comms comms(3);
  constexpr int kRoot = 1;
  std::vector<std::uint16_t> all;
  for (std::size_t rank = 0; rank < 3; ++rank) {
    const std::vector<std::uint16_t> shard = shardOf(rank);
    all.insert(all.end(), shard.begin(), shard.end());
  }
  comms.onAllRanks([&](std::size_t rank) {
    zipcclComm_t comm = comms[rank];
    const bool isRoot = rank == kRoot;
    const std::vector<std::uint16_t> own = shardOf(rank);
    std::vector<std::uint16_t> received(kCount, 0xAAAA);
    EXPECT_EQ(zipcclBroadcast(isRoot ? own.data() : nullptr, received.data(), kCount,
                              zipcclBfloat16, kRoot, comm, nullptr),
              zipcclSuccess)
        << zipcclGetLastError(comm);
    EXPECT_EQ(received, shardOf(kRoot));
    std::vector<std::uint16_t> gathered(isRoot ? 3 * kCount : 0, 0xAAAA);
    EXPECT_EQ(zipcclGather(own.data(), isRoot ? gathered.data() : nullptr, kCount, zipcclBfloat16,
                           kRoot, comm, nullptr),
              zipcclSuccess)
        << zipcclGetLastError(comm);
    if (isRoot) {
      EXPECT_EQ(gathered, all);
    }
    EXPECT_EQ(zipcclScatter(isRoot ? all.data() : nullptr, received.data(), kCount, zipcclBfloat16,
                            kRoot, comm, nullptr),
              zipcclSuccess)
        << zipcclGetLastError(comm);
    EXPECT_EQ(received, own);
    EXPECT_EQ(statsOf(comm).stagedCalls, 3U);
  });
}

TEST_F(CApi, AGroupLetsOneThreadDriveAllRanks) {
  const Comms comms(3);
  std::vector<std::vector<std::uint16_t>> shards;
  std::vector<std::vector<std::uint16_t>> gathered(3);
  std::vector<std::vector<std::uint16_t>> passed(3);
  for (std::size_t rank = 0; rank < 3; ++rank) shards.push_back(shardOf(rank));
  ASSERT_EQ(zipcclGroupStart(), zipcclSuccess);
  for (std::size_t rank = 0; rank < 3; ++rank) {
    gathered[rank].assign(3 * kCount, 0xAAAA);
    passed[rank].assign(kCount, 0xAAAA);
    const int right = static_cast<int>((rank + 1) % 3);
    const int left = static_cast<int>((rank + 2) % 3);
    ASSERT_EQ(zipcclGroupStart(), zipcclSuccess) << "groups nest";
    EXPECT_EQ(zipcclRecv(passed[rank].data(), kCount, zipcclBfloat16, left, comms[rank], nullptr),
              zipcclSuccess);
    EXPECT_EQ(zipcclAllGather(shards[rank].data(), gathered[rank].data(), kCount, zipcclBfloat16,
                              comms[rank], nullptr),
              zipcclSuccess);
    EXPECT_EQ(zipcclSend(shards[rank].data(), kCount, zipcclBfloat16, right, comms[rank], nullptr),
              zipcclSuccess);
    ASSERT_EQ(zipcclGroupEnd(), zipcclSuccess);
    EXPECT_EQ(passed[rank][0], 0xAAAA) << "nothing is done before the outermost end";
  }
  ASSERT_EQ(zipcclGroupEnd(), zipcclSuccess) << zipcclGetLastError(nullptr);
  for (std::size_t rank = 0; rank < 3; ++rank) {
    EXPECT_EQ(passed[rank], shards[(rank + 2) % 3]) << "rank " << rank;
    for (std::size_t peer = 0; peer < 3; ++peer) {
      EXPECT_TRUE(std::equal(shards[peer].begin(), shards[peer].end(),
                             gathered[rank].begin() + static_cast<std::ptrdiff_t>(peer * kCount)));
    }
    EXPECT_EQ(statsOf(comms[rank]).stagedCalls, 2U);
  }
}

TEST_F(CApi, AGroupWithAFailedCallDoesNothing) {
  const Comms comms(2);
  std::vector<std::uint16_t> buffer(100, 0xAAAA);
  ASSERT_EQ(zipcclGroupStart(), zipcclSuccess);
  EXPECT_EQ(zipcclRecv(buffer.data(), 100, zipcclBfloat16, 1, comms[0], nullptr), zipcclSuccess);
  EXPECT_EQ(zipcclSend(buffer.data(), 100, zipcclBfloat16, 7, comms[0], nullptr),
            zipcclInvalidArgument);
  expectError(zipcclGroupEnd(), zipcclInvalidArgument, nullptr,
              "zipcclGroupEnd: nothing of the group was done: peer is 7 in a communicator of 2 "
              "ranks");
  zipcclResult_t asyncError = zipcclInternalError;
  EXPECT_EQ(zipcclCommGetAsyncError(comms[0], &asyncError), zipcclSuccess);
  EXPECT_EQ(asyncError, zipcclSuccess);
  expectError(zipcclGroupEnd(), zipcclInvalidUsage, nullptr,
              "zipcclGroupEnd: there is no zipcclGroupStart that this would end");
  checkAllGather(comms);
}

TEST_F(CApi, WrongArgumentsAreNamed) {
  const Comms comms(2);
  zipcclComm_t comm = comms[1];
  std::vector<std::uint16_t> buffer(200);
  const auto gather = [&](const void* send, void* receive, std::size_t count, int datatype,
                          zipcclComm_t on, zipcclStream_t stream) {
    return zipcclAllGather(send, receive, count, static_cast<zipcclDataType_t>(datatype), on,
                           stream);
  };
  constexpr zipcclResult_t kInvalid = zipcclInvalidArgument;
  expectError(gather(buffer.data() + 100, buffer.data(), 100, 9, nullptr, nullptr), kInvalid,
              nullptr, "zipcclAllGather: comm is NULL");
  expectError(gather(buffer.data() + 100, buffer.data(), 100, 12, comm, nullptr), kInvalid, comm,
              "zipcclAllGather: datatype is 12; 0 to 11 are known");
  expectError(gather(nullptr, buffer.data(), 100, 9, comm, nullptr), kInvalid, comm,
              "zipcclAllGather: sendbuff is null, but sendcount is 100");
  expectError(gather(buffer.data() + 100, nullptr, 100, 9, comm, nullptr), kInvalid, comm,
              "zipcclAllGather: recvbuff is null, but sendcount is 100");
  expectError(gather(buffer.data() + 100, buffer.data(), 100, 9, comm, buffer.data()), kInvalid,
              comm,
              "zipcclAllGather: stream is not NULL, but this communicator works on host memory");
  expectError(zipcclCommCount(comm, nullptr), kInvalid, comm, "zipcclCommCount: count is NULL");
  expectError(zipcclCommUserRank(comm, nullptr), kInvalid, comm,
              "zipcclCommUserRank: rank is NULL");
  expectError(zipcclCommGetAsyncError(comm, nullptr), kInvalid, comm,
              "zipcclCommGetAsyncError: asyncError is NULL");
  expectError(zipcclCommGetStats(comm, nullptr), kInvalid, comm,
              "zipcclCommGetStats: stats is NULL");
  int number = 0;
  expectError(zipcclCommCount(nullptr, &number), kInvalid, nullptr,
              "zipcclCommCount: comm is NULL");
  expectError(zipcclCommAbort(nullptr), kInvalid, nullptr, "zipcclCommAbort: comm is NULL");

  zipcclComm_t made[2] = {comm, comm};
  expectError(zipcclCommInitAllLocal(nullptr, 2, nullptr), kInvalid, nullptr,
              "zipcclCommInitAllLocal: comms is NULL");
  expectError(zipcclCommInitAllLocal(made, 0, nullptr), kInvalid, nullptr,
              "zipcclCommInitAllLocal: nranks is 0; 1 to 1024 are possible");
  expectError(zipcclCommInitAllLocal(made, 1025, nullptr), kInvalid, nullptr,
              "zipcclCommInitAllLocal: nranks is 1025; 1 to 1024 are possible");
  expectError(zipcclCommInitAllLocalConfigs(made, 2, nullptr), kInvalid, nullptr,
              "zipcclCommInitAllLocalConfigs: configs is NULL");
  zipcclConfig_t config = ZIPCCL_CONFIG_INITIALIZER;
  config.checksum = 7;
  expectError(zipcclCommInitAllLocal(made, 2, &config), kInvalid, nullptr,
              "zipcclCommInitAllLocal: config.checksum is 7; 0 and 1 are accepted");
  EXPECT_EQ(made[0], nullptr);
  EXPECT_EQ(made[1], nullptr);

  zipcclResult_t async = zipcclInternalError;
  EXPECT_EQ(zipcclCommGetAsyncError(comm, &async), zipcclSuccess);
  EXPECT_EQ(async, zipcclSuccess) << "wrong arguments must not end the communicator";
  checkAllGather(comms);
}

TEST_F(CApi, AnMpiCommunicatorNeedsAHandleAndItsLibrary) {
  const int handle = 0;
  zipcclComm_t comm = nullptr;
  EXPECT_EQ(zipcclCommInitMpiHandle(nullptr, &handle, sizeof(handle), "MPI", nullptr),
            zipcclInvalidArgument);
  EXPECT_EQ(zipcclCommInitMpiHandle(&comm, nullptr, 0, "MPI", nullptr), zipcclInvalidArgument);
  EXPECT_NE(std::string(zipcclGetLastError(nullptr)).find("parent is NULL"), std::string::npos);
  EXPECT_EQ(zipcclCommInitMpiHandle(&comm, &handle, sizeof(handle), nullptr, nullptr),
            zipcclInvalidArgument);
  EXPECT_EQ(comm, nullptr);
}

TEST_F(CApi, DestroyAcceptsNull) { EXPECT_EQ(zipcclCommDestroy(nullptr), zipcclSuccess); }

TEST_F(CApi, TheLastErrorOfWhatIsNoCommunicatorSaysSo) {
  alignas(16) std::byte other[4096] = {};
  EXPECT_STREQ(zipcclGetLastError(reinterpret_cast<zipcclComm_t>(other)),
               "comm is not a communicator, or was destroyed");
}

TEST_F(CApi, LastErrorsOfThreadsAreApart) {
  EXPECT_EQ(zipcclGetVersion(nullptr), zipcclInvalidArgument);
  EXPECT_STREQ(zipcclGetLastError(nullptr), "zipcclGetVersion: version is NULL");
  EXPECT_EQ(zipcclCommAbort(nullptr), zipcclInvalidArgument);
  std::jthread([] {
    EXPECT_STREQ(zipcclGetLastError(nullptr), "");
    EXPECT_EQ(zipcclCommInitAllLocal(nullptr, 1, nullptr), zipcclInvalidArgument);
  }).join();
  EXPECT_STREQ(zipcclGetLastError(nullptr), "zipcclCommAbort: comm is NULL");
}

TEST_F(CApi, AbortEndsAllRanksAndSticks) {
  const Comms comms(3);
  std::jthread watchdog([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    EXPECT_EQ(zipcclCommAbort(comms[0]), zipcclSuccess);
  });
  comms.onAllRanks([&](std::size_t rank) {
    if (rank == 2) return;
    std::vector<std::uint16_t> send(1000);
    std::vector<std::uint16_t> receive(3000);
    for (int i = 0; i < 2; ++i) {
      EXPECT_EQ(
          zipcclAllGather(send.data(), receive.data(), 1000, zipcclBfloat16, comms[rank], nullptr),
          zipcclRemoteError);
      EXPECT_NE(std::string(zipcclGetLastError(comms[rank])).find("rank 0"), std::string::npos)
          << zipcclGetLastError(comms[rank]);
    }
  });
  for (std::size_t rank = 0; rank < 3; ++rank) {
    zipcclResult_t async = zipcclSuccess;
    EXPECT_EQ(zipcclCommGetAsyncError(comms[rank], &async), zipcclSuccess);
    EXPECT_EQ(async, zipcclRemoteError) << "rank " << rank;
  }
  EXPECT_NE(std::string(zipcclGetLastError(comms[2])), "")
      << "asking for the error gives its words";
}

TEST_F(CApi, TheTimeLimitOfTheConfigHolds) {
  const Comms comms(2, zipcclStrategyStaged, 100);
  std::vector<std::uint16_t> send(1000);
  std::vector<std::uint16_t> receive(2000);
  const auto start = std::chrono::steady_clock::now();
  EXPECT_EQ(zipcclAllGather(send.data(), receive.data(), 1000, zipcclBfloat16, comms[0], nullptr),
            zipcclRemoteError);
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(10));
}

TEST_F(CApi, StrategiesHaveNames) {
  EXPECT_STREQ(zipcclGetStrategyName(zipcclStrategyAuto), "auto");
  EXPECT_STREQ(zipcclGetStrategyName(zipcclStrategyNative), "native");
  EXPECT_STREQ(zipcclGetStrategyName(zipcclStrategyStaged), "staged");
  EXPECT_STREQ(zipcclGetStrategyName(zipcclNumStrategies), "unknown");
}

}  // namespace
