// SPDX-License-Identifier: Apache-2.0
//
// What the interposer adds to a call that it passes: calls of ncclX and pncclX, which is the real
// function, take turns on the fake library, which does nothing. The least of many medians counts,
// so that a busy machine does not judge; a bound that is missed on every round is a real one.

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "dropin_testing.hpp"

namespace zipccl::testing {
namespace {

constexpr int kRounds = 40;
constexpr int kCalls = 5000;

double nanosecondsOf(int (*call)(const void*, void*, size_t, int, int, void*, void*), void* comm,
                     int datatype) {
  float value = 1.0F;
  const auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < kCalls; ++i) call(&value, &value, 1, datatype, kNcclSum, comm, nullptr);
  const auto elapsed = std::chrono::steady_clock::now() - start;
  return std::chrono::duration<double, std::nano>(elapsed).count() / kCalls;
}

/// The median of what the hook adds, in the quietest of three runs.
double addedNanoseconds(void* comm, int datatype) {
  double least = 1e9;
  for (int run = 0; run < 3; ++run) {
    std::vector<double> added;
    for (int round = 0; round < kRounds; ++round) {
      const double direct = nanosecondsOf(pncclAllReduce, comm, datatype);
      added.push_back(nanosecondsOf(ncclAllReduce, comm, datatype) - direct);
    }
    std::nth_element(added.begin(), added.begin() + kRounds / 2, added.end());
    least = std::min(least, added[kRounds / 2]);
  }
  return least;
}

class Cost : public Dropin {};

/// Run with ZIPCCL_DISABLE=1 and without: the bound follows.
TEST_F(Cost, OfACallThatPasses) {
  const bool isDisabled = std::getenv("ZIPCCL_DISABLE") != nullptr;
  ncclUniqueId id;
  ASSERT_EQ(ncclGetUniqueId(&id), 0);
  void* comm = nullptr;
  ASSERT_EQ(ncclCommInitRank(&comm, 1, id, 0), 0);
  EXPECT_EQ(recordingEngine().attachCalls(), isDisabled ? 0 : 1);
  fakeNcclSetIdle(1);
  const double added = addedNanoseconds(comm, kNcclFloat32);
  fakeNcclSetIdle(0);
  std::printf("added: %.1f ns\n", added);
  EXPECT_LE(added, isDisabled ? 50.0 : 100.0);
  ASSERT_EQ(ncclCommDestroy(comm), 0);
}

}  // namespace
}  // namespace zipccl::testing
