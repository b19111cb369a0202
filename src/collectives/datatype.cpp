// SPDX-License-Identifier: Apache-2.0
//
// The table of datatypes.

#include "collectives/datatype.hpp"

namespace zipccl::collectives {

std::uint64_t elementBytes(Datatype datatype) noexcept {
  switch (datatype) {
    case Datatype::kInt8:
    case Datatype::kUint8:
    case Datatype::kFloat8e4m3:
    case Datatype::kFloat8e5m2:
      return 1;
    case Datatype::kFloat16:
    case Datatype::kBfloat16:
      return 2;
    case Datatype::kInt32:
    case Datatype::kUint32:
    case Datatype::kFloat32:
      return 4;
    case Datatype::kInt64:
    case Datatype::kUint64:
    case Datatype::kFloat64:
      return 8;
  }
  return 1;
}

std::uint64_t elementBytesOfNccl(int datatype) noexcept {
  return isDatatype(datatype) ? elementBytes(static_cast<Datatype>(datatype)) : 1;
}

std::string_view datatypeName(Datatype datatype) noexcept {
  switch (datatype) {
    case Datatype::kInt8:
      return "int8";
    case Datatype::kUint8:
      return "uint8";
    case Datatype::kInt32:
      return "int32";
    case Datatype::kUint32:
      return "uint32";
    case Datatype::kInt64:
      return "int64";
    case Datatype::kUint64:
      return "uint64";
    case Datatype::kFloat16:
      return "float16";
    case Datatype::kFloat32:
      return "float32";
    case Datatype::kFloat64:
      return "float64";
    case Datatype::kBfloat16:
      return "bfloat16";
    case Datatype::kFloat8e4m3:
      return "float8e4m3";
    case Datatype::kFloat8e5m2:
      return "float8e5m2";
  }
  return "unknown";
}

std::optional<codec::Datatype> codedDatatype(Datatype datatype) noexcept {
  switch (datatype) {
    case Datatype::kBfloat16:
      return codec::Datatype::kBfloat16;
    case Datatype::kFloat16:
      return codec::Datatype::kFloat16;
    case Datatype::kFloat32:
      return codec::Datatype::kFloat32;
    case Datatype::kInt8:
    case Datatype::kUint8:
    case Datatype::kInt32:
    case Datatype::kUint32:
    case Datatype::kInt64:
    case Datatype::kUint64:
    case Datatype::kFloat64:
    case Datatype::kFloat8e4m3:
    case Datatype::kFloat8e5m2:
      return std::nullopt;
  }
  return std::nullopt;
}

Datatype datatypeOf(codec::Datatype datatype) noexcept {
  switch (datatype) {
    case codec::Datatype::kBfloat16:
      return Datatype::kBfloat16;
    case codec::Datatype::kFloat16:
      return Datatype::kFloat16;
    case codec::Datatype::kFloat32:
      return Datatype::kFloat32;
  }
  return Datatype::kBfloat16;
}

}  // namespace zipccl::collectives
