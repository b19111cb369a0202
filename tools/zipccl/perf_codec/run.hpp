// SPDX-License-Identifier: Apache-2.0
//
// A whole run of `zipccl perf codec`.

#pragma once

#include <string>
#include <vector>

#include "perf/run.hpp"
#include "perf_codec/options.hpp"
#include "support/failure.hpp"

namespace zipccl::tools::perf_codec {

/// Runs what `options` say; `arguments` is the command line, for the report. Returns kSuccess or
/// kWrongBits, throws UsageError or Failure, and what the codec throws.
[[nodiscard]] ExitStatus run(const Options& options, const std::vector<std::string>& arguments,
                             const perf::Streams& streams);

}  // namespace zipccl::tools::perf_codec
