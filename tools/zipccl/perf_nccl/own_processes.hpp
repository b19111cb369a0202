// SPDX-License-Identifier: Apache-2.0
//
// A launcher for the ranks of one host: this program once more for each, as torchrun would start
// it.

#pragma once

#include <string>
#include <vector>

#include "support/failure.hpp"

namespace zipccl::tools::perf_nccl {

/// Starts `arguments` so often and waits for all; when one ends badly, it ends the others. Returns
/// the status of the first that ended badly. Throws Failure.
[[nodiscard]] ExitStatus runProcesses(const std::vector<std::string>& arguments, int count);

}  // namespace zipccl::tools::perf_nccl
