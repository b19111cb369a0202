// SPDX-License-Identifier: Apache-2.0
//
// Reads the index of a sharded model, event by event, so that what is skipped costs no memory.

#include "tensors/safetensors_index.hpp"

#include <nlohmann/json.hpp>
#include <unordered_set>
#include <utility>

#include "support/failure.hpp"
#include "support/file.hpp"
#include "support/text.hpp"
#include "tensors/safetensors.hpp"

namespace zipccl::tools {
namespace {

/// A name that leads nowhere but into the folder of the index.
bool isPlainName(const std::string& name) {
  return !name.empty() && name != "." && name != ".." && name.size() <= 255 &&
         name.find('/') == std::string::npos && name.find('\0') == std::string::npos;
}

/// Takes the events of the JSON parser and collects what stands in weight_map.
class IndexReader : public nlohmann::json_sax<nlohmann::json> {
 public:
  [[nodiscard]] bool hasMap() const noexcept { return hasMap_; }
  [[nodiscard]] std::vector<IndexedTensor> take() && { return std::move(tensors_); }

  bool start_object(std::size_t) override {
    if (isAtMap()) {
      if (hasMap_) throw Failure("it has weight_map twice");
      hasMap_ = isInMap_ = true;
    } else if (depth_ != 0) {
      expectSkipped();
    }
    ++depth_;
    return true;
  }

  bool end_object() override { return endOfLevel(); }

  bool key(std::string& text) override {
    if (depth_ == 1) topKey_ = text;
    if (isInMap_) {
      if (names_.size() == kMaxSafetensorsTensors) {
        throw Failure("it has more than " + std::to_string(kMaxSafetensorsTensors) + " tensors");
      }
      if (!names_.insert(text).second) throw Failure(inQuotes(text) + " appears twice");
      tensors_.push_back({text, {}});
    }
    return true;
  }

  bool string(std::string& text) override {
    if (!isInMap_) return skip();
    if (!isPlainName(text)) {
      throw Failure("the file of " + inQuotes(tensors_.back().name) + ", " + inQuotes(text) +
                    ", is no name of a file in the folder of the index");
    }
    tensors_.back().file = text;
    return true;
  }

  bool start_array(std::size_t) override {
    expectSkipped();
    ++depth_;
    return true;
  }

  bool end_array() override { return endOfLevel(); }
  bool number_unsigned(std::uint64_t) override { return skip(); }
  bool number_integer(std::int64_t) override { return skip(); }
  bool number_float(double, const std::string&) override { return skip(); }
  bool null() override { return skip(); }
  bool boolean(bool) override { return skip(); }
  bool binary(nlohmann::json::binary_t&) override { return skip(); }

  bool parse_error(std::size_t position, const std::string&,
                   const nlohmann::json::exception&) override {
    throw Failure("it is no valid JSON at byte " + std::to_string(position));
  }

 private:
  /// Whether the value that comes next is that of weight_map.
  [[nodiscard]] bool isAtMap() const { return depth_ == 1 && topKey_ == "weight_map"; }

  void expectSkipped() const {
    if (depth_ == 0) throw Failure("it is no JSON object");
    if (isAtMap()) throw Failure("its weight_map is no object");
    if (isInMap_) {
      throw Failure("the file of " + inQuotes(tensors_.back().name) + " is not a string");
    }
  }

  [[nodiscard]] bool skip() const {
    expectSkipped();
    return true;
  }

  bool endOfLevel() {
    --depth_;
    isInMap_ = false;
    return true;
  }

  std::size_t depth_ = 0;  ///< of objects and arrays around the next event
  std::string topKey_;
  bool hasMap_ = false;
  bool isInMap_ = false;
  std::vector<IndexedTensor> tensors_;
  std::unordered_set<std::string> names_;
};

}  // namespace

std::vector<IndexedTensor> parseSafetensorsIndex(std::string_view index) {
  IndexReader reader;
  // The parser takes a NUL for the end of its input.
  if (index.find('\0') != std::string_view::npos ||
      !nlohmann::json::sax_parse(index.begin(), index.end(), &reader)) {
    throw Failure("it is no valid JSON");
  }
  if (!reader.hasMap()) throw Failure("it has no weight_map");
  return std::move(reader).take();
}

std::vector<IndexedTensor> readSafetensorsIndex(const std::string& path) {
  const File file(path);
  const auto refuse = [&path](const std::string& why) {
    return Failure(path + " is not an index of safetensors files: " + why);
  };
  if (file.sizeBytes() > kMaxSafetensorsHeaderBytes) {
    throw refuse("it is longer than " + std::to_string(kMaxSafetensorsHeaderBytes) +
                 " bytes: " + std::to_string(file.sizeBytes()));
  }
  std::string text(file.sizeBytes(), '\0');
  file.read(0, std::as_writable_bytes(std::span(text)));
  try {
    return parseSafetensorsIndex(text);
  } catch (const Failure& failure) {
    throw refuse(failure.what());
  }
}

}  // namespace zipccl::tools
