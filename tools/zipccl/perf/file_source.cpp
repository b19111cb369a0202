// SPDX-License-Identifier: Apache-2.0
//
// Tensors of a safetensors file, one after the other, repeated to whatever size is wanted. Each
// rank begins at another place of them.

#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

#include "perf/data_source.hpp"
#include "perf/datatype.hpp"
#include "support/failure.hpp"
#include "support/text.hpp"
#include "tensors/safetensors.hpp"

namespace zipccl::tools::perf {
namespace {

constexpr std::size_t kMostTensorsNamed = 20;

/// `It holds: embed (BF16), head (BF16), ... and 12 more.`
std::string listTensors(const std::vector<Tensor>& tensors) {
  if (tensors.empty()) return "It holds none.";
  std::string list = "It holds: ";
  for (std::size_t i = 0; i < std::min(tensors.size(), kMostTensorsNamed); ++i) {
    if (i != 0) list += ", ";
    list += printable(tensors[i].name) + " (" + printable(tensors[i].dtype) + ")";
  }
  if (tensors.size() > kMostTensorsNamed) {
    list += " and " + std::to_string(tensors.size() - kMostTensorsNamed) + " more";
  }
  return list + ".";
}

class FileSource : public DataSource {
 public:
  FileSource(SafetensorsFile file, std::vector<Tensor> tensors, zipcclDataType_t datatype)
      : DataSource(datatype), file_(std::move(file)), tensors_(std::move(tensors)) {
    for (const Tensor& tensor : tensors_) totalBytes_ += tensor.bytes();
  }

  [[nodiscard]] bool usesSeed() const noexcept override { return false; }

  [[nodiscard]] std::uint64_t periodBytes() const noexcept override { return totalBytes_; }

  [[nodiscard]] std::string describe() const override {
    const std::string what = tensors_.size() == 1 ? printable(tensors_.front().name)
                                                  : std::to_string(tensors_.size()) + " tensors";
    return what + " of " + printable(file_.path(), 400) + ", " + humanBytes(totalBytes_);
  }

  void fill(std::uint64_t, int rank, int ranks, int, std::span<std::byte> elements) const override {
    const std::size_t step = elementBytes(datatype());
    const std::uint64_t totalElements = totalBytes_ / step;
    const std::uint64_t first =
        totalElements * static_cast<std::uint64_t>(rank) / static_cast<std::uint64_t>(ranks) * step;
    const std::size_t once = std::min<std::uint64_t>(totalBytes_, elements.size());
    const std::size_t untilEnd = std::min<std::uint64_t>(totalBytes_ - first, once);
    readBytes(first, elements.first(untilEnd));
    readBytes(0, elements.subspan(untilEnd, once - untilEnd));
    for (std::size_t done = once; done < elements.size();) {
      const std::size_t more = std::min(done, elements.size() - done);
      // `done` is a multiple of the period until the last step.
      std::memcpy(elements.data() + done, elements.data(), more);
      done += more;
    }
  }

 private:
  /// Reads from the tensors as if they were one.
  void readBytes(std::uint64_t offset, std::span<std::byte> into) const {
    for (const Tensor& tensor : tensors_) {
      if (into.empty()) return;
      if (offset >= tensor.bytes()) {
        offset -= tensor.bytes();
        continue;
      }
      const std::size_t bytes = std::min<std::uint64_t>(tensor.bytes() - offset, into.size());
      file_.read(tensor, offset, into.first(bytes));
      into = into.subspan(bytes);
      offset = 0;
    }
  }

  SafetensorsFile file_;
  std::vector<Tensor> tensors_;
  std::uint64_t totalBytes_ = 0;
};

/// The tensor of that name, and its datatype.
std::pair<Tensor, zipcclDataType_t> findTensor(const SafetensorsFile& file, const std::string& name,
                                               std::optional<zipcclDataType_t> datatype) {
  const std::vector<Tensor>& all = file.tensors();
  const auto found = std::find_if(all.begin(), all.end(),
                                  [&name](const Tensor& tensor) { return tensor.name == name; });
  if (found == all.end()) {
    throw UsageError(file.path() + " has no tensor " + inQuotes(name) + ". " + listTensors(all));
  }
  const std::string what = "tensor " + inQuotes(name) + " of " + file.path();
  const std::optional<zipcclDataType_t> own = datatypeOfSafetensors(found->dtype);
  if (!own) {
    throw UsageError(what + " is " + printable(found->dtype) + ", which collectives do not know");
  }
  if (datatype && *datatype != *own) {
    throw UsageError(what + " is " + datatypeName(*own) + ", but --datatype says " +
                     datatypeName(*datatype));
  }
  if (found->bytes() == 0) throw UsageError(what + " is empty");
  return {*found, *own};
}

/// All tensors of the first datatype that the library compresses, or of `datatype`.
std::pair<std::vector<Tensor>, zipcclDataType_t> chooseTensors(
    const SafetensorsFile& file, std::optional<zipcclDataType_t> datatype) {
  std::vector<Tensor> chosen;
  for (const Tensor& tensor : file.tensors()) {
    const std::optional<zipcclDataType_t> own = datatypeOfSafetensors(tensor.dtype);
    if (!own || tensor.bytes() == 0) continue;
    if (!datatype && isCoded(*own)) datatype = own;
    if (own == datatype) chosen.push_back(tensor);
  }
  if (chosen.empty()) {
    throw UsageError(file.path() + " has no tensor of " +
                     (datatype ? datatypeName(*datatype) : "a datatype that can be compressed") +
                     ". " + listTensors(file.tensors()));
  }
  return {std::move(chosen), *datatype};
}

}  // namespace

std::unique_ptr<DataSource> openFileSource(const FileSpec& spec,
                                           std::optional<zipcclDataType_t> datatype) {
  SafetensorsFile file(spec.path);
  if (spec.tensor) {
    auto [tensor, own] = findTensor(file, *spec.tensor, datatype);
    return std::make_unique<FileSource>(std::move(file), std::vector<Tensor>{std::move(tensor)},
                                        own);
  }
  auto [tensors, own] = chooseTensors(file, datatype);
  return std::make_unique<FileSource>(std::move(file), std::move(tensors), own);
}

}  // namespace zipccl::tools::perf
