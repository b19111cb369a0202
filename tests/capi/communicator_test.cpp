// SPDX-License-Identifier: Apache-2.0
//
// The C API as a program sees it: communicators of threads, AllGather, statistics, errors.

#include <gtest/gtest.h>
#include <zipccl/zipccl.h>

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
                 std::int64_t timeoutMs = 60'000)
      : comms_(static_cast<std::size_t>(rankCount)) {
    zipcclConfig_t config = ZIPCCL_CONFIG_INITIALIZER;
    config.strategy = strategy;
    config.timeoutMs = timeoutMs;
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
  const Comms comms(2, zipcclStrategyAuto);
  checkAllGather(comms);
  const zipcclCommStats_t stats = statsOf(comms[0]);
  EXPECT_EQ(stats.calls, 1U);
  EXPECT_NE(std::string(stats.lastReason).find("predicted"), std::string::npos) << stats.lastReason;
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

/// The code and the words of a call that must fail.
void expectError(zipcclResult_t result, zipcclResult_t expected, zipcclComm_t comm,
                 const std::string& words) {
  EXPECT_EQ(result, expected) << zipcclGetLastError(comm);
  EXPECT_EQ(zipcclGetLastError(nullptr), words);
  if (comm != nullptr) {
    EXPECT_EQ(zipcclGetLastError(comm), words);
  }
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

TEST_F(CApi, DestroyAcceptsNull) { EXPECT_EQ(zipcclCommDestroy(nullptr), zipcclSuccess); }

TEST_F(CApi, LastErrorsOfThreadsAreApart) {
  EXPECT_EQ(zipcclGetVersion(nullptr), zipcclInvalidArgument);
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
