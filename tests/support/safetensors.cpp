// SPDX-License-Identifier: Apache-2.0
//
// Reads safetensors files for tests.

#include "support/safetensors.hpp"

#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>
#include <stdexcept>

namespace zipccl::testing {
namespace {

constexpr std::uint64_t kMaxHeaderBytes = 100'000'000;

void require(bool condition, const std::string& what) {
  if (!condition) throw std::runtime_error("not a safetensors file: " + what);
}

std::uint64_t bytesOf(const std::string& dtype) {
  if (dtype == "F64" || dtype == "I64" || dtype == "U64") return 8;
  if (dtype == "F32" || dtype == "I32" || dtype == "U32") return 4;
  if (dtype == "BF16" || dtype == "F16" || dtype == "I16" || dtype == "U16") return 2;
  if (dtype == "I8" || dtype == "U8" || dtype == "BOOL" || dtype == "F8_E4M3" ||
      dtype == "F8_E5M2") {
    return 1;
  }
  throw std::runtime_error("not a safetensors file: unknown dtype " + dtype);
}

std::vector<std::uint64_t> unsignedNumbers(const nlohmann::json& array, const std::string& what) {
  require(array.is_array(), what + " is not an array");
  std::vector<std::uint64_t> numbers;
  for (const nlohmann::json& number : array) {
    require(number.is_number_unsigned(), what + " holds something else than unsigned numbers");
    numbers.push_back(number.get<std::uint64_t>());
  }
  return numbers;
}

Tensor parseTensor(const std::string& name, const nlohmann::json& entry,
                   std::span<const std::byte> data) {
  require(entry.is_object() && entry.contains("dtype") && entry.contains("shape") &&
              entry.contains("data_offsets") && entry["dtype"].is_string(),
          name + " lacks dtype, shape or data_offsets");
  Tensor tensor{name, entry["dtype"].get<std::string>(), 1, {}};
  for (const std::uint64_t extent : unsignedNumbers(entry["shape"], name + ".shape")) {
    require(extent == 0 || tensor.elementCount <= data.size() / extent,
            name + " is larger than the file");
    tensor.elementCount *= extent;
  }
  const auto offsets = unsignedNumbers(entry["data_offsets"], name + ".data_offsets");
  require(offsets.size() == 2 && offsets[0] <= offsets[1] && offsets[1] <= data.size(),
          name + ".data_offsets lie outside the file");
  require(offsets[1] - offsets[0] == tensor.elementCount * bytesOf(tensor.dtype),
          name + ".data_offsets do not fit its shape");
  tensor.bytes = data.subspan(offsets[0], offsets[1] - offsets[0]);
  return tensor;
}

}  // namespace

std::vector<Tensor> parseSafetensors(std::span<const std::byte> file) {
  std::uint64_t headerBytes = 0;
  require(file.size() >= sizeof headerBytes, "shorter than 8 bytes");
  std::memcpy(&headerBytes, file.data(), sizeof headerBytes);
  require(headerBytes <= kMaxHeaderBytes && headerBytes <= file.size() - sizeof headerBytes,
          "the header is longer than the file");
  const std::span<const std::byte> headerText = file.subspan(sizeof headerBytes, headerBytes);
  const std::span<const std::byte> data = file.subspan(sizeof headerBytes + headerBytes);

  const auto* const text = reinterpret_cast<const char*>(headerText.data());
  const nlohmann::json header =
      nlohmann::json::parse(text, text + headerText.size(), nullptr, /*allow_exceptions=*/false);
  require(header.is_object(), "the header is not a JSON object");
  std::vector<Tensor> tensors;
  for (const auto& [name, entry] : header.items()) {
    if (name != "__metadata__") tensors.push_back(parseTensor(name, entry, data));
  }
  std::sort(tensors.begin(), tensors.end(),
            [](const Tensor& a, const Tensor& b) { return a.bytes.data() < b.bytes.data(); });
  return tensors;
}

SafetensorsFile::SafetensorsFile(const std::string& path) : file_(path) {
  try {
    tensors_ = parseSafetensors(file_.bytes());
  } catch (const std::runtime_error& error) {
    throw std::runtime_error(path + ": " + error.what());
  }
}

}  // namespace zipccl::testing
