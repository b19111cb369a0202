// SPDX-License-Identifier: Apache-2.0
//
// The functions that throw the library's one exception type, zipccl/error.hpp, and state its
// invariants. Bad bytes from a peer or a file are not errors of this kind; they are values (see the
// codec's DecodeStatus).

#pragma once

#include <concepts>
#include <string>
#include <string_view>

#include "base/text.hpp"
#include "zipccl/error.hpp"

namespace zipccl {

/// `file` without the folders above the project's own: `src/base/error.cpp`.
[[nodiscard]] std::string_view shortFileName(std::string_view file) noexcept;

namespace detail {

/// A condition together with the place that stated it.
struct ConditionAt {
  bool value;
  SourceLocation where;

  template <std::same_as<bool> Bool>
  constexpr ConditionAt(Bool condition,
                        SourceLocation place = SourceLocation::current()) noexcept  // implicit
      : value(condition), where(place) {}
};

/// A code together with the place that stated it.
struct ErrorCodeAt {
  ErrorCode value;
  SourceLocation where;

  constexpr ErrorCodeAt(ErrorCode code,
                        SourceLocation place = SourceLocation::current()) noexcept  // implicit
      : value(code), where(place) {}
};

[[noreturn]] void throwError(ErrorCode code, std::string message, SourceLocation where);

}  // namespace detail

/// Throws Error(code) with the joined `parts` as its message and the caller's place.
template <detail::TextPart... Parts>
[[noreturn]] void fail(detail::ErrorCodeAt code, const Parts&... parts) {
  detail::throwError(code.value, concat(parts...), code.where);
}

/// Throws Error(kInvalidArgument) with the joined `parts` unless `condition` holds. The message is
/// built only then; its parts are evaluated always, so keep them cheap.
template <detail::TextPart... Parts>
void expects(detail::ConditionAt condition, const Parts&... parts) {
  if (!condition.value) [[unlikely]] {
    detail::throwError(ErrorCode::kInvalidArgument, concat(parts...), condition.where);
  }
}

/// Throws Error(code) with the joined `parts` unless `condition` holds.
template <detail::TextPart... Parts>
void expects(detail::ConditionAt condition, ErrorCode code, const Parts&... parts) {
  if (!condition.value) [[unlikely]] {
    detail::throwError(code, concat(parts...), condition.where);
  }
}

#if defined(ZIPCCL_ASSERTIONS)
inline constexpr bool kAssertionsEnabled = ZIPCCL_ASSERTIONS != 0;
#elif !defined(NDEBUG) || defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool kAssertionsEnabled = true;
#else
inline constexpr bool kAssertionsEnabled = false;
#endif

/// States an invariant of this library. Debug and sanitizer builds throw Error(kInternalError)
/// where it is broken (inside a noexcept function that ends the program); others do not look.
template <detail::TextPart... Parts>
void invariant(detail::ConditionAt condition, const Parts&... parts) {
  if constexpr (kAssertionsEnabled) {
    if (!condition.value) [[unlikely]] {
      detail::throwError(ErrorCode::kInternalError, concat("broken invariant: ", parts...),
                         condition.where);
    }
  }
}

}  // namespace zipccl
