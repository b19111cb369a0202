// SPDX-License-Identifier: Apache-2.0
//
// The flags of `zipccl perf codec`: those of the collectives where they have them.

#pragma once

#include "perf_codec/options.hpp"

namespace CLI {
class App;
}

namespace zipccl::tools::perf_codec {

/// Adds the flags to `command`; parsing then fills `options`, which must outlive it.
void addFlags(CLI::App& command, Options& options);

}  // namespace zipccl::tools::perf_codec
