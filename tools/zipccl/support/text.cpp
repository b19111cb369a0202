// SPDX-License-Identifier: Apache-2.0
//
// Small pieces of text.

#include "support/text.hpp"

#include <array>
#include <charconv>
#include <cmath>
#include <cstdio>

#include "support/failure.hpp"

namespace zipccl::tools {
namespace {

constexpr std::uint64_t kMostBytes = std::uint64_t{1} << 62;

/// The power of 1024 that a suffix stands for; -1 when it is no suffix.
int powerOfSuffix(std::string_view suffix) {
  if (suffix.empty()) return 0;
  std::string lower;
  for (const char c : suffix) lower += static_cast<char>(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);
  if (lower == "b") return 0;
  const std::size_t power = std::string_view("kmgt").find(lower.front());
  const std::string_view rest = std::string_view(lower).substr(1);
  if (power == std::string_view::npos || (!rest.empty() && rest != "b" && rest != "ib")) return -1;
  return static_cast<int>(power) + 1;
}

}  // namespace

std::string fixed(double value, int decimals) {
  std::array<char, 400> text{};
  const int length = std::snprintf(text.data(), text.size(), "%.*f", decimals, value);
  return {text.data(), static_cast<std::size_t>(length)};
}

std::string humanBytes(std::uint64_t bytes) {
  constexpr std::array kUnits = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  std::size_t unit = 0;
  auto value = static_cast<double>(bytes);
  while (value >= 1024.0 && unit + 1 < kUnits.size()) {
    value /= 1024.0;
    ++unit;
  }
  const bool isWhole = value == std::floor(value);
  return fixed(value, isWhole ? 0 : 1) + " " + kUnits.at(unit);
}

std::string printable(std::string_view text, std::size_t mostCharacters) {
  std::string result;
  for (const char c : text) {
    std::array<char, 8> piece{c};
    if (c < ' ' || c > '~' || c == '\\') {
      std::snprintf(piece.data(), piece.size(), "\\x%02x", static_cast<unsigned char>(c));
    }
    const std::string_view added = piece.data();
    if (result.size() + added.size() > mostCharacters) return result + "...";
    result += added;
  }
  return result;
}

std::string inQuotes(std::string_view text) {
  // Not by operator+, in which g++ 12 sees a memcpy that overlaps (GCC bug 105651).
  std::string result(1, '\'');
  result += printable(text);
  result += '\'';
  return result;
}

std::uint64_t parseByteSize(std::string_view text) {
  const auto fail = [text](const char* why) {
    return UsageError(inQuotes(text) + " is not a size: " + why + "; examples: 8, 64K, 1.5M, 2G");
  };
  if (text.empty() || text.front() < '0' || text.front() > '9') {
    throw fail("it does not begin with a digit");
  }
  const std::size_t digits = text.find_first_not_of("0123456789.");
  const std::string_view number = text.substr(0, digits);
  const std::string_view suffix =
      digits == std::string_view::npos ? std::string_view() : text.substr(digits);
  if (number.back() == '.') throw fail("nothing follows its point");
  const int power = powerOfSuffix(suffix);
  if (power < 0) throw fail("its unit is none of K, M, G, T");

  const char* const end = number.data() + number.size();
  const std::uint64_t unit = std::uint64_t{1} << (10 * power);
  std::uint64_t whole = 0;
  const auto parsed = std::from_chars(number.data(), end, whole);
  if (parsed.ec == std::errc() && parsed.ptr == end) {
    if (whole > kMostBytes / unit) throw fail("it exceeds 2^62");
    return whole * unit;
  }
  double value = 0.0;
  const auto real = std::from_chars(number.data(), end, value, std::chars_format::fixed);
  if (real.ec == std::errc::result_out_of_range) throw fail("it exceeds 2^62");
  if (real.ec != std::errc() || real.ptr != end) throw fail("it is not one number with a unit");
  value *= static_cast<double>(unit);
  if (value > static_cast<double>(kMostBytes)) throw fail("it exceeds 2^62");
  return static_cast<std::uint64_t>(value);
}

std::vector<char*> argumentPointers(std::vector<std::string>& words) {
  std::vector<char*> pointers;
  pointers.reserve(words.size() + 1);
  for (std::string& word : words) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  return pointers;
}

}  // namespace zipccl::tools
