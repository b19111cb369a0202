// SPDX-License-Identifier: Apache-2.0
//
// Which implementations of a tile this machine can run.

#include "codec/tile_codec.hpp"

#include <array>

namespace zipccl::codec {

std::span<const TileCodec* const> tileCodecs() noexcept {
  static const std::array<const TileCodec*, 1> codecs = {&scalarTileCodec()};
  return codecs;
}

}  // namespace zipccl::codec
