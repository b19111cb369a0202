// SPDX-License-Identifier: Apache-2.0
//
// What is to be measured, as the command line says it.

#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace zipccl::bench {

/// A kind of measurement at some sizes and under some limits on the number of blocks.
struct CodecCase {
  std::string kind;  ///< `traffic`
  std::vector<std::uint64_t> sizesBytes;
  std::vector<unsigned> blockLimits;  ///< 0: none
};

/// Kernels that only read and write, in the codec's proportions.
inline constexpr std::string_view kTrafficKind = "traffic";

/// `KIND[@SIZE,SIZE...[/BLOCKS,BLOCKS...]]`, such as `traffic@1M,256M/528,0`; without sizes 256M,
/// without blocks 0. Sizes take K, M and G, powers of 1024. Throws Error(kInvalidArgument).
[[nodiscard]] CodecCase parseCodecCase(std::string_view text);

/// What is measured when nothing is said.
[[nodiscard]] std::vector<std::string> defaultCodecCases();

}  // namespace zipccl::bench
