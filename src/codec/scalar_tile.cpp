// SPDX-License-Identifier: Apache-2.0
//
// The scalar reference behind the interface of a tile codec.

#include "codec/scalar_tile.hpp"

namespace zipccl::codec {
namespace {

class ScalarTileCodec final : public TileCodec {
 public:
  [[nodiscard]] const char* name() const noexcept override { return "scalar"; }

  [[nodiscard]] std::uint32_t encode(TileFormat format, const std::byte* elements,
                                     const TileSink& sink) const noexcept override {
    return scalar::encodeTile(format, elements, sink);
  }

  [[nodiscard]] bool decode(TileFormat format, std::uint32_t descriptor, const TileSource& source,
                            std::byte* elements) const noexcept override {
    return scalar::decodeTile(format, descriptor, source, elements);
  }
};

}  // namespace

const TileCodec& scalarTileCodec() noexcept {
  static const ScalarTileCodec codec;
  return codec;
}

}  // namespace zipccl::codec
