// SPDX-License-Identifier: Apache-2.0
//
// The AVX-512 implementation on machines without AVX-512: the same sources, with intrinsics that
// are functions (emulated/immintrin.h), against the scalar reference.

#include <gtest/gtest.h>

#include "codec/tile_bytes.hpp"
#include "codec/x86/avx512_tile.hpp"
#include "support/seeded_test.hpp"

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

  void addScaled(const ScaledAddend& addend, const std::byte* elements,
                 std::span<float> sums) const noexcept override {
    scalar::addScaled(addend, elements, sums);
  }

  void roundSums(Datatype datatype, std::span<const float> sums,
                 std::byte* elements) const noexcept override {
    scalar::roundSums(datatype, sums, elements);
  }
};

class Avx512Emulated : public zipccl::testing::SeededTest {
 protected:
  EmulatedTileCodec codec_;
};

TEST_F(Avx512Emulated, GivesTheBytesOfTheReference) {
  expectBytesOfTheReference(codec_, random_, 300);
}

TEST_F(Avx512Emulated, DecodesAnyBytesAlike) { expectDecodesAnyBytesAlike(codec_, random_, 2000); }

}  // namespace
}  // namespace zipccl::codec::testing
