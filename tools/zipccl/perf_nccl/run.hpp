// SPDX-License-Identifier: Apache-2.0
//
// A run of `zipccl perf` over NCCL.

#pragma once

#include <string>
#include <vector>

#include "perf/options.hpp"
#include "perf/run.hpp"

namespace zipccl::tools::perf_nccl {

/// As run() of perf/run.hpp. Ranks are the processes of a launcher where one has started this one;
/// else, as the options say, processes that are started here, or threads.
[[nodiscard]] ExitStatus runNccl(const perf::Options& options,
                                 const std::vector<std::string>& arguments,
                                 const perf::Streams& streams);

}  // namespace zipccl::tools::perf_nccl
