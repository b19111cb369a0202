// SPDX-License-Identifier: Apache-2.0
//
// What the page draws: exponents as they were found, a Gaussian's beside them, and the window.

#pragma once

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>
#include <zipccl/codec.hpp>

#include "inspect/statistics.hpp"

namespace zipccl::tools::inspect {

struct Picture {
  /// Of the first bar: a power of two, or octaves above the base of each tile's own window.
  int firstExponent = 0;
  bool isRelative = false;
  std::vector<std::uint64_t> counts;
  std::vector<std::uint64_t> coded;    ///< of these, how many a code names
  std::vector<std::uint64_t> escaped;  ///< how many are escapes; the others have no window
  std::vector<double> expected;        ///< shares of a Gaussian
  std::uint64_t zeroField = 0;         ///< zeros and subnormal numbers, which have no exponent
  double expectedZeroField = 0.0;
  std::uint64_t codedZeroField = 0;
  std::uint64_t escapedZeroField = 0;
  /// The lowest exponent of the most frequent window, and its size.
  std::optional<std::pair<int, int>> window;
  double windowShare = 0.0;  ///< of the tiles with a window, those with this one
};

/// Of the exponents as they are, beside a Gaussian of the same mean magnitude.
[[nodiscard]] Picture pictureOf(codec::Datatype datatype, const Statistics& statistics);

/// Of the tiles of kind seven, their windows lined up, beside a Gaussian of each tile's own mean
/// magnitude; of any number of tensors. Nothing where there is no such tile.
[[nodiscard]] std::optional<Picture> relativePictureOf(const Statistics& statistics);

}  // namespace zipccl::tools::inspect
