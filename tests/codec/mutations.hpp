// SPDX-License-Identifier: Apache-2.0
//
// Frames, changed here and there, before one implementation of the codec.

#pragma once

#include <cstdint>

#include "base/random.hpp"
#include "codec/tile_codec.hpp"

namespace zipccl::codec::testing {

/// Decodes `count` mutations of frames of every format, without checksums; half of the changes hit
/// header, descriptors and offsets of groups. Expects that each gives a status, that nothing is
/// touched out of bounds, that what is accepted does not depend on what stood in the output, and
/// that every status is reached. Prints how often each was.
void expectStatusesOfMutations(const TileCodec& codec, Random& random, std::uint64_t count);

}  // namespace zipccl::codec::testing
