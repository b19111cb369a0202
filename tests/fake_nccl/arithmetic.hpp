// SPDX-License-Identifier: Apache-2.0
//
// Sizes and sums of NCCL's datatypes.

#pragma once

#include <cstddef>
#include <span>

namespace zipccl::testing {

// NCCL's values, so that tests need no header of NCCL.
enum : int {
  kNcclSuccess = 0,
  kNcclUnhandledCudaError = 1,
  kNcclSystemError = 2,
  kNcclInternalError = 3,
  kNcclInvalidArgument = 4,
  kNcclInvalidUsage = 5,
  kNcclRemoteError = 6,
  kNcclInProgress = 7,
};
enum : int { kNcclSum = 0, kNcclProd = 1, kNcclMax = 2, kNcclMin = 3, kNcclAvg = 4 };
inline constexpr int kNcclNumOps = 5;
enum : int {
  kNcclInt8 = 0,
  kNcclUint8 = 1,
  kNcclInt32 = 2,
  kNcclUint32 = 3,
  kNcclInt64 = 4,
  kNcclUint64 = 5,
  kNcclFloat16 = 6,
  kNcclFloat32 = 7,
  kNcclFloat64 = 8,
  kNcclBfloat16 = 9,
  kNcclFloat8e4m3 = 10,
  kNcclFloat8e5m2 = 11,
};

/// Bytes of an element; 0 for what is no datatype.
[[nodiscard]] std::size_t elementBytes(int datatype) noexcept;

/// An operation with all that it needs: kNcclSum to kNcclAvg, or a sum of premultiplied addends.
struct Operation {
  int kind = kNcclSum;
  bool isPremultiplied = false;
  double scalar = 1.0;
};

/// The scalar as one element of `datatype`.
[[nodiscard]] double readScalar(const void* scalar, int datatype);

/// Reduces one part of each rank, in the order from `first` on and around, and writes the result to
/// `out`, which may be one of them. As NCCL's rings do, each step is rounded to the datatype. False
/// for a datatype that cannot be reduced here: 8-bit floating point.
bool reduce(std::span<const void* const> parts, std::size_t first, std::size_t count, int datatype,
            const Operation& operation, void* out);

}  // namespace zipccl::testing
