// SPDX-License-Identifier: Apache-2.0
//
// What is sent, as `--data` says it.

#pragma once

#include <functional>
#include <optional>
#include <string>
#include <variant>

namespace zipccl::tools::perf {

/// `normal:SIGMA`
struct GaussianSpec {
  double sigma = 0.0;  ///< positive and finite
};

/// `file:PATH` or `file:PATH:TENSOR`
struct FileSpec {
  std::string path;
  std::optional<std::string> tensor;
};

using DataSpec = std::variant<GaussianSpec, FileSpec>;

/// Reads the argument of `--data`. Paths and tensor names may hold colons: the path is the shortest
/// beginning, up to a colon or the end, that `isFile` knows. Throws UsageError.
[[nodiscard]] DataSpec parseDataSpec(const std::string& text,
                                     const std::function<bool(const std::string&)>& isFile);

}  // namespace zipccl::tools::perf
