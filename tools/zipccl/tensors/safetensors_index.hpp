// SPDX-License-Identifier: Apache-2.0
//
// Reads the index of a model whose tensors are spread over several safetensors files: JSON with a
// `weight_map` from the name of each tensor to the name of the file that has it. As hostile as any
// file: the answer is a list, or a Failure.

#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace zipccl::tools {

struct IndexedTensor {
  std::string name;
  std::string file;  ///< a plain name: the file lies beside the index
};

/// The `weight_map` of the JSON text `index`, in its order. Anything else in there is skipped.
/// Throws Failure that says what is wrong.
[[nodiscard]] std::vector<IndexedTensor> parseSafetensorsIndex(std::string_view index);

/// Reads and parses the file. Throws Failure with the path and the reason.
[[nodiscard]] std::vector<IndexedTensor> readSafetensorsIndex(const std::string& path);

}  // namespace zipccl::tools
