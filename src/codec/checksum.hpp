// SPDX-License-Identifier: Apache-2.0
//
// The checksum of a frame's content (docs/format.md section 8).

#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "zipccl/codec.hpp"

namespace zipccl::codec {

/// Of elements as bytes in memory order, their datatype and their number.
[[nodiscard]] std::uint64_t contentChecksum(Datatype datatype,
                                            std::span<const std::byte> elements) noexcept;

}  // namespace zipccl::codec
