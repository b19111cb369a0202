// SPDX-License-Identifier: Apache-2.0
//
// What a reduction must give: the documented order (zipcclRedOp_t in zipccl/zipccl.h), computed
// apart from the library, and exact sums to tell how far roundings go.

#pragma once

#include <zipccl/zipccl.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "perf/collective_name.hpp"

namespace zipccl::tools::perf {

/// The factor of kScaledSum here: no power of two, and no number of a 16-bit datatype.
inline constexpr float kScaledSumFactor = 0.7F;

/// Whether this file knows the datatype: those that the library compresses.
[[nodiscard]] bool canCheckReduction(zipcclDataType_t datatype) noexcept;

/// `factor` as an element of `datatype`.
[[nodiscard]] std::vector<std::byte> elementOf(zipcclDataType_t datatype, float factor);

/// Reduces elements first to first + count of all addends, in their order, into `sums`.
void reduceInOrder(zipcclDataType_t datatype, ReduceOperation operation,
                   const std::vector<std::span<const std::byte>>& addends, std::uint64_t first,
                   std::span<std::byte> sums);

/// Sums of squares, of errors and of exact values.
struct SquaredError {
  double error = 0.0;
  double exact = 0.0;

  SquaredError& operator+=(const SquaredError& other) noexcept {
    error += other.error;
    exact += other.exact;
    return *this;
  }
  /// Root of the mean square of the error over that of the exact values; 0 where there are none.
  [[nodiscard]] double relative() const noexcept {
    return exact == 0.0 ? 0.0 : std::sqrt(error / exact);
  }
};

/// The distance of `sums` from what fp64 gives: with the factor, too, as it was before rounding.
[[nodiscard]] SquaredError errorOf(zipcclDataType_t datatype, ReduceOperation operation,
                                   const std::vector<std::span<const std::byte>>& addends,
                                   std::uint64_t first, std::span<const std::byte> sums);

}  // namespace zipccl::tools::perf
