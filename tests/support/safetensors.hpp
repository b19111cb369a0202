// SPDX-License-Identifier: Apache-2.0
//
// Reads safetensors files for tests: 8 bytes with the length of a JSON header, the header, then the
// bytes of the tensors, to which the header's offsets refer.

#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/mapped_file.hpp"

namespace zipccl::testing {

struct Tensor {
  std::string name;
  std::string dtype;  ///< as in the file: "BF16", "F32", "I32", ...
  std::uint64_t elementCount = 0;
  std::span<const std::byte> bytes;  ///< valid as long as the file's object; any alignment
};

class SafetensorsFile {
 public:
  /// Maps and checks the file. Throws std::runtime_error with the path and the reason when its
  /// bytes are not those of a safetensors file.
  explicit SafetensorsFile(const std::string& path);

  /// In the order of their bytes.
  [[nodiscard]] const std::vector<Tensor>& tensors() const noexcept { return tensors_; }

 private:
  MappedFile file_;
  std::vector<Tensor> tensors_;
};

/// The tensors of a safetensors file in memory, which must outlive them; as above on bad bytes.
[[nodiscard]] std::vector<Tensor> parseSafetensors(std::span<const std::byte> file);

}  // namespace zipccl::testing
