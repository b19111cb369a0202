// SPDX-License-Identifier: Apache-2.0
//
// The flags of `zipccl perf`: those of nccl-tests where it has them.

#pragma once

#include "perf/options.hpp"

namespace CLI {
class App;
}

namespace zipccl::tools::perf {

/// Adds the flags that every collective has to `command`; parsing then fills `options`, which must
/// outlive it.
void addFlags(CLI::App& command, Options& options);

/// Adds those that `name` alone has.
void addCollectiveFlags(CLI::App& command, CollectiveName name, Options& options);

}  // namespace zipccl::tools::perf
