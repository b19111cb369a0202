// SPDX-License-Identifier: Apache-2.0
//
// The arithmetic of reductions, in one place: what is added in which order and where it is rounded.
// Sum, Avg and PreMulSum of datatypes that have frames are the codec's scaled sums
// (codec/scaled_sum.hpp), and the kernels of the gpu floor do the same steps
// (gpu/decode_reduce.cu).
//
// Sum, Avg and PreMulSum of floating-point elements: each addend is multiplied by the factor and
// rounded to the datatype, unless the factor is 1; addends are added in fp32 (fp64 elements: in
// fp64) in the order of the ranks, beginning with the first, so that -0 alone stays -0; the sum is
// rounded once to the datatype. NaNs come out canonical: 0x7FFF in 16 bits, 0x7FFFFFFF in 32. The
// factor of Avg is 1 / ranks rounded to the datatype.
//
// Prod, Max and Min take the same order and rounding; Max and Min ignore NaNs where there is
// another value, and of equal ones, such as zeros of two signs, the first stays. Integers are
// reduced in their datatype and wrap around; their Avg divides the sum at the end, towards zero,
// and their PreMulSum multiplies each addend.

#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "collectives/datatype.hpp"

namespace zipccl::collectives {

/// Values of the first five are NCCL's.
enum class ReduceOp : std::uint8_t {
  kSum = 0,
  kProd = 1,
  kMax = 2,
  kMin = 3,
  kAvg = 4,
  kPreMulSum = 5,
};

/// `Sum`, ...
[[nodiscard]] std::string_view reduceOpName(ReduceOp op) noexcept;

struct Reduction {
  ReduceOp op = ReduceOp::kSum;
  std::array<std::byte, 8> scalar{};  ///< of kPreMulSum: an element of the datatype, then zeros
};

/// Whether elements of `datatype` can be reduced: all but the 8-bit floating-point ones.
[[nodiscard]] bool canReduce(Datatype datatype) noexcept;

/// Whether `reduction` is a sum of addends that are each multiplied by factorOf(): what frames of a
/// datatype that has them are reduced by.
[[nodiscard]] bool isScaledSum(const Reduction& reduction) noexcept;

/// The factor of a scaled sum of 16-bit or 32-bit floating-point elements over `rankCount` ranks: a
/// number of the datatype.
[[nodiscard]] float factorOf(const Reduction& reduction, Datatype datatype, int rankCount) noexcept;

/// Reduces `elementCount` elements of each of `addends`, in their order, of a datatype that
/// canReduce(). `output` may be one of the addends, and overlaps none otherwise.
void reduceElements(Datatype datatype, const Reduction& reduction,
                    std::span<const void* const> addends, std::uint64_t elementCount,
                    void* output) noexcept;

}  // namespace zipccl::collectives
