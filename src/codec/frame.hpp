// SPDX-License-Identifier: Apache-2.0
//
// Frames by a chosen implementation of the tile codec: what the functions of zipccl/codec.hpp do
// with defaultTileCodec(). For tests and measurements, which force every implementation in turn.

#pragma once

#include "codec/tile_codec.hpp"
#include "zipccl/codec.hpp"

namespace zipccl::codec {

EncodeResult encodeWith(const TileCodec& codec, const FrameSpec& spec, const void* source,
                        std::span<std::byte> frame, const ApplicationWords& application,
                        CodecThreads* threads = nullptr);

[[nodiscard]] DecodeStatus decodeWith(const TileCodec& codec, const FrameSpec& expected,
                                      std::span<const std::byte> staticPart,
                                      std::span<const std::byte> dynamicPart,
                                      std::span<std::byte> output,
                                      CodecThreads* threads = nullptr) noexcept;

[[nodiscard]] DecodeStatus decodeFrameWith(const TileCodec& codec, std::span<const std::byte> frame,
                                           std::span<std::byte> output,
                                           CodecThreads* threads = nullptr) noexcept;

[[nodiscard]] ReduceResult decodeReduceWith(const TileCodec& codec, Datatype datatype,
                                            std::uint64_t elementCount,
                                            std::span<const Addend> addends, float factor,
                                            std::span<std::byte> output,
                                            CodecThreads* threads = nullptr) noexcept;

}  // namespace zipccl::codec
