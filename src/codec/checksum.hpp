// SPDX-License-Identifier: Apache-2.0
//
// The checksum of a frame's content (docs/format.md section 8).

#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace zipccl::codec {

/// Of the elements as bytes in memory order.
[[nodiscard]] std::uint64_t contentChecksum(std::span<const std::byte> elements) noexcept;

}  // namespace zipccl::codec
