// SPDX-License-Identifier: Apache-2.0
//
// The tensors that are inspected: of safetensors files, of indexes of such files, or raw dumps.

#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>
#include <zipccl/codec.hpp>

#include "inspect/options.hpp"
#include "support/mapped_file.hpp"

namespace zipccl::tools::inspect {

struct InputTensor {
  std::string name;
  std::size_t file = 0;  ///< its place in Inputs::paths
  std::string dtype;     ///< as in safetensors files
  std::vector<std::uint64_t> shape;
  std::optional<std::uint64_t> elementCount;  ///< absent where the shape's product exceeds 64 bits
  std::optional<codec::Datatype> datatype;    ///< absent: it travels as it is
  std::span<const std::byte> bytes = {};      ///< of the mapped file; any alignment
};

struct Inputs {
  std::vector<std::string> paths;
  std::vector<MappedFile> files;  ///< as many
  std::vector<InputTensor> tensors;
  std::uint64_t leftOut = 0;  ///< tensors whose names fit no pattern

  [[nodiscard]] std::uint64_t bytes() const noexcept;
};

/// Opens and checks all files that `options` name, and those that indexes among them name. Throws
/// UsageError when no tensor is left, Failure with the path and the reason when a file is bad.
[[nodiscard]] Inputs openInputs(const Options& options);

/// Whether `name` fits one of `patterns`, or there are none. A pattern with *, ? or [ is one of the
/// shell and must fit the whole name; any other fits where it is a part of the name.
[[nodiscard]] bool fitsPatterns(const std::string& name, const std::vector<std::string>& patterns);

}  // namespace zipccl::tools::inspect
