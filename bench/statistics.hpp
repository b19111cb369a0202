// SPDX-License-Identifier: Apache-2.0
//
// What is said of samples: the median, and how far they spread.

#pragma once

#include <vector>

namespace zipccl::bench {

struct Spread {
  double least = 0.0;
  double lowerQuartile = 0.0;
  double median = 0.0;
  double upperQuartile = 0.0;
  double most = 0.0;
};

/// All zero for no samples; quantiles between two samples are interpolated.
[[nodiscard]] Spread spreadOf(std::vector<double> samples);

}  // namespace zipccl::bench
