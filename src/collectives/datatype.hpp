// SPDX-License-Identifier: Apache-2.0
//
// The datatypes of the collectives, and which of them have a frame format.

#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "zipccl/codec.hpp"

namespace zipccl::collectives {

/// Values are NCCL's.
enum class Datatype : std::uint8_t {
  kInt8 = 0,
  kUint8 = 1,
  kInt32 = 2,
  kUint32 = 3,
  kInt64 = 4,
  kUint64 = 5,
  kFloat16 = 6,
  kFloat32 = 7,
  kFloat64 = 8,
  kBfloat16 = 9,
  kFloat8e4m3 = 10,
  kFloat8e5m2 = 11,
};

inline constexpr int kDatatypeCount = 12;

/// Whether a number that a program passes to NCCL is one of them.
[[nodiscard]] constexpr bool isDatatype(int number) noexcept {
  return number >= 0 && number < kDatatypeCount;
}

/// Bytes of one element: 1 to 8.
[[nodiscard]] std::uint64_t elementBytes(Datatype datatype) noexcept;

/// The same of any number that a program passes to NCCL; 1 for those that NCCL refuses.
[[nodiscard]] std::uint64_t elementBytesOfNccl(int datatype) noexcept;

/// `bfloat16`, `float32`, ...
[[nodiscard]] std::string_view datatypeName(Datatype datatype) noexcept;

/// The codec's name of it, for a datatype that has frames.
[[nodiscard]] std::optional<codec::Datatype> codedDatatype(Datatype datatype) noexcept;

/// The datatype that the codec calls so.
[[nodiscard]] Datatype datatypeOf(codec::Datatype datatype) noexcept;

}  // namespace zipccl::collectives
