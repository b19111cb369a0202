// SPDX-License-Identifier: Apache-2.0
//
// Numbers as elements of a datatype, rounded to nearest, ties to even.

#pragma once

#include <zipccl/zipccl.h>

#include <cstddef>
#include <cstdint>

namespace zipccl::tools::perf {

/// The bits of `value` in a small floating-point format with subnormals, the sign on top. What is
/// too large becomes the largest finite number; `largestBits` are its bits without the sign.
[[nodiscard]] std::uint32_t toSmallFloat(double value, int exponentBits, int mantissaBits,
                                         std::uint32_t largestBits);

/// Writes `value`, finite, as the element that begins at `to`, of a floating-point datatype.
void writeElement(zipcclDataType_t datatype, double value, std::byte* to);

}  // namespace zipccl::tools::perf
