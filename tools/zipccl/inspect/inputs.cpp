// SPDX-License-Identifier: Apache-2.0
//
// Opens what is inspected.

#include "inspect/inputs.hpp"

#include <fnmatch.h>

#include <algorithm>
#include <limits>
#include <map>
#include <unordered_map>
#include <utility>

#include "perf/datatype.hpp"
#include "perf_codec/data_set.hpp"
#include "support/failure.hpp"
#include "support/file.hpp"
#include "support/text.hpp"
#include "tensors/safetensors.hpp"
#include "tensors/safetensors_index.hpp"

namespace zipccl::tools::inspect {
namespace {

/// What the largest frame holds.
constexpr std::uint64_t kMostElements = std::uint64_t{1} << 40;

std::optional<codec::Datatype> codecDatatype(std::string_view dtype) {
  const std::optional<zipcclDataType_t> datatype = perf::datatypeOfSafetensors(dtype);
  return datatype ? perf_codec::codedDatatype(*datatype) : std::nullopt;
}

std::optional<std::uint64_t> product(const std::vector<std::uint64_t>& shape) {
  std::uint64_t count = 1;
  if (std::find(shape.begin(), shape.end(), 0U) != shape.end()) return 0;
  for (const std::uint64_t extent : shape) {
    if (count > std::numeric_limits<std::uint64_t>::max() / extent) return std::nullopt;
    count *= extent;
  }
  return count;
}

/// The last part of a path.
std::string fileName(const std::string& path) { return path.substr(path.rfind('/') + 1); }

/// The path of `name` in the folder of `path`.
std::string besides(const std::string& path, const std::string& name) {
  return path.substr(0, path.rfind('/') + 1) + name;
}

class InputsBuilder {
 public:
  explicit InputsBuilder(const Options& options) : options_(options) {}

  [[nodiscard]] Inputs take() && { return std::move(inputs_); }

  void addDump(const std::string& path) {
    const zipcclDataType_t datatype = *options_.dumpDatatype;
    const File file(path);
    const std::uint64_t elementBytes = perf::elementBytes(datatype);
    if (file.sizeBytes() % elementBytes != 0) {
      throw Failure(path + " has " + std::to_string(file.sizeBytes()) +
                    " bytes, no multiple of the " + std::to_string(elementBytes) + " bytes of " +
                    perf::datatypeName(datatype));
    }
    const std::uint64_t count = file.sizeBytes() / elementBytes;
    InputTensor tensor = {.name = fileName(path),
                          .dtype = perf::safetensorsName(datatype),
                          .shape = {count},
                          .elementCount = count,
                          .datatype = perf_codec::codedDatatype(datatype)};
    addFile(path, MappedFile(file));
    add(std::move(tensor), 0, file.sizeBytes());
  }

  /// Returns the names of its tensors.
  std::vector<std::string> addSafetensors(const std::string& path) {
    const SafetensorsFile file(path);
    addFile(path, file.map());
    std::vector<std::string> names;
    for (const Tensor& tensor : file.tensors()) {
      names.push_back(tensor.name);
      add({.name = tensor.name,
           .dtype = tensor.dtype,
           .shape = tensor.shape,
           .elementCount = product(tensor.shape),
           .datatype = codecDatatype(tensor.dtype)},
          file.fileOffset(tensor), tensor.bytes());
    }
    return names;
  }

  void addIndex(const std::string& path) {
    // By file, in the order of the files' names, which number them.
    std::map<std::string, std::vector<std::string>> shards;
    for (IndexedTensor& tensor : readSafetensorsIndex(path)) {
      shards[tensor.file].push_back(std::move(tensor.name));
    }
    for (auto& [name, wanted] : shards) {
      const std::string shardPath = besides(path, name);
      std::vector<std::string> present = addSafetensors(shardPath);
      std::sort(present.begin(), present.end());
      for (const std::string& tensor : wanted) {
        if (!std::binary_search(present.begin(), present.end(), tensor)) {
          throw Failure(path + " places " + inQuotes(tensor) + " in " + printable(shardPath) +
                        ", which does not have it");
        }
      }
    }
  }

 private:
  void addFile(const std::string& path, MappedFile file) {
    inputs_.paths.push_back(path);
    inputs_.files.push_back(std::move(file));
  }

  /// Of the last file, `bytes` bytes from `offset` on.
  void add(InputTensor tensor, std::uint64_t offset, std::uint64_t bytes) {
    if (!fitsPatterns(tensor.name, options_.patterns)) {
      ++inputs_.leftOut;
      return;
    }
    if (tensor.datatype && tensor.elementCount.value_or(kMostElements + 1) > kMostElements) {
      throw Failure(inQuotes(tensor.name) + " of " + inputs_.paths.back() +
                    " has more values than the 2^40 that a frame holds");
    }
    tensor.file = inputs_.files.size() - 1;
    tensor.bytes = inputs_.files.back().bytes().subspan(offset, bytes);
    inputs_.tensors.push_back(std::move(tensor));
  }

  const Options& options_;
  Inputs inputs_;
};

}  // namespace

std::uint64_t Inputs::bytes() const noexcept {
  std::uint64_t sum = 0;
  for (const InputTensor& tensor : tensors) sum += tensor.bytes.size();
  return sum;
}

bool fitsPatterns(const std::string& name, const std::vector<std::string>& patterns) {
  if (patterns.empty()) return true;
  return std::any_of(patterns.begin(), patterns.end(), [&name](const std::string& pattern) {
    if (pattern.find_first_of("*?[") == std::string::npos) {
      return name.find(pattern) != std::string::npos;
    }
    return ::fnmatch(pattern.c_str(), name.c_str(), FNM_NOESCAPE) == 0;
  });
}

Inputs openInputs(const Options& options) {
  InputsBuilder builder(options);
  for (const std::string& path : options.files) {
    if (options.dumpDatatype) {
      builder.addDump(path);
    } else if (path.ends_with(".json")) {
      builder.addIndex(path);
    } else {
      builder.addSafetensors(path);
    }
  }
  Inputs inputs = std::move(builder).take();
  if (inputs.tensors.empty() && inputs.leftOut != 0) {
    throw UsageError("--match leaves none of the " + std::to_string(inputs.leftOut) + " tensors");
  }
  return inputs;
}

}  // namespace zipccl::tools::inspect
