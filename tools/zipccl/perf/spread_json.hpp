// SPDX-License-Identifier: Apache-2.0
//
// A spread in the reports of all `perf` commands.

#pragma once

#include <nlohmann/json.hpp>

#include "perf/statistics.hpp"

namespace zipccl::tools::perf {

[[nodiscard]] inline nlohmann::ordered_json toJson(const Spread& spread) {
  return {{"median", spread.median},
          {"lowerQuartile", spread.lowerQuartile},
          {"upperQuartile", spread.upperQuartile},
          {"least", spread.least},
          {"most", spread.most}};
}

}  // namespace zipccl::tools::perf
