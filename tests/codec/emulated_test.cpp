// SPDX-License-Identifier: Apache-2.0
//
// The AVX-512 implementation, emulated, against the scalar reference and before bytes that are no
// frames.

#include <gtest/gtest.h>

#include "codec/emulated_codec.hpp"
#include "codec/mutations.hpp"
#include "codec/tile_bytes.hpp"
#include "support/seeded_test.hpp"

namespace zipccl::codec::testing {
namespace {

class Avx512Emulated : public zipccl::testing::SeededTest {
 protected:
  const TileCodec& codec_ = emulatedAvx512TileCodec();
};

TEST_F(Avx512Emulated, GivesTheBytesOfTheReference) {
  expectBytesOfTheReference(codec_, random_, 300);
}

TEST_F(Avx512Emulated, DecodesAnyBytesAlike) { expectDecodesAnyBytesAlike(codec_, random_, 2000); }

TEST_F(Avx512Emulated, GivesAStatusToMutations) {
  expectStatusesOfMutations(codec_, random_, zipccl::testing::repeats(20'000, 1'000'000));
}

}  // namespace
}  // namespace zipccl::codec::testing
