// SPDX-License-Identifier: Apache-2.0
//
// What a user can ask of `zipccl inspect`.

#pragma once

#include <zipccl/zipccl.h>

#include <optional>
#include <string>
#include <vector>

namespace zipccl::tools::inspect {

/// What the rows are sorted by. kFile: as they stand in the files.
enum class SortKey {
  kFile,
  kName,
  kElements,
  kBytes,
  kSigma,
  kInside,
  kBits,
  kRatio,
  kLimit,
  kZstd,
};

struct Options {
  static constexpr unsigned kMostThreads = 1024;

  std::vector<std::string> files;
  std::optional<zipcclDataType_t> dumpDatatype;  ///< files are raw dumps of it; absent: they tell
  std::vector<std::string> patterns;             ///< of names; empty: all tensors
  SortKey sortKey = SortKey::kFile;
  bool isReversed = false;
  unsigned threads = 0;  ///< 0: one for each core
  bool usesZstd = false;
  std::string jsonPath;  ///< empty: none; "-": stdout, in place of the table
  std::string htmlPath;  ///< empty: none
};

}  // namespace zipccl::tools::inspect
