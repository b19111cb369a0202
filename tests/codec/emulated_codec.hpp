// SPDX-License-Identifier: Apache-2.0
//
// The AVX-512 implementation on machines without AVX-512: the same sources, with intrinsics that
// are functions (emulated/immintrin.h). Slow.

#pragma once

#include "codec/tile_codec.hpp"

namespace zipccl::codec::testing {

/// Stands beside the library's own, which runs where the machine has the instructions. Its sums are
/// those of the scalar reference.
[[nodiscard]] const TileCodec& emulatedAvx512TileCodec() noexcept;

}  // namespace zipccl::codec::testing
