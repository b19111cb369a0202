// SPDX-License-Identifier: Apache-2.0
//
// The values that are encoded.

#include "bench/codec_data.hpp"

#include <bit>
#include <charconv>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <optional>
#include <span>
#include <stdexcept>
#include <string_view>

#include "base/error.hpp"
#include "base/random.hpp"
#include "support/safetensors.hpp"

namespace zipccl::bench {
namespace {

using codec::Datatype;
using codec::Layout;

/// No power of two, so that a repeated block does not come to stand at the same places of tiles,
/// groups and buffers.
constexpr std::size_t kBlockElements = (std::size_t{8} << 20) + 12345;

std::uint16_t bfloat16Of(double value) {
  const auto bits = std::bit_cast<std::uint32_t>(static_cast<float>(value));
  return static_cast<std::uint16_t>((bits + 0x7FFFU + ((bits >> 16) & 1U)) >> 16);
}

template <typename Word>
std::vector<std::byte> bytesOf(const std::vector<Word>& words) {
  const auto bytes = std::as_bytes(std::span(words));
  return {bytes.begin(), bytes.end()};
}

template <typename Word, typename Next>
std::vector<std::byte> generate(Next&& next) {
  std::vector<Word> words(kBlockElements);
  for (Word& word : words) word = next();
  return bytesOf(words);
}

/// The number behind the colon of `text`, within [least, most].
double numberOf(std::string_view text, std::string_view number, double least, double most) {
  double value = 0.0;
  const char* const end = number.data() + number.size();
  const auto [stopped, error] = std::from_chars(number.data(), end, value);
  expects(error == std::errc() && stopped == end && value >= least && value <= most, "'", text,
          "' needs a number from ", least, " to ", most);
  return value;
}

std::optional<Datatype> datatypeOf(const std::string& dtype) {
  if (dtype == "BF16") return Datatype::kBfloat16;
  if (dtype == "F32") return Datatype::kFloat32;
  return std::nullopt;
}

bool areAllLowHalvesZero(std::span<const std::byte> elements) {
  for (std::size_t at = 0; at < elements.size(); at += 4) {
    if (elements[at] != std::byte{0} || elements[at + 1] != std::byte{0}) return false;
  }
  return true;
}

DataSet readFile(const std::string& text, const std::string& place) {
  // Names of tensors and files may hold colons: the file is the longest part that is one.
  std::size_t pathEnd = place.size();
  while (!std::filesystem::is_regular_file(place.substr(0, pathEnd))) {
    pathEnd = pathEnd == 0 ? std::string::npos : place.rfind(':', pathEnd - 1);
    expects(pathEnd != std::string::npos, "'", text, "' names no file");
  }
  const std::string wanted = pathEnd == place.size() ? "" : place.substr(pathEnd + 1);
  DataSet data;
  data.name = text;
  std::optional<Datatype> datatype;
  const zipccl::testing::SafetensorsFile file(place.substr(0, pathEnd));
  for (const zipccl::testing::Tensor& tensor : file.tensors()) {
    const std::optional<Datatype> candidate = datatypeOf(tensor.dtype);
    const bool isWanted =
        wanted.empty() ? candidate && (!datatype || candidate == datatype) : tensor.name == wanted;
    if (!isWanted) continue;
    expects(candidate.has_value(), "'", text, "' is of ", tensor.dtype, ", which is not coded");
    datatype = candidate;
    data.bytes.insert(data.bytes.end(), tensor.bytes.begin(), tensor.bytes.end());
  }
  expects(datatype.has_value() && !data.bytes.empty(), "'", text, "' names no tensor with values");
  data.datatype = *datatype;
  if (data.datatype == Datatype::kFloat32 && !areAllLowHalvesZero(data.bytes)) {
    data.layout = Layout::kWide;
  }
  return data;
}

}  // namespace

DataSet makeDataSet(const std::string& text, std::uint64_t seed) {
  const std::size_t colon = text.find(':');
  const std::string kind = text.substr(0, colon);
  const std::string rest = colon == std::string::npos ? "" : text.substr(colon + 1);
  Random random(seed);
  DataSet data;
  data.name = text;
  if (kind == "normal") {
    const double sigma = numberOf(text, rest, 1e-38, 1e38);
    data.bytes = generate<std::uint16_t>([&] { return bfloat16Of(sigma * random.normal()); });
  } else if (kind == "zeros") {
    const double share = numberOf(text, rest, 0.0, 1.0);
    data.bytes = generate<std::uint16_t>([&] {
      const std::uint16_t word = bfloat16Of(0.02 * random.normal());
      return random.chance(share) ? std::uint16_t{0} : word;
    });
  } else if (text == "random") {
    data.bytes.resize(2 * kBlockElements);
    random.fill(data.bytes);
  } else if (kind == "widened") {
    const double sigma = numberOf(text, rest, 1e-38, 1e38);
    data.datatype = Datatype::kFloat32;
    data.bytes = generate<std::uint32_t>(
        [&] { return static_cast<std::uint32_t>(bfloat16Of(sigma * random.normal())) << 16; });
  } else if (kind == "float") {
    const double sigma = numberOf(text, rest, 1e-38, 1e38);
    data.datatype = Datatype::kFloat32;
    data.layout = Layout::kWide;
    data.bytes = generate<std::uint32_t>(
        [&] { return std::bit_cast<std::uint32_t>(static_cast<float>(sigma * random.normal())); });
  } else if (kind == "file") {
    return readFile(text, rest);
  } else {
    fail(ErrorCode::kInvalidArgument, "'", text,
         "' is no data: normal:SIGMA, zeros:SHARE, random, widened:SIGMA, float:SIGMA or "
         "file:PATH[:TENSOR]");
  }
  return data;
}

}  // namespace zipccl::bench
