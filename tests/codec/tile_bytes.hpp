// SPDX-License-Identifier: Apache-2.0
//
// One implementation of a tile against the scalar reference, piece by piece.

#pragma once

#include "base/random.hpp"
#include "codec/tile_codec.hpp"

namespace zipccl::codec::testing {

/// Tiles of every kind of content: the reference's bytes, and back. No byte outside the pieces is
/// touched.
void expectBytesOfTheReference(const TileCodec& codec, Random& random, int repeats);

/// Records of random bits under descriptors of every kind, with the number of escapes that the
/// codes hold, and with one more and one less: what the reference makes of them, and no byte
/// outside the pieces is touched.
void expectDecodesAnyBytesAlike(const TileCodec& codec, Random& random, int repeats);

}  // namespace zipccl::codec::testing
