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
#include "perf/rank_device.hpp"
#include "support/host_buffer.hpp"

namespace zipccl::tools::perf {

class RankRunner {
 public:
  /// `pools` must hold the same on all ranks; counts go up to `mostCount`. `plainMpi` is measured
  /// too where it is not null, on all ranks or on none.
  RankRunner(RankCommunicators& communicators, RankDevice& device, const DataPools& pools,
             const Collective& collective, const MeasurementPlan& plan, std::uint64_t mostCount,
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
  /// Whether a reduction, compressed or not, has the documented order of additions.
  [[nodiscard]] bool hasDocumentedOrder(Way way, bool wasStaged) const;
  /// That of kPlainMpi is native, and idle meanwhile.
  [[nodiscard]] CollectiveCalls& communicatorOf(Way way);
  [[nodiscard]] bool hasInPlace() const;
  [[nodiscard]] std::span<std::byte> sendBuffer(Place place);
  [[nodiscard]] std::span<std::byte> receiveBuffer(Place place);
  [[nodiscard]] std::span<std::byte> ownSlice(std::uint64_t elements);
  [[nodiscard]] std::span<std::byte> part(RankBuffer& buffer, std::uint64_t first,
                                          std::uint64_t elements) const;
  /// What stands in a buffer of calls, in memory of the host.
  [[nodiscard]] std::span<const std::byte> read(std::span<std::byte> memory);
  void putOwnMessage(Place place);
  [[nodiscard]] std::span<const std::byte> messageOf(int rank) const;
  [[nodiscard]] Messages messages() const;

  RankCommunicators& communicators_;
  RankDevice& device_;
  const DataPools& pools_;
  const Collective& collective_;
  const MeasurementPlan& plan_;
  const PlainMpi* plainMpi_;
  int rank_;
  int rankCount_;
  RankBuffer sendPool_;  ///< a copy of this rank's pool: the library gets no byte of the original
  RankBuffer receive_;   ///< of a call in place the one buffer
  HostBuffer expected_;
  HostBuffer staging_;
  std::uint64_t callNumber_ = 0;  ///< equal on all ranks
  std::uint64_t count_ = 0;
  double spentSeconds_ = 0.0;  ///< in the calls of this size; equal on all ranks
};

}  // namespace zipccl::tools::perf
