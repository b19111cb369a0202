// SPDX-License-Identifier: Apache-2.0
//
// What is to be measured, as the command line says it.

#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace zipccl::bench {

/// One data set at some sizes and under some limits on the number of blocks.
struct CodecCase {
  std::string data;  ///< see makeDataSet(), or `traffic`
  std::vector<std::uint64_t> sizesBytes;
  std::vector<unsigned> blockLimits;  ///< 0: none
};

/// Not the codec: kernels that only read and write, in the codec's proportions.
inline constexpr std::string_view kTrafficData = "traffic";

/// `DATA[@SIZE,SIZE...[/BLOCKS,BLOCKS...]]`, such as `normal:0.02@1M,256M/16,0`; without sizes
/// 256M, without blocks 0. Sizes take K, M and G, powers of 1024. Throws Error(kInvalidArgument).
[[nodiscard]] CodecCase parseCodecCase(std::string_view text);

/// What is measured when nothing is said.
[[nodiscard]] std::vector<std::string> defaultCodecCases();

}  // namespace zipccl::bench
