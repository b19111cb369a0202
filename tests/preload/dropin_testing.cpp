// SPDX-License-Identifier: Apache-2.0
//
// The fixture of the interposer's tests.

#include "dropin_testing.hpp"

#include <dlfcn.h>

#include <cstdio>
#include <cstdlib>

#include "fake_nccl/fake_nccl_fixture.hpp"

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
  expectNothingLeft(expectedFaults_);
  EXPECT_EQ(recordingEngine().live(), 0);
}

void Dropin::onRanks(int ranks, const std::function<void(const RankOf&)>& work) {
  onFakeRanks(ranks, [&](int rank, void* comm) {
    const RankOf own = {rank, ranks, comm, fakeStreamCreate()};
    work(own);
    fakeStreamDestroy(own.stream);
  });
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
