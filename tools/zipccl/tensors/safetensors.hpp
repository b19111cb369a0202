// SPDX-License-Identifier: Apache-2.0
//
// Reads safetensors files: 8 bytes with the length of a JSON header, the header, then the bytes of
// the tensors, to which the header's offsets refer. Files come from anywhere: whatever their bytes,
// the answer is a list of tensors that lie inside the file, apart from each other, or a Failure.

#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "support/file.hpp"
#include "support/mapped_file.hpp"

namespace zipccl::tools {

struct Tensor {
  std::string name;
  std::string dtype;  ///< as in the file: "BF16", "F32", "I32", ...
  std::vector<std::uint64_t> shape;
  std::uint64_t beginByte = 0;  ///< counted from the first byte after the header
  std::uint64_t endByte = 0;

  [[nodiscard]] std::uint64_t bytes() const noexcept { return endByte - beginByte; }
};

/// Bits of one element of a safetensors dtype; 0 for one that is not known.
[[nodiscard]] std::uint64_t bitsOfDtype(std::string_view dtype) noexcept;

/// The largest header that is read, as in the reference implementation.
inline constexpr std::uint64_t kMaxSafetensorsHeaderBytes = 100'000'000;

/// The most entries of a header, far above any model's: a list of tensors is larger than its text,
/// and a hostile header must not cost more than a few hundred MB.
inline constexpr std::size_t kMaxSafetensorsTensors = 250'000;

/// The tensors that the JSON text `header` describes, in the order of their bytes, of which there
/// are `dataBytes`. They neither overlap nor leave a byte out. Tensors of unknown dtypes are listed
/// too; of theirs the place is checked, but not whether it fits the shape. Throws Failure that says
/// what is wrong.
[[nodiscard]] std::vector<Tensor> parseSafetensorsHeader(std::string_view header,
                                                         std::uint64_t dataBytes);

class SafetensorsFile {
 public:
  /// Opens and checks the file. Throws Failure with the path and the reason.
  explicit SafetensorsFile(const std::string& path);

  [[nodiscard]] const std::string& path() const noexcept { return file_.path(); }

  /// In the order of their bytes.
  [[nodiscard]] const std::vector<Tensor>& tensors() const noexcept { return tensors_; }

  /// The whole file in memory. Throws Failure.
  [[nodiscard]] MappedFile map() const { return MappedFile(file_); }
  /// Where in the file the bytes of `tensor`, one of tensors(), begin.
  [[nodiscard]] std::uint64_t fileOffset(const Tensor& tensor) const noexcept {
    return firstDataByte_ + tensor.beginByte;
  }

  /// Reads bytes of `tensor`, one of tensors(), from `firstByte` on. Throws Failure when the file
  /// cannot be read.
  void read(const Tensor& tensor, std::uint64_t firstByte, std::span<std::byte> into) const;

 private:
  File file_;
  std::uint64_t firstDataByte_ = 0;
  std::vector<Tensor> tensors_;
};

}  // namespace zipccl::tools
