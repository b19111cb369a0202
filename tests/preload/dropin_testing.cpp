// SPDX-License-Identifier: Apache-2.0
//
// The fixture of the interposer's tests.

#include "dropin_testing.hpp"

#include <dlfcn.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <thread>

namespace zipccl::testing {

const recordingControl& recordingEngine() {
  static const recordingControl* const control = [] {
    void* const handle = ::dlopen(ZIPCCL_TEST_ENGINE, RTLD_NOW | RTLD_LOCAL);
    if (handle == nullptr) {
      std::fprintf(stderr, "%s\n", ::dlerror());
      std::exit(99);
    }
    return reinterpret_cast<recordingControlFunction>(::dlsym(handle, "recordingEngineControl"))();
  }();
  return *control;
}

void Dropin::SetUp() {
  recordingEngine().reset();
  fakeFaultsClear();
  fakeSetJitterUs(100);
}

void Dropin::TearDown() {
  EXPECT_EQ(fakeFaultCount(), expectedFaults_) << fakeFaultText();
  // Work that a stream has done goes a little later.
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (fakeNcclLiveCommunicators() != 0 && std::chrono::steady_clock::now() < end) {
    std::this_thread::yield();
  }
  EXPECT_EQ(fakeNcclLiveCommunicators(), 0);
  EXPECT_EQ(recordingEngine().live(), 0);
  fakeNcclSetTimeLimitMs(60000);
}

void Dropin::onRanks(int ranks, const std::function<void(const RankOf&)>& work) {
  ncclUniqueId id;
  ASSERT_EQ(ncclGetUniqueId(&id), kNcclSuccess);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank) {
    threads.emplace_back([&, rank] {
      fakeSetDevice(rank);
      RankOf own = {rank, ranks, nullptr, nullptr};
      ASSERT_EQ(ncclCommInitRank(&own.comm, ranks, id, rank), kNcclSuccess);
      own.stream = fakeStreamCreate();
      work(own);
      fakeStreamDestroy(own.stream);
      EXPECT_EQ(ncclCommDestroy(own.comm), kNcclSuccess);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

Elements Dropin::message(int rank, int number, std::size_t count) const {
  Random random(seed_, static_cast<std::uint64_t>(1000 * number + rank));
  Elements elements(count);
  random.fill(std::as_writable_bytes(std::span(elements)));
  return elements;
}

Elements Dropin::messages(int ranks, int number, std::size_t count) const {
  Elements all;
  for (int rank = 0; rank < ranks; ++rank) {
    const Elements one = message(rank, number, count);
    all.insert(all.end(), one.begin(), one.end());
  }
  return all;
}

std::size_t Dropin::anyCount() {
  return random_.chance(0.3) ? random_.between(1, 63) : random_.between(64, 20000);
}

}  // namespace zipccl::testing
