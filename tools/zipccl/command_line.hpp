// SPDX-License-Identifier: Apache-2.0
//
// The command `zipccl` as a function of its arguments.

#pragma once

#include <string>
#include <vector>

#include "perf/run.hpp"
#include "support/failure.hpp"

namespace zipccl::tools {

/// Carries out a command line, of which `arguments` begins with the program's name. Never throws:
/// what went wrong is written to the error stream.
[[nodiscard]] ExitStatus runCommandLine(const std::vector<std::string>& arguments,
                                        const perf::Streams& streams) noexcept;

}  // namespace zipccl::tools
