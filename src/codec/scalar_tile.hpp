// SPDX-License-Identifier: Apache-2.0
//
// The scalar reference of one tile (docs/format.md sections 4 to 6), written to be read: what every
// other implementation, on a host or a GPU, is held against.

#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "codec/tile_codec.hpp"

namespace zipccl::codec::scalar {

template <typename T>
using BySlot = std::array<std::array<T, kSlots>, kLanes>;

/// The elements of a tile, taken apart into halves and dealt to lanes and slots (section 4).
struct TileHalves {
  BySlot<std::uint16_t> upper;
  BySlot<std::uint16_t> low;  ///< all zero for 16-bit datatypes
};

[[nodiscard]] std::uint32_t encodeTile(TileFormat format, const std::byte* elements,
                                       const TileSink& sink) noexcept;
[[nodiscard]] bool decodeTile(TileFormat format, std::uint32_t descriptor, const TileSource& source,
                              std::byte* elements) noexcept;

}  // namespace zipccl::codec::scalar
