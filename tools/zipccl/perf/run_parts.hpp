// SPDX-License-Identifier: Apache-2.0
//
// What runs over the transports have in common.

#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "perf/collective.hpp"
#include "perf/data_pools.hpp"
#include "perf/data_source.hpp"
#include "perf/measurement.hpp"
#include "perf/options.hpp"
#include "perf/progress.hpp"
#include "perf/report.hpp"
#include "perf/run.hpp"

namespace zipccl::tools::perf {

/// What follows from the command line alone.
struct RunSetup {
  std::unique_ptr<DataSource> source;
  std::vector<std::uint64_t> sizes;
  MeasurementPlan plan;
  RunReport report;  ///< without ranks, hosts and seed
};

/// Throws UsageError or Failure.
[[nodiscard]] RunSetup prepare(const Options& options, const std::vector<std::string>& arguments);

/// The collective's count for each size.
[[nodiscard]] std::vector<std::uint64_t> messageCounts(const RunSetup& setup,
                                                       const Collective& collective);

/// The most elements that a rank sends or receives in a call.
[[nodiscard]] std::uint64_t mostSendElements(const Collective& collective, std::uint64_t count);
[[nodiscard]] std::uint64_t mostReceiveElements(const Collective& collective, std::uint64_t count);

/// Who shares the memory of this machine.
struct MachineShare {
  int processes = 1;
  int ranksOfProcess = 1;
};

/// Throws Failure when the buffers would not fit into this machine's memory.
void expectMemory(std::uint64_t mostCount, const PoolGeometry& geometry,
                  const Collective& collective, const MachineShare& share);

/// Writes the table as the run goes on, and the JSON file at its end.
class Reporter {
 public:
  /// Throws Failure when the JSON file cannot be made.
  Reporter(RunReport& report, const Streams& streams);

  void begin();
  void add(const SizeResult& result);
  /// Throws Failure when something could not be written.
  void end();
  [[nodiscard]] Progress& progress() noexcept { return progress_; }

 private:
  RunReport& report_;
  const Streams& streams_;
  Progress progress_;
  std::optional<ReportFile> file_;
};

[[nodiscard]] ExitStatus runLocal(const Options& options, const std::vector<std::string>& arguments,
                                  const Streams& streams);
[[nodiscard]] ExitStatus runMpi(const Options& options, const std::vector<std::string>& arguments,
                                const Streams& streams);

}  // namespace zipccl::tools::perf
