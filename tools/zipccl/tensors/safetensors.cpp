// SPDX-License-Identifier: Apache-2.0
//
// Reads safetensors files. The header is parsed event by event against the one structure that it
// may have, so that neither depth nor repetition of what a hostile file says costs memory.

#include "tensors/safetensors.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <unordered_set>
#include <utility>

#include "support/failure.hpp"
#include "support/text.hpp"

namespace zipccl::tools {
namespace {

constexpr std::uint64_t kLengthBytes = 8;
constexpr std::size_t kMaxDimensions = 64;

constexpr std::array<std::pair<std::string_view, std::uint64_t>, 16> kDtypeBits = {{
    {"F64", 64},
    {"I64", 64},
    {"U64", 64},
    {"F32", 32},
    {"I32", 32},
    {"U32", 32},
    {"BF16", 16},
    {"F16", 16},
    {"I16", 16},
    {"U16", 16},
    {"I8", 8},
    {"U8", 8},
    {"BOOL", 8},
    {"F8_E4M3", 8},
    {"F8_E5M2", 8},
    {"F8_E8M0", 8},
}};

/// Takes the events of the JSON parser and collects tensors. Any event that does not fit throws.
class HeaderReader : public nlohmann::json_sax<nlohmann::json> {
 public:
  [[nodiscard]] std::vector<Tensor> take() && { return std::move(tensors_); }

  bool start_object(std::size_t) override {
    if (state_ == State::kStart) {
      state_ = State::kTop;
    } else if (state_ == State::kEntry) {
      state_ = isMetadata_ ? State::kMetadata : State::kTensor;
    } else {
      unexpected("an object");
    }
    return true;
  }

  bool end_object() override {
    if (state_ == State::kTensor) finishTensor();
    state_ = state_ == State::kTop ? State::kEnd : State::kTop;
    return true;
  }

  bool key(std::string& text) override {
    if (state_ == State::kTop) {
      if (names_.size() == kMaxSafetensorsTensors) {
        fail("its header has more than " + std::to_string(kMaxSafetensorsTensors) + " entries");
      }
      if (!names_.insert(text).second) fail(inQuotes(text) + " appears twice");
      isMetadata_ = text == "__metadata__";
      tensor_ = {};
      tensor_.name = text;
      hasDtype_ = hasShape_ = false;
      offsets_.reset();
      state_ = State::kEntry;
    } else if (state_ == State::kTensor) {
      keyOfTensor(text);
    } else {
      key_ = text;
    }
    return true;
  }

  bool string(std::string& text) override {
    if (state_ == State::kDtype) {
      tensor_.dtype = text;
      hasDtype_ = true;
      state_ = State::kTensor;
    } else if (state_ != State::kMetadata) {
      unexpected("a string");
    }
    return true;
  }

  bool start_array(std::size_t) override {
    if (state_ == State::kShape) {
      hasShape_ = true;
      state_ = State::kShapeNumbers;
    } else if (state_ == State::kOffsets) {
      offsets_.emplace();
      state_ = State::kOffsetNumbers;
    } else {
      unexpected("an array");
    }
    return true;
  }

  bool end_array() override {
    state_ = State::kTensor;
    return true;
  }

  bool number_unsigned(std::uint64_t value) override {
    if (state_ == State::kShapeNumbers) {
      if (tensor_.shape.size() == kMaxDimensions) {
        fail(inQuotes(tensor_.name) + " has more than " + std::to_string(kMaxDimensions) +
             " dimensions");
      }
      tensor_.shape.push_back(value);
    } else if (state_ == State::kOffsetNumbers && offsets_->size() < 2) {
      offsets_->push_back(value);
    } else {
      unexpected("a number");
    }
    return true;
  }

  bool number_integer(std::int64_t) override { unexpected("a negative number"); }
  bool number_float(double, const std::string&) override { unexpected("a fraction"); }
  bool null() override { unexpected("null"); }
  bool boolean(bool) override { unexpected("true or false"); }
  bool binary(nlohmann::json::binary_t&) override { unexpected("binary data"); }

  bool parse_error(std::size_t position, const std::string&,
                   const nlohmann::json::exception&) override {
    fail("its header is no valid JSON at byte " + std::to_string(position));
  }

 private:
  enum class State {
    kStart,
    kTop,       ///< between the entries
    kEntry,     ///< after the name of an entry
    kMetadata,  ///< inside __metadata__
    kTensor,    ///< inside a tensor's entry
    kDtype,     ///< after one of its keys
    kShape,
    kShapeNumbers,  ///< inside the array
    kOffsets,
    kOffsetNumbers,
    kEnd,
  };

  [[noreturn]] static void fail(const std::string& what) { throw Failure(what); }

  [[noreturn]] void unexpected(const std::string& what) const {
    switch (state_) {
      case State::kStart:
      case State::kEnd:
      case State::kTop:
        fail("its header is " + what + ", not an object");
      case State::kEntry:
        fail("the entry of " + inQuotes(tensor_.name) + " is " + what + ", not an object");
      case State::kMetadata:
        fail("__metadata__ holds " + what + " at " + inQuotes(key_) +
             ", where only strings may be");
      case State::kTensor:
      case State::kDtype:
        fail("the dtype of " + inQuotes(tensor_.name) + " is " + what + ", not a string");
      case State::kShape:
      case State::kShapeNumbers:
        fail("the shape of " + inQuotes(tensor_.name) + " has " + what +
             " where an array of unsigned numbers was to be");
      case State::kOffsets:
      case State::kOffsetNumbers:
        fail("the data_offsets of " + inQuotes(tensor_.name) + " have " + what +
             " where two unsigned numbers were to be");
    }
    fail("its header has " + what + " in a wrong place");
  }

  void keyOfTensor(const std::string& text) {
    bool isRepeated = false;
    if (text == "dtype") {
      isRepeated = hasDtype_;
      state_ = State::kDtype;
    } else if (text == "shape") {
      isRepeated = hasShape_;
      state_ = State::kShape;
    } else if (text == "data_offsets") {
      isRepeated = offsets_.has_value();
      state_ = State::kOffsets;
    } else {
      fail(inQuotes(tensor_.name) + " has the unknown field " + inQuotes(text));
    }
    if (isRepeated) fail("the " + text + " of " + inQuotes(tensor_.name) + " appears twice");
  }

  void finishTensor() {
    if (!hasDtype_ || !hasShape_ || !offsets_ || offsets_->size() != 2) {
      fail(inQuotes(tensor_.name) + " lacks its dtype, its shape or its two data_offsets");
    }
    tensor_.beginByte = offsets_->front();
    tensor_.endByte = offsets_->back();
    tensors_.push_back(std::move(tensor_));
  }

  State state_ = State::kStart;
  std::vector<Tensor> tensors_;
  std::unordered_set<std::string> names_;
  std::string key_;
  // Of the entry in work.
  bool isMetadata_ = false;
  Tensor tensor_;
  bool hasDtype_ = false;
  bool hasShape_ = false;
  std::optional<std::vector<std::uint64_t>> offsets_;
};

/// The product of the extents and the bits of an element, in bytes; none when it exceeds 64 bits or
/// is no whole number of bytes.
std::optional<std::uint64_t> bytesOfShape(const Tensor& tensor, std::uint64_t bitsPerElement) {
  std::uint64_t bits = bitsPerElement;
  const bool isEmpty =
      std::find(tensor.shape.begin(), tensor.shape.end(), 0U) != tensor.shape.end();
  if (isEmpty) return 0;
  for (const std::uint64_t extent : tensor.shape) {
    if (extent > std::numeric_limits<std::uint64_t>::max() / bits) return std::nullopt;
    bits *= extent;
  }
  if (bits % 8 != 0) return std::nullopt;
  return bits / 8;
}

void checkPlace(const Tensor& tensor, std::uint64_t dataBytes) {
  const std::string name = inQuotes(tensor.name);
  if (tensor.beginByte > tensor.endByte || tensor.endByte > dataBytes) {
    throw Failure("the data_offsets of " + name + ", " + std::to_string(tensor.beginByte) + " to " +
                  std::to_string(tensor.endByte) + ", lie outside the " +
                  std::to_string(dataBytes) + " bytes of data");
  }
  const std::uint64_t bits = bitsOfDtype(tensor.dtype);
  if (bits == 0) return;
  const std::optional<std::uint64_t> expected = bytesOfShape(tensor, bits);
  if (!expected || *expected != tensor.bytes()) {
    throw Failure("the data_offsets of " + name + " hold " + std::to_string(tensor.bytes()) +
                  " bytes, its shape and dtype want " +
                  (expected ? std::to_string(*expected) : std::string("more than can be")));
  }
}

[[noreturn]] void refuse(const std::string& path, const std::string& why) {
  throw Failure(path + " is not a safetensors file: " + why);
}

}  // namespace

std::uint64_t bitsOfDtype(std::string_view dtype) noexcept {
  for (const auto& [name, bits] : kDtypeBits) {
    if (name == dtype) return bits;
  }
  return 0;
}

std::vector<Tensor> parseSafetensorsHeader(std::string_view header, std::uint64_t dataBytes) {
  // JSON would allow white space here; the format wants the brace at once.
  if (header.empty() || header.front() != '{') throw Failure("its header does not begin with {");
  HeaderReader reader;
  // The parser takes a NUL for the end of its input.
  const bool hasNul = header.find('\0') != std::string_view::npos;
  if (hasNul || !nlohmann::json::sax_parse(header.begin(), header.end(), &reader)) {
    throw Failure("its header is no valid JSON");
  }
  std::vector<Tensor> tensors = std::move(reader).take();
  for (const Tensor& tensor : tensors) checkPlace(tensor, dataBytes);
  std::sort(tensors.begin(), tensors.end(), [](const Tensor& a, const Tensor& b) {
    return std::pair(a.beginByte, a.endByte) < std::pair(b.beginByte, b.endByte);
  });
  std::uint64_t nextByte = 0;
  for (const Tensor& tensor : tensors) {
    if (tensor.beginByte != nextByte) {
      throw Failure(inQuotes(tensor.name) + " begins at byte " + std::to_string(tensor.beginByte) +
                    " of the data, where the tensor before it " +
                    (tensor.beginByte < nextByte ? "has not ended" : "has long ended") + " (at " +
                    std::to_string(nextByte) + ")");
    }
    nextByte = tensor.endByte;
  }
  if (nextByte != dataBytes) {
    throw Failure("its tensors end at byte " + std::to_string(nextByte) + " of " +
                  std::to_string(dataBytes) + " bytes of data");
  }
  return tensors;
}

SafetensorsFile::SafetensorsFile(const std::string& path) : file_(path) {
  // What the system refuses to read says nothing about the format, and keeps its own words.
  if (file_.sizeBytes() < kLengthBytes) refuse(path, "it is shorter than 8 bytes");
  std::array<std::byte, kLengthBytes> length{};
  file_.read(0, length);
  std::uint64_t headerBytes = 0;
  for (std::size_t byte = kLengthBytes; byte-- > 0;) {
    headerBytes = headerBytes << 8 | std::to_integer<std::uint64_t>(length[byte]);
  }
  if (headerBytes > file_.sizeBytes() - kLengthBytes) {
    refuse(path,
           "its header would be longer than the file: " + std::to_string(headerBytes) + " bytes");
  }
  if (headerBytes > kMaxSafetensorsHeaderBytes) {
    refuse(path, "its header is longer than " + std::to_string(kMaxSafetensorsHeaderBytes) +
                     " bytes: " + std::to_string(headerBytes));
  }
  std::string header(headerBytes, '\0');
  file_.read(kLengthBytes, std::as_writable_bytes(std::span(header)));
  firstDataByte_ = kLengthBytes + headerBytes;
  try {
    tensors_ = parseSafetensorsHeader(header, file_.sizeBytes() - firstDataByte_);
  } catch (const Failure& failure) {
    refuse(path, failure.what());
  }
}

void SafetensorsFile::read(const Tensor& tensor, std::uint64_t firstByte,
                           std::span<std::byte> into) const {
  if (firstByte > tensor.bytes() || into.size() > tensor.bytes() - firstByte) {
    throw Failure("a read beyond the end of " + inQuotes(tensor.name));
  }
  file_.read(fileOffset(tensor) + firstByte, into);
}

}  // namespace zipccl::tools
