// SPDX-License-Identifier: Apache-2.0
//
// The arithmetic of scaled sums, which are the reductions Sum, Avg and PreMulSum: each addend is
// multiplied by the factor and rounded to the datatype, unless the factor is 1; addends are added
// in fp32 in the order of the calls, beginning with the first, so that -0 alone stays -0; the sum
// is rounded once to the datatype, NaNs to a canonical one (number.hpp). The gpu floor does the
// same steps (gpu/decode_reduce.cu).
//
// Here are the scalar reference, and one by AVX2 that gives the same bits. A tile codec has one of
// them (tile_codec.hpp).

#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "zipccl/codec.hpp"

namespace zipccl::codec {

/// How an addend is added.
struct ScaledAddend {
  Datatype datatype = Datatype::kBfloat16;
  float factor = 1.0F;   ///< a number of the datatype
  bool isFirst = false;  ///< sets the sums rather than adding to them
};

/// Writes the scaled sum of `addends`, of `elementCount` elements each, to `output`, which may be
/// one of them, by the implementation that ZIPCCL_HOST_CODEC chose. No alignment is needed. Without
/// addends nothing is written.
void addUp(Datatype datatype, float factor, std::span<const void* const> addends,
           std::uint64_t elementCount, void* output) noexcept;

namespace scalar {

/// Adds `sums.size()` elements, of any alignment, to `sums`.
void addScaled(const ScaledAddend& addend, const std::byte* elements,
               std::span<float> sums) noexcept;
/// Rounds `sums` to elements of `datatype`, of any alignment.
void roundSums(Datatype datatype, std::span<const float> sums, std::byte* elements) noexcept;

}  // namespace scalar

namespace avx2 {

/// For machines that have what cpuHasAvx2() asks for.
void addScaled(const ScaledAddend& addend, const std::byte* elements,
               std::span<float> sums) noexcept;
void roundSums(Datatype datatype, std::span<const float> sums, std::byte* elements) noexcept;

}  // namespace avx2
}  // namespace zipccl::codec
