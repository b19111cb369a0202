// SPDX-License-Identifier: Apache-2.0
//
// Numbers as 16-bit floating-point formats, rounded to nearest, ties to even.

#pragma once

#include <cstdint>

namespace zipccl::testing {

[[nodiscard]] std::uint16_t bfloat16Bits(float value);
[[nodiscard]] std::uint16_t float16Bits(float value);

}  // namespace zipccl::testing
