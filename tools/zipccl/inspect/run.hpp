// SPDX-License-Identifier: Apache-2.0
//
// A whole run of `zipccl inspect`.

#pragma once

#include <string>
#include <vector>

#include "inspect/options.hpp"
#include "perf/run.hpp"
#include "support/failure.hpp"

namespace zipccl::tools::inspect {

/// Runs what `options` say; `arguments` is the command line, for the report. Returns kSuccess,
/// throws UsageError or Failure.
[[nodiscard]] ExitStatus run(const Options& options, const std::vector<std::string>& arguments,
                             const perf::Streams& streams);

}  // namespace zipccl::tools::inspect
