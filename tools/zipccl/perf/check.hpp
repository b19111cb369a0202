// SPDX-License-Identifier: Apache-2.0
//
// Whether what arrived is what was sent, bit for bit.

#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace zipccl::tools::perf {

/// Fills `output` with bytes each of which differs from the one that is expected there, so that
/// what is never written counts as wrong. Both have the same size.
void poison(std::span<std::byte> output, std::span<const std::byte> expected) noexcept;

/// How many elements differ in any bit. Both have the same size, a multiple of `elementBytes`.
[[nodiscard]] std::uint64_t wrongElements(std::span<const std::byte> actual,
                                          std::span<const std::byte> expected,
                                          std::size_t elementBytes) noexcept;

}  // namespace zipccl::tools::perf
