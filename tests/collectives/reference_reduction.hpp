// SPDX-License-Identifier: Apache-2.0
//
// What a reduction must give, bit for bit, written another way than the library: every rounding
// looks for the nearest number among those that the datatype has.

#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "collectives/datatype.hpp"
#include "collectives/reduction.hpp"

namespace zipccl::collectives::testing {

/// `value` rounded to a bf16 or fp16 number, ties to the even one; NaNs are 0x7FFF.
[[nodiscard]] std::uint16_t nearestNumber(Datatype datatype, double value);

/// The value of a bf16 or fp16 number.
[[nodiscard]] double valueOf(Datatype datatype, std::uint16_t bits);

/// The elements of `addends`, one a rank, reduced. All have the same size.
[[nodiscard]] std::vector<std::byte> referenceReduction(
    Datatype datatype, const Reduction& reduction,
    const std::vector<std::vector<std::byte>>& addends);

/// A PreMulSum by `factor`, rounded to the datatype.
[[nodiscard]] Reduction preMulSum(Datatype datatype, double factor);

}  // namespace zipccl::collectives::testing
