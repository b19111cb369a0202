// SPDX-License-Identifier: Apache-2.0
//
// The elements that are sent or encoded, as `--data` says it.

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

/// `widened` or `widened:SIGMA`: fp32 that was bf16, so that its low halves are zero.
struct WidenedSpec {
  double sigma = 0.02;  ///< positive and finite
};

/// `zeros:P`: a Gaussian of which a share is exactly zero.
struct ZerosSpec {
  double share = 0.0;  ///< 0 to 1
  double sigma = 0.02;
};

/// `random-bits`
struct RandomBitsSpec {};

/// `uniform-exponent` or `uniform-exponent:N`: magnitudes below 1 in N octaves, as many in each.
struct UniformExponentSpec {
  int octaves = 16;  ///< 1 to 100
};

/// `file:PATH` or `file:PATH:TENSOR`
struct FileSpec {
  std::string path;
  std::optional<std::string> tensor;
};

using DataSpec = std::variant<GaussianSpec, WidenedSpec, ZerosSpec, RandomBitsSpec,
                              UniformExponentSpec, FileSpec>;

/// What parseDataSpec() understands, for the help of a command.
inline constexpr const char* kDataSpecHelp =
    "normal:SIGMA: Gaussian. widened[:SIGMA]: float that was Gaussian bfloat16. zeros:P: Gaussian "
    "with a share of zeros. random-bits. uniform-exponent[:N]: as many values in each of N "
    "octaves [16]. file:X.safetensors: its bfloat16, half or float tensors, whichever come first, "
    "one after the other and repeated to size. file:X.safetensors:TENSOR: that one.";

/// Reads what follows `file:` in the argument of `flag`: PATH or PATH:TENSOR. Paths and tensor
/// names may hold colons: the path is the shortest beginning, up to a colon or the end, that
/// `isFile` knows. Throws UsageError.
[[nodiscard]] FileSpec parseFileSpec(const char* flag, const std::string& text,
                                     const std::function<bool(const std::string&)>& isFile);

/// Reads the argument of `--data`. Throws UsageError.
[[nodiscard]] DataSpec parseDataSpec(const std::string& text,
                                     const std::function<bool(const std::string&)>& isFile);

}  // namespace zipccl::tools::perf
