// SPDX-License-Identifier: Apache-2.0
//
// The checksum of a frame's content (docs/format.md section 8): a sum over the elements' 64-bit
// words, so that parts can be added up in any order.

#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "zipccl/codec.hpp"

namespace zipccl::codec {

/// What the number and the datatype of the elements add.
[[nodiscard]] std::uint64_t checksumOfKind(Datatype datatype, std::uint64_t elementCount) noexcept;

/// What a part of the elements adds, as bytes in memory order, of which the first is byte
/// `firstByte` of all, a multiple of 8. Only the last part may be of a size that is not.
[[nodiscard]] std::uint64_t checksumOfPart(std::span<const std::byte> elements,
                                           std::uint64_t firstByte) noexcept;

}  // namespace zipccl::codec
