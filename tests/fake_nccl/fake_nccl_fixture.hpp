// SPDX-License-Identifier: Apache-2.0
//
// What tests over the fake NCCL have in common.

#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <thread>
#include <vector>

#include "fake_nccl.h"
#include "nccl_calls.h"
#include "support/seeded_test.hpp"

namespace zipccl::testing {

/// A test that leaves neither faults nor communicators behind, on streams that run late by up to
/// `kMostJitterUs`.
template <unsigned kMostJitterUs>
class FakeNcclTest : public SeededTest {
 protected:
  void SetUp() override {
    fakeFaultsClear();
    fakeSetJitterUs(kMostJitterUs);
  }
  void TearDown() override {
    EXPECT_EQ(fakeFaultCount(), 0) << fakeFaultText();
    EXPECT_EQ(fakeNcclLiveCommunicators(), 0);
  }
};

/// The end of a test that may expect faults, or set a time limit: nothing else is left behind.
inline void expectNothingLeft(int expectedFaults) {
  EXPECT_EQ(fakeFaultCount(), expectedFaults) << fakeFaultText();
  // Work that a stream has done goes a little later.
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (fakeNcclLiveCommunicators() != 0 && std::chrono::steady_clock::now() < end) {
    std::this_thread::yield();
  }
  EXPECT_EQ(fakeNcclLiveCommunicators(), 0);
  fakeNcclSetTimeLimitMs(60000);
}

/// Runs `work` for each rank of a communicator, in a thread of its own that has a device of its
/// own. The communicators are destroyed afterwards.
inline void onFakeRanks(int ranks, const std::function<void(int rank, void* comm)>& work) {
  constexpr int kNcclOk = 0;
  ncclUniqueId id;
  ASSERT_EQ(ncclGetUniqueId(&id), kNcclOk);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank) {
    threads.emplace_back([&, rank] {
      fakeSetDevice(rank);
      void* comm = nullptr;
      ASSERT_EQ(ncclCommInitRank(&comm, ranks, id, rank), kNcclOk);
      work(rank, comm);
      EXPECT_EQ(ncclCommDestroy(comm), kNcclOk);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace zipccl::testing
