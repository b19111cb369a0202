// SPDX-License-Identifier: Apache-2.0
//
// What is said of samples: the median, and how far they spread.

#pragma once

#include <vector>

namespace zipccl::tools::perf {

struct Spread {
  double least = 0.0;
  double lowerQuartile = 0.0;
  double median = 0.0;
  double upperQuartile = 0.0;
  double most = 0.0;

  /// Half the distance of the quartiles, in percent of the median; 0 where that is 0.
  [[nodiscard]] double percent() const noexcept;
};

/// All zero for no samples; quantiles between two samples are interpolated.
[[nodiscard]] Spread spreadOf(std::vector<double> samples);

/// numerators[i] / denominators[i] for each pair; pairs with a zero denominator are left out. Both
/// have the same size.
[[nodiscard]] std::vector<double> pairRatios(const std::vector<double>& numerators,
                                             const std::vector<double>& denominators);

}  // namespace zipccl::tools::perf
