// SPDX-License-Identifier: Apache-2.0
//
// The datatypes of the C API by name.

#include "perf/datatype.hpp"

#include <algorithm>
#include <array>
#include <stdexcept>

namespace zipccl::tools::perf {
namespace {

struct Row {
  zipcclDataType_t datatype;
  std::size_t bytes;
  const char* name;
  const char* shortName;
  const char* safetensorsName;
  bool isFloatingPoint;
};

constexpr std::array kRows = {
    Row{zipcclBfloat16, 2, "bfloat16", "bf16", "BF16", true},
    Row{zipcclFloat32, 4, "float", "fp32", "F32", true},
    Row{zipcclFloat16, 2, "half", "fp16", "F16", true},
    Row{zipcclFloat64, 8, "double", "fp64", "F64", true},
    Row{zipcclFloat8e4m3, 1, "f8e4m3", "e4m3", "F8_E4M3", true},
    Row{zipcclFloat8e5m2, 1, "f8e5m2", "e5m2", "F8_E5M2", true},
    Row{zipcclInt8, 1, "int8", "i8", "I8", false},
    Row{zipcclUint8, 1, "uint8", "u8", "U8", false},
    Row{zipcclInt32, 4, "int32", "i32", "I32", false},
    Row{zipcclUint32, 4, "uint32", "u32", "U32", false},
    Row{zipcclInt64, 8, "int64", "i64", "I64", false},
    Row{zipcclUint64, 8, "uint64", "u64", "U64", false},
};
static_assert(kRows.size() == zipcclNumTypes);

const Row& rowOf(zipcclDataType_t datatype) {
  const auto* const found = std::find_if(
      kRows.begin(), kRows.end(), [datatype](const Row& row) { return row.datatype == datatype; });
  if (found == kRows.end()) throw std::logic_error("a datatype without a name");
  return *found;
}

}  // namespace

std::size_t elementBytes(zipcclDataType_t datatype) { return rowOf(datatype).bytes; }

const char* datatypeName(zipcclDataType_t datatype) { return rowOf(datatype).name; }

std::optional<zipcclDataType_t> datatypeOfName(std::string_view name) {
  for (const Row& row : kRows) {
    if (name == row.name || name == row.shortName) return row.datatype;
  }
  return std::nullopt;
}

std::string datatypeNames() {
  std::string names;
  for (const Row& row : kRows) {
    if (!names.empty()) names += ", ";
    names += std::string(row.name) + "|" + row.shortName;
  }
  return names;
}

std::optional<zipcclDataType_t> datatypeOfSafetensors(std::string_view dtype) {
  for (const Row& row : kRows) {
    if (dtype == row.safetensorsName) return row.datatype;
  }
  return std::nullopt;
}

const char* safetensorsName(zipcclDataType_t datatype) { return rowOf(datatype).safetensorsName; }

bool isCoded(zipcclDataType_t datatype) {
  return datatype == zipcclBfloat16 || datatype == zipcclFloat16 || datatype == zipcclFloat32;
}

bool isFloatingPoint(zipcclDataType_t datatype) { return rowOf(datatype).isFloatingPoint; }

}  // namespace zipccl::tools::perf
