// SPDX-License-Identifier: Apache-2.0
//
// A run whose ranks are processes that a launcher started. What a process finds out alone, before
// the measurements, the others are told before any of them ends, so that the job ends with one
// status and one message.

#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "perf/communicator.hpp"
#include "perf/plain_mpi.hpp"
#include "perf/rank_device.hpp"
#include "perf/rank_runner.hpp"
#include "perf/run_parts.hpp"

namespace zipccl::tools::perf {

/// One rank's part. Transports derive from it.
class ProcessRun {
 public:
  ProcessRun(const Options& options, const std::vector<std::string>& arguments,
             const Streams& streams, std::unique_ptr<Control> control);
  ProcessRun(const ProcessRun&) = delete;
  ProcessRun& operator=(const ProcessRun&) = delete;
  virtual ~ProcessRun() = default;

  /// As run() of perf/run.hpp.
  [[nodiscard]] ExitStatus run();

 protected:
  /// Makes `communicators().native` and `.zipccl`; all ranks at once, after they agreed on what
  /// they measure.
  virtual void open() = 0;
  /// Where the buffers of calls are.
  [[nodiscard]] virtual RankDevice& device() = 0;
  /// Opens what else is measured beside them, or null.
  [[nodiscard]] virtual const PlainMpi* openPlainMpi() { return nullptr; }
  virtual void close() {}
  [[nodiscard]] virtual std::string launcher() const = 0;

  /// Runs `step` on all ranks. If it fails somewhere, it fails everywhere.
  void agree(const std::function<void()>& step);

  [[nodiscard]] const Options& options() const noexcept { return options_; }
  [[nodiscard]] RankCommunicators& communicators() noexcept { return communicators_; }
  [[nodiscard]] Control& control() noexcept { return *communicators_.control; }
  [[nodiscard]] RunInfo& info() noexcept { return setup_.report.info; }
  [[nodiscard]] const Collective& collective() const noexcept { return *collective_; }
  [[nodiscard]] std::uint64_t mostCount() const noexcept { return counts_.back(); }
  [[nodiscard]] int rank() const noexcept { return rank_; }
  [[nodiscard]] int ranks() const noexcept { return ranks_; }
  [[nodiscard]] int ranksOfHost() const noexcept { return ranksOfHost_; }

 private:
  /// Ends a run for a reason that all ranks have found: rank 0 says it.
  [[noreturn]] void failEverywhere(ExitStatus status, const std::string& message) const;
  void greet();
  void makeData();
  /// Every rank holds what all send; what a file says on one host, it may not on another.
  void comparePools();
  void measure(const PlainMpi* plainMpi);

  const Options& options_;
  const std::vector<std::string>& arguments_;
  const Streams& streams_;
  RankCommunicators communicators_;
  int rank_;
  int ranks_;
  int hosts_ = 1;
  int ranksOfHost_ = 1;
  std::uint64_t seed_ = 0;
  RunSetup setup_;
  std::unique_ptr<Collective> collective_;
  std::vector<std::uint64_t> counts_;
  std::optional<DataPools> pools_;
  std::optional<Reporter> reporter_;
};

}  // namespace zipccl::tools::perf
