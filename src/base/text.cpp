// SPDX-License-Identifier: Apache-2.0
//
// Text helpers that are not templates: quantities with their units and ASCII comparison.

#include "base/text.hpp"

#include <algorithm>
#include <array>
#include <cstring>

namespace zipccl {

std::string describeBytes(std::uint64_t bytes) {
  static constexpr std::array<std::string_view, 4> kUnits = {"KiB", "MiB", "GiB", "TiB"};
  std::uint64_t scaled = bytes;
  std::size_t unitCount = 0;
  while (unitCount < kUnits.size() && scaled != 0 && scaled % 1024 == 0) {
    scaled /= 1024;
    ++unitCount;
  }
  if (unitCount == 0) return concat(bytes, bytes == 1 ? " byte" : " bytes");
  return concat(bytes, " bytes (", scaled, ' ', kUnits[unitCount - 1], ')');
}

std::string describeMs(std::int64_t elapsedMs) {
  const bool negative = elapsedMs < 0;
  const std::uint64_t magnitude =
      negative ? 0 - static_cast<std::uint64_t>(elapsedMs) : static_cast<std::uint64_t>(elapsedMs);
  const std::uint64_t fraction = magnitude % 1000;
  return concat(negative ? "-" : "", magnitude / 1000, '.', fraction / 100, fraction / 10 % 10,
                fraction % 10, " s");
}

bool equalsIgnoringCase(std::string_view a, std::string_view b) noexcept {
  const auto lower = [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; };
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [&](char x, char y) { return lower(x) == lower(y); });
}

std::string errnoText(int error) {
  std::array<char, 256> buffer{};
  return strerror_r(error, buffer.data(), buffer.size());  // GNU's, which returns the text
}

}  // namespace zipccl
