// SPDX-License-Identifier: Apache-2.0
//
// What is said of samples.

#include "perf/statistics.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>

namespace zipccl::tools::perf {
namespace {

double quantile(const std::vector<double>& sorted, double fraction) {
  const double place = fraction * static_cast<double>(sorted.size() - 1);
  const auto below = static_cast<std::size_t>(place);
  const std::size_t above = std::min(below + 1, sorted.size() - 1);
  return std::lerp(sorted[below], sorted[above], place - static_cast<double>(below));
}

}  // namespace

double Spread::percent() const noexcept {
  return median == 0.0 ? 0.0 : 50.0 * (upperQuartile - lowerQuartile) / median;
}

Spread spreadOf(std::vector<double> samples) {
  if (samples.empty()) return {};
  std::sort(samples.begin(), samples.end());
  return {samples.front(), quantile(samples, 0.25), quantile(samples, 0.5), quantile(samples, 0.75),
          samples.back()};
}

std::vector<double> pairRatios(const std::vector<double>& numerators,
                               const std::vector<double>& denominators) {
  std::vector<double> ratios;
  for (std::size_t i = 0; i < numerators.size(); ++i) {
    if (denominators[i] != 0.0) ratios.push_back(numerators[i] / denominators[i]);
  }
  return ratios;
}

}  // namespace zipccl::tools::perf
