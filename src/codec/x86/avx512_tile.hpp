// SPDX-License-Identifier: Apache-2.0
//
// One tile by AVX-512 with VBMI2. The frames are those of the scalar reference, byte for byte.

#pragma once

#include "codec/tile_codec.hpp"

namespace zipccl::codec::avx512 {

[[nodiscard]] std::uint32_t encodeTile(TileFormat format, const std::byte* elements,
                                       const TileSink& sink) noexcept;
[[nodiscard]] bool decodeTile(TileFormat format, std::uint32_t descriptor, const TileSource& source,
                              std::byte* elements) noexcept;

}  // namespace zipccl::codec::avx512
