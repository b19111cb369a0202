// SPDX-License-Identifier: Apache-2.0
//
// Shares of a Gaussian from the error function.

#include "inspect/gaussian.hpp"

#include <cmath>
#include <numbers>

namespace zipccl::tools::inspect {

std::array<double, Statistics::kFields> gaussianFields(codec::Datatype datatype, double sigma) {
  std::array<double, Statistics::kFields> shares{};
  const ElementFormat format = elementFormat(datatype);
  // What is nearer to a power of two than half a unit of the last place below it rounds up to it.
  const double rounding = 1.0 - std::exp2(-2.0 - format.mantissaBits);
  double below = 0.0;
  for (unsigned field = 0; field < format.fields(); ++field) {
    const double end = std::ldexp(rounding, format.leastExponent() + static_cast<int>(field));
    const bool isLast = field + 1 == format.fields();
    const double until =
        isLast || sigma == 0.0 ? 1.0 : std::erf(end / (sigma * std::numbers::sqrt2));
    shares[field] = until - below;
    below = until;
  }
  return shares;
}

double gaussianOctave(double sigma, int exponent) noexcept {
  const double begin = std::ldexp(1.0, exponent) / (sigma * std::numbers::sqrt2);
  return std::erf(2.0 * begin) - std::erf(begin);
}

}  // namespace zipccl::tools::inspect
