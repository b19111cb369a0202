// SPDX-License-Identifier: Apache-2.0
//
// The AVX-512 implementation behind the interface of a tile codec. It takes from AVX2 what measures
// faster by it (docs/decisions/0008-avx512-encodes-fp16-alone.md): the bytes are the same.

#include "codec/x86/avx512_tile.hpp"

#include "codec/x86/avx2_tile.hpp"
#include "codec/x86/cpu.hpp"

namespace zipccl::codec {
namespace {

class Avx512TileCodec final : public TileCodec {
 public:
  [[nodiscard]] const char* name() const noexcept override { return "avx512"; }

  [[nodiscard]] std::uint32_t encode(TileFormat format, const std::byte* elements,
                                     const TileSink& sink) const noexcept override {
    return format.datatype == Datatype::kFloat16 ? avx512::encodeTile(format, elements, sink)
                                                 : avx2::encodeTile(format, elements, sink);
  }

  [[nodiscard]] bool decode(TileFormat format, std::uint32_t descriptor, const TileSource& source,
                            std::byte* elements) const noexcept override {
    return avx512::decodeTile(format, descriptor, source, elements);
  }

  void addScaled(const ScaledAddend& addend, const std::byte* elements,
                 std::span<float> sums) const noexcept override {
    avx2::addScaled(addend, elements, sums);
  }

  void roundSums(Datatype datatype, std::span<const float> sums,
                 std::byte* elements) const noexcept override {
    avx2::roundSums(datatype, sums, elements);
  }
};

}  // namespace

const TileCodec* avx512TileCodec() noexcept {
  static const Avx512TileCodec codec;
  return cpuHasAvx512() ? &codec : nullptr;
}

}  // namespace zipccl::codec
