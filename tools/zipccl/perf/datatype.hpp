// SPDX-License-Identifier: Apache-2.0
//
// The datatypes of the C API by name: what users type, what tables print, and what safetensors
// files call them.

#pragma once

#include <zipccl/zipccl.h>

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace zipccl::tools::perf {

/// Bytes of one element.
[[nodiscard]] std::size_t elementBytes(zipcclDataType_t datatype);

/// The name that nccl-tests uses: `bfloat16`, `float`, ...
[[nodiscard]] const char* datatypeName(zipcclDataType_t datatype);

/// Understands the names of nccl-tests and the short ones: `bf16`, `fp32`, ...
[[nodiscard]] std::optional<zipcclDataType_t> datatypeOfName(std::string_view name);

/// All names that datatypeOfName() understands, for messages.
[[nodiscard]] std::string datatypeNames();

/// The datatype of a safetensors dtype, if the C API has it.
[[nodiscard]] std::optional<zipcclDataType_t> datatypeOfSafetensors(std::string_view dtype);

/// The dtype of safetensors that `datatype` is: `BF16`, `F32`, ...
[[nodiscard]] const char* safetensorsName(zipcclDataType_t datatype);

/// Whether the library compresses it; others travel as they are.
[[nodiscard]] bool isCoded(zipcclDataType_t datatype);

[[nodiscard]] bool isFloatingPoint(zipcclDataType_t datatype);

}  // namespace zipccl::tools::perf
