// SPDX-License-Identifier: Apache-2.0
//
// Which of the instruction sets of target.hpp this machine and its kernel have.

#pragma once

namespace zipccl::codec {

/// With bit manipulation (BMI2) and fp16 conversion (F16C), which are no younger.
[[nodiscard]] bool cpuHasAvx2() noexcept;

/// With byte permutations and compression (VBMI, VBMI2): Intel from Ice Lake on, AMD from Zen 4.
[[nodiscard]] bool cpuHasAvx512() noexcept;

}  // namespace zipccl::codec
