// SPDX-License-Identifier: Apache-2.0
//
// How an uneven all-to-all is cut, as `--splits` says it.

#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <variant>
#include <vector>

#include "perf/data_spec.hpp"

namespace zipccl::tools::perf {

/// `zipf:EXPONENT`: rank r gets a part proportional to 1 / (r + 1)^EXPONENT, as tokens go to
/// experts of which few are popular.
struct ZipfSplits {
  double exponent = 0.0;  ///< 0 to 10
};

/// `file:X.safetensors:TENSOR`: numbers of tokens that a router sent to each expert.
using SplitsSpec = std::variant<ZipfSplits, FileSpec>;

/// What parseSplits() understands, for the help of a command.
inline constexpr const char* kSplitsHelp =
    "zipf:EXPONENT: rank r gets a part proportional to 1 / (r + 1)^EXPONENT of what each rank "
    "sends. file:X.safetensors:TENSOR: integers, the tokens that a router sent to each expert, "
    "whose experts stand on the ranks in blocks of about equal size";

/// Reads the argument of `--splits`; a file must be one that `isFile` knows. Throws UsageError.
[[nodiscard]] SplitsSpec parseSplits(const std::string& text,
                                     const std::function<bool(const std::string&)>& isFile);

/// What each of `ranks` ranks gets of what every rank sends: not negative, together 1. Throws
/// UsageError for a tensor that counts nothing, Failure for a file that cannot be read.
[[nodiscard]] std::vector<double> shares(const SplitsSpec& spec, int ranks);

/// The same for the tokens of each expert. Expert e of E stands on rank e * ranks / E, rounded
/// down.
[[nodiscard]] std::vector<double> sharesOfExperts(const std::vector<std::uint64_t>& tokens,
                                                  int ranks);

/// Cuts `elements` into parts of these shares, each within one element of exact, zero where the
/// share is zero, together all of them.
[[nodiscard]] std::vector<std::uint64_t> cut(const std::vector<double>& shares,
                                             std::uint64_t elements);

}  // namespace zipccl::tools::perf
