// SPDX-License-Identifier: Apache-2.0
//
// Ranks in words, for the messages of transports.

#pragma once

#include <string>
#include <vector>

namespace zipccl::transport {

/// `rank 3`, `ranks 1 and 4`, `ranks 0, 2 and 5`: sorted, each once. Needs at least one.
[[nodiscard]] std::string listRanks(std::vector<int> ranks);

}  // namespace zipccl::transport
