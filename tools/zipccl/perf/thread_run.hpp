// SPDX-License-Identifier: Apache-2.0
//
// A run whose ranks are threads of this process.

#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "perf/communicator.hpp"
#include "perf/rank_device.hpp"
#include "perf/report.hpp"
#include "perf/run.hpp"

namespace zipccl::tools::perf {

/// What a rank works with.
struct RankEnds {
  std::unique_ptr<RankDevice> device;  ///< ends last: calls are ordered by it
  RankCommunicators communicators;
};

struct ThreadRun {
  int ranks = 1;
  /// What all ranks need, once it is known that the run is possible; says what is known of the
  /// transport.
  std::function<void(RunInfo& info)> prepare;
  /// Opens a rank's ends, in its thread; all ranks at once.
  std::function<RankEnds(int rank)> open;
};

/// As run() of perf/run.hpp.
[[nodiscard]] ExitStatus runThreads(const ThreadRun& run, const Options& options,
                                    const std::vector<std::string>& arguments,
                                    const Streams& streams);

}  // namespace zipccl::tools::perf
