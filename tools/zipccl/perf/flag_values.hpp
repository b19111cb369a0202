// SPDX-License-Identifier: Apache-2.0
//
// What the flags of the `perf` commands take, where CLI11 alone would take too much.

#pragma once

#include <zipccl/zipccl.h>

#include <CLI/CLI.hpp>
#include <cstdint>
#include <optional>

namespace zipccl::tools::perf {

inline constexpr int kMostRepetitions = 1'000'000;

/// Makes a size with a unit a plain number, which CLI11 then reads.
[[nodiscard]] const CLI::Validator& byteSize();

/// CLI11 alone would read -1 as 2^64 - 1, 010 as 8, and cut what is too large.
[[nodiscard]] const CLI::Validator& wholeNumber();

/// A whole number within bounds, both included.
[[nodiscard]] CLI::Validator numberFrom(std::uint64_t least, std::uint64_t most);

/// Adds `-d,--datatype`, which understands every name of a datatype.
void addDatatypeFlag(CLI::App& command, std::optional<zipcclDataType_t>& datatype);

}  // namespace zipccl::tools::perf
