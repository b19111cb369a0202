// SPDX-License-Identifier: Apache-2.0
//
// What is to be measured, as the command line says it.

#include "bench/codec_cases.hpp"

#include <charconv>
#include <limits>

#include "base/error.hpp"

namespace zipccl::bench {
namespace {

std::vector<std::string_view> splitAtCommas(std::string_view text) {
  std::vector<std::string_view> parts;
  while (true) {
    const std::size_t comma = text.find(',');
    parts.push_back(text.substr(0, comma));
    if (comma == std::string_view::npos) return parts;
    text.remove_prefix(comma + 1);
  }
}

std::uint64_t parseNumber(std::string_view text, std::uint64_t most) {
  std::uint64_t value = 0;
  const char* const end = text.data() + text.size();
  const auto [stopped, error] = std::from_chars(text.data(), end, value);
  expects(error == std::errc() && stopped == end && value <= most, "'", text,
          "' is not a whole number up to ", most);
  return value;
}

std::uint64_t parseSize(std::string_view text) {
  expects(!text.empty(), "a size is missing");
  unsigned shift = 0;
  switch (text.back()) {
    case 'K':
      shift = 10;
      break;
    case 'M':
      shift = 20;
      break;
    case 'G':
      shift = 30;
      break;
    default:
      break;
  }
  if (shift != 0) text.remove_suffix(1);
  constexpr std::uint64_t kMostBytes = std::uint64_t{1} << 41;
  const std::uint64_t bytes = parseNumber(text, kMostBytes >> shift) << shift;
  expects(bytes >= 4 && bytes % 4 == 0, "a size of ", bytes, " bytes is no whole number of values");
  return bytes;
}

}  // namespace

CodecCase parseCodecCase(std::string_view text) {
  const std::size_t at = text.rfind('@');
  CodecCase parsed{std::string(text.substr(0, at)), {}, {}};
  expects(parsed.kind == kTrafficKind, "'", text, "' is no kind of measurement: ", kTrafficKind);
  if (at == std::string_view::npos) return {parsed.kind, {std::uint64_t{256} << 20}, {0}};
  const std::string_view numbers = text.substr(at + 1);
  const std::size_t slash = numbers.find('/');
  for (const std::string_view size : splitAtCommas(numbers.substr(0, slash))) {
    parsed.sizesBytes.push_back(parseSize(size));
  }
  if (slash == std::string_view::npos) {
    parsed.blockLimits = {0};
    return parsed;
  }
  for (const std::string_view blocks : splitAtCommas(numbers.substr(slash + 1))) {
    parsed.blockLimits.push_back(
        static_cast<unsigned>(parseNumber(blocks, std::numeric_limits<unsigned>::max())));
  }
  return parsed;
}

std::vector<std::string> defaultCodecCases() { return {"traffic@256M,1G/0,528"}; }

}  // namespace zipccl::bench
