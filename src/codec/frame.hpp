// SPDX-License-Identifier: Apache-2.0
//
// Frames by a chosen implementation of the tile codec: what encode() and decode() of
// zipccl/codec.hpp do with defaultTileCodec(). For tests and measurements, which force every
// implementation in turn.

#pragma once

#include "codec/tile_codec.hpp"
#include "zipccl/codec.hpp"

namespace zipccl::codec {

EncodeResult encodeWith(const TileCodec& codec, const FrameSpec& spec, const void* source,
                        std::span<std::byte> frame, const ApplicationWords& application);

[[nodiscard]] DecodeStatus decodeWith(const TileCodec& codec, const FrameSpec& expected,
                                      std::span<const std::byte> staticPart,
                                      std::span<const std::byte> dynamicPart,
                                      std::span<std::byte> output) noexcept;

}  // namespace zipccl::codec
