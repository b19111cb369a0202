// SPDX-License-Identifier: Apache-2.0
//
// The AVX-512 implementation on machines without AVX-512, behind the interface of a tile codec. In
// all sources that are compiled for it the namespace avx512 has another name (CMakeLists.txt), so
// that they and the library's own can be in one program.

#include "codec/emulated_codec.hpp"

#include "codec/x86/avx512_tile.hpp"

namespace zipccl::codec::testing {
namespace {

class EmulatedTileCodec final : public TileCodec {
 public:
  [[nodiscard]] const char* name() const noexcept override { return "emulated avx512"; }

  [[nodiscard]] std::uint32_t encode(TileFormat format, const std::byte* elements,
                                     const TileSink& sink) const noexcept override {
    return avx512::encodeTile(format, elements, sink);
  }

  [[nodiscard]] bool decode(TileFormat format, std::uint32_t descriptor, const TileSource& source,
                            std::byte* elements) const noexcept override {
    return avx512::decodeTile(format, descriptor, source, elements);
  }
};

}  // namespace

const TileCodec& emulatedAvx512TileCodec() noexcept {
  static const EmulatedTileCodec codec;
  return codec;
}

}  // namespace zipccl::codec::testing
