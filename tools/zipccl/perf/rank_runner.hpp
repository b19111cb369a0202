// SPDX-License-Identifier: Apache-2.0
//
// One rank's part of a run: times pairs of native and zipccl calls, and checks what they deliver.

#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "perf/communicator.hpp"
#include "perf/data_pools.hpp"
#include "perf/measurement.hpp"
#include "perf/progress.hpp"
#include "support/host_buffer.hpp"

namespace zipccl::tools::perf {

class RankRunner {
 public:
  /// `pools` must hold the same on all ranks; messages have up to `mostCount` elements a rank.
  RankRunner(RankCommunicators& communicators, const DataPools& pools, const MeasurementPlan& plan,
             std::uint64_t mostCount);

  /// Measures all-gathers of `count` elements a rank. Collective: all ranks get the same result.
  /// `progress` may be null.
  [[nodiscard]] SizeResult measure(std::uint64_t count, Progress* progress);

 private:
  enum class Way { kNative, kZipccl };
  enum class Place { kOutOfPlace, kInPlace };

  /// One rank's view of one call.
  struct CallRecord {
    std::int64_t elapsedNs = 0;
    std::int64_t wireBytes = 0;
    std::int64_t wasStaged = 0;
  };
  /// The four calls of a round, in the order of kCalls.
  using RoundRecord = std::array<CallRecord, 4>;
  using WrongCounts = std::array<std::uint64_t, 4>;

  void runRound(bool isNativeFirst, SizeResult* result);
  [[nodiscard]] CallRecord timeCall(Way way, Place place);
  void addSamples(const RoundRecord& mine, bool isNativeFirst, SizeResult& result);
  void checkCalls(SizeResult& result);
  [[nodiscard]] std::uint64_t countWrong(Way way, Place place);
  [[nodiscard]] bool isTimeSpent(std::size_t iterations) const;

  void call(Way way, Place place);
  [[nodiscard]] Communicator& communicatorOf(Way way);
  [[nodiscard]] std::span<std::byte> place(int rank);
  [[nodiscard]] std::span<const std::byte> expected(int rank) const;
  [[nodiscard]] std::span<const std::byte> ownMessage() const;

  RankCommunicators& communicators_;
  const DataPools& pools_;
  const MeasurementPlan& plan_;
  int rank_;
  int rankCount_;
  HostBuffer sendPool_;  ///< a copy of this rank's pool: the library gets no byte of the original
  HostBuffer receive_;
  std::uint64_t callNumber_ = 0;  ///< equal on all ranks
  std::uint64_t count_ = 0;
  double spentSeconds_ = 0.0;  ///< in the calls of this size; equal on all ranks
};

}  // namespace zipccl::tools::perf
