// SPDX-License-Identifier: Apache-2.0
//
// What tests of the interposer share: ranks as threads on the fake NCCL, and messages whose arrival
// is checked bit for bit.

#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "fake_nccl/arithmetic.hpp"
#include "fake_nccl/fake_nccl.h"
#include "fake_nccl/nccl_calls.h"
#include "recording_engine.h"
#include "support/seeded_test.hpp"

namespace zipccl::testing {

/// The recording engine, which the interposer loads too.
[[nodiscard]] const recordingControl& recordingEngine();

using Elements = std::vector<std::uint16_t>;

inline constexpr int kBf16 = kNcclBfloat16;

struct RankOf {
  int rank;
  int ranks;
  void* comm;
  fakeStream_t stream;
};

class Dropin : public SeededTest {
 protected:
  void SetUp() override;
  void TearDown() override;

  /// Calls `work` for each rank, in a thread and on a device of its own, on a new communicator of
  /// all of them.
  void onRanks(int ranks, const std::function<void(const RankOf&)>& work);

  /// What rank `rank` has in test message `number`: the same whenever it is asked.
  [[nodiscard]] Elements message(int rank, int number, std::size_t count) const;
  /// The messages of all ranks one after the other.
  [[nodiscard]] Elements messages(int ranks, int number, std::size_t count) const;

  /// A count around what the recording engine wants and cuts.
  [[nodiscard]] std::size_t anyCount();

  int expectedFaults_ = 0;
};

/// Memory that is not yet what it will be.
[[nodiscard]] inline Elements poisoned(std::size_t count) { return Elements(count, 0xA5C3); }

}  // namespace zipccl::testing
