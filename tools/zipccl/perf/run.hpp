// SPDX-License-Identifier: Apache-2.0
//
// A whole run of `zipccl perf`: data, ranks, measurements, report.

#pragma once

#include <iosfwd>
#include <string>
#include <vector>

#include "perf/options.hpp"
#include "support/failure.hpp"

namespace zipccl::tools::perf {

/// Where a run writes.
struct Streams {
  std::ostream& out;
  std::ostream& error;
  bool isErrorTerminal;  ///< progress is shown there
};

/// Runs what `options` say; `arguments` is the command line, for the report. Returns kSuccess or
/// kWrongBits, throws UsageError or Failure. With the mpi transport only rank 0 writes, but for
/// errors that it cannot know, and all ranks end alike.
[[nodiscard]] ExitStatus run(const Options& options, const std::vector<std::string>& arguments,
                             const Streams& streams);

}  // namespace zipccl::tools::perf
