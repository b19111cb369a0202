// SPDX-License-Identifier: Apache-2.0
//
// Ranks in words.

#include "transport/rank_list.hpp"

#include <algorithm>

#include "base/text.hpp"

namespace zipccl::transport {

std::string listRanks(std::vector<int> ranks) {
  std::sort(ranks.begin(), ranks.end());
  ranks.erase(std::unique(ranks.begin(), ranks.end()), ranks.end());
  std::string out = ranks.size() == 1 ? "rank " : "ranks ";
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    out += concat(i == 0 ? "" : i + 1 == ranks.size() ? " and " : ", ", ranks[i]);
  }
  return out;
}

}  // namespace zipccl::transport
