// SPDX-License-Identifier: Apache-2.0
//
// What a centred Gaussian would look like: docs/theory.md sections 2 and 6.

#pragma once

#include <array>
#include <zipccl/codec.hpp>

#include "inspect/statistics.hpp"

namespace zipccl::tools::inspect {

/// The share of each exponent field in N(0, sigma), rounded to `datatype`; all of it in field 0 for
/// a sigma of 0.
[[nodiscard]] std::array<double, Statistics::kFields> gaussianFields(codec::Datatype datatype,
                                                                     double sigma);

/// The share of the magnitudes from 2^exponent to below 2^(exponent + 1) in N(0, sigma), not
/// rounded.
[[nodiscard]] double gaussianOctave(double sigma, int exponent) noexcept;

}  // namespace zipccl::tools::inspect
