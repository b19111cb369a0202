// SPDX-License-Identifier: Apache-2.0
//
// What a window for each tile is worth: bits a value of the same tensor with its windows chosen in
// other ways, counted exactly (docs/theory.md section 12).

#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace zipccl::codec::testing {

/// Bits a value of all tiles: records, descriptors, group offsets, escapes, raw rests and padding,
/// counted alike for all; without the header, the pool and a partial last tile. Every tile takes
/// the kind with which it is smallest, but for `frameSevenOnly`.
struct WindowAblation {
  double tileRule;        ///< what the encoder makes
  double tileBest;        ///< the best window of each tile, of all that there are
  double frameSigma;      ///< one window for all tiles, from the standard deviation
  double frameBest;       ///< the best window for all tiles, of all that there are
  double frameSevenOnly;  ///< as frameSigma, and no code for zeros: no tile is of kind six + zero
};

/// Of bf16 values, or the upper halves of fp32 values; at least one tile.
[[nodiscard]] WindowAblation ablate(std::span<const std::uint16_t> upperHalves);

struct AblationRow {
  std::string data;
  WindowAblation bits;
};

/// Of generated data (the same on every machine) and, below `folder`, of the tensors of
/// bf16.safetensors and fp32.safetensors. Throws std::runtime_error when a file is malformed.
[[nodiscard]] std::vector<AblationRow> ablationTable(const std::string& folder);

/// Of the float tensors of one safetensors file.
[[nodiscard]] std::vector<AblationRow> ablationOfFile(const std::string& path);

/// `| data | 11.20 | ...`, in the order of WindowAblation's members.
[[nodiscard]] std::string toMarkdown(const AblationRow& row);

}  // namespace zipccl::codec::testing
