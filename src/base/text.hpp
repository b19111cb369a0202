// SPDX-License-Identifier: Apache-2.0
//
// Text without a formatting library: concat() joins values into one string. Messages of errors and
// of the log are built with it, so it accepts what such messages need and nothing else.

#pragma once

#include <charconv>
#include <concepts>
#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>

namespace zipccl {

namespace detail {

template <class T>
concept TextPart =
    std::convertible_to<const T&, std::string_view> || std::is_arithmetic_v<std::remove_cvref_t<T>>;

template <TextPart T>
void append(std::string& out, const T& part) {
  if constexpr (std::convertible_to<const T&, std::string_view>) {
    out.append(static_cast<std::string_view>(part));
  } else if constexpr (std::same_as<T, char>) {
    out.push_back(part);
  } else if constexpr (std::same_as<T, bool>) {
    out.append(part ? "true" : "false");
  } else {
    char digits[64];
    const std::to_chars_result result = std::to_chars(digits, digits + sizeof(digits), part);
    out.append(digits, result.ptr);
  }
}

}  // namespace detail

/// Joins its arguments: strings as they are, integers in decimal, floating point numbers in the
/// shortest form that reads back to the same value, bool as `true` or `false`.
template <detail::TextPart... Parts>
[[nodiscard]] std::string concat(const Parts&... parts) {
  std::string out;
  (detail::append(out, parts), ...);
  return out;
}

/// A byte count with its unit, exact where it is a multiple: `4096 bytes (4 KiB)`, `7 bytes`.
[[nodiscard]] std::string describeBytes(std::uint64_t bytes);

/// Seconds with three decimals: `0.250 s`.
[[nodiscard]] std::string describeMs(std::int64_t elapsedMs);

/// True when `a` and `b` are equal but for the case of ASCII letters.
[[nodiscard]] bool equalsIgnoringCase(std::string_view a, std::string_view b) noexcept;

/// What the system says of an errno, in any thread.
[[nodiscard]] std::string errnoText(int error);

}  // namespace zipccl
