// SPDX-License-Identifier: Apache-2.0
//
// One rank's part of a run: times pairs of native and zipccl calls, and checks what they deliver.

#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "perf/collective.hpp"
#include "perf/communicator.hpp"
#include "perf/data_pools.hpp"
#include "perf/measurement.hpp"
#include "perf/plain_mpi.hpp"
#include "perf/progress.hpp"
#include "support/host_buffer.hpp"

namespace zipccl::tools::perf {

class RankRunner {
 public:
  /// `pools` must hold the same on all ranks; counts go up to `mostCount`. `plainMpi` is measured
  /// too where it is not null, on all ranks or on none.
  RankRunner(RankCommunicators& communicators, const DataPools& pools, const Collective& collective,
             const MeasurementPlan& plan, std::uint64_t mostCount,
             const PlainMpi* plainMpi = nullptr);

  /// Measures calls of `count`. A collective call itself: all ranks get the same result.
  /// `progress` may be null.
  [[nodiscard]] SizeResult measure(std::uint64_t count, Progress* progress);

 private:
  enum class Way { kNative, kZipccl, kPlainMpi };
  enum class Place { kOutOfPlace, kInPlace };

  /// One rank's view of one call.
  struct CallRecord {
    std::int64_t elapsedNs = 0;
    std::int64_t cpuNs = 0;  ///< of this rank's thread
    std::int64_t wireBytes = 0;
    std::int64_t wasStaged = 0;
  };
  /// The calls of a round, in the order that rank_runner.cpp names.
  using RoundRecord = std::array<CallRecord, 5>;
  /// What the checks of these calls found.
  struct CheckRecord {
    std::uint64_t wrong = 0;
    SquaredError error;
  };
  using CheckRecords = std::array<CheckRecord, 5>;

  void runRound(bool isNativeFirst, SizeResult* result);
  [[nodiscard]] CallRecord timeCall(Way way, Place place);
  void addSamples(const RoundRecord& mine, bool isNativeFirst, SizeResult& result);
  void checkCalls(SizeResult& result);
  void checkCall(Way way, Place place, CheckRecord& record);
  [[nodiscard]] bool isTimeSpent(std::size_t iterations) const;

  void call(Way way, Place place);
  /// That of kPlainMpi is native, and idle meanwhile.
  [[nodiscard]] Communicator& communicatorOf(Way way);
  [[nodiscard]] bool hasInPlace() const;
  [[nodiscard]] std::span<std::byte> sendBuffer(Place place);
  [[nodiscard]] std::span<std::byte> receiveBuffer(Place place);
  [[nodiscard]] std::span<std::byte> part(HostBuffer& buffer, std::uint64_t first,
                                          std::uint64_t elements) const;
  void putOwnMessage(Place place);
  [[nodiscard]] std::span<const std::byte> messageOf(int rank) const;
  [[nodiscard]] Messages messages() const;

  RankCommunicators& communicators_;
  const DataPools& pools_;
  const Collective& collective_;
  const MeasurementPlan& plan_;
  const PlainMpi* plainMpi_;
  int rank_;
  int rankCount_;
  HostBuffer sendPool_;  ///< a copy of this rank's pool: the library gets no byte of the original
  HostBuffer receive_;   ///< of a call in place the one buffer
  HostBuffer expected_;
  std::uint64_t callNumber_ = 0;  ///< equal on all ranks
  std::uint64_t count_ = 0;
  double spentSeconds_ = 0.0;  ///< in the calls of this size; equal on all ranks
};

}  // namespace zipccl::tools::perf
