// SPDX-License-Identifier: Apache-2.0
//
// Errors: the one exception type of the library, and the functions that throw it. Bad bytes from a
// peer or a file are not errors of this kind; they are values (see the codec's DecodeStatus).

#pragma once

#include <concepts>
#include <exception>
#include <string>
#include <string_view>

#include "base/text.hpp"

namespace zipccl {

/// What went wrong, with the values and the meaning of NCCL's ncclResult_t.
enum class ErrorCode : int {
  kSuccess = 0,
  kUnhandledCudaError = 1,  ///< a call to CUDA failed
  kSystemError = 2,         ///< a call to the system, or to a library such as MPI, failed
  kInternalError = 3,       ///< a fault of this library: a broken invariant
  kInvalidArgument = 4,     ///< an argument is wrong by itself: nothing was started
  kInvalidUsage = 5,        ///< calls that do not fit each other, on one rank or between ranks
  kRemoteError = 6,         ///< another rank failed, left or never came
  kInProgress = 7,          ///< not an error: a non-blocking operation is not complete yet
};

/// The text of NCCL for `code`, such as `invalid argument`; never null.
[[nodiscard]] const char* errorCodeText(ErrorCode code) noexcept;

/// A place in the source. Functions take it as a defaulted last step of an argument's conversion,
/// so that it names their caller.
struct SourceLocation {
  const char* file = "";
  int line = 0;

  /// The place of the call in whose default argument this stands.
  [[nodiscard]] static constexpr SourceLocation current(const char* file = __builtin_FILE(),
                                                        int line = __builtin_LINE()) noexcept {
    return {file, line};
  }
};

/// `file` without the folders above the project's own: `src/base/error.cpp`.
[[nodiscard]] std::string_view shortFileName(std::string_view file) noexcept;

/// The exception of this library. Copying it may allocate; the copies are independent.
class Error : public std::exception {
 public:
  Error(ErrorCode code, std::string message, SourceLocation where = SourceLocation::current());

  [[nodiscard]] ErrorCode code() const noexcept { return code_; }

  /// What happened, for a person, without code and place.
  [[nodiscard]] const std::string& message() const noexcept { return message_; }

  /// The file that threw, as the compiler was given it.
  [[nodiscard]] const char* file() const noexcept { return where_.file; }
  [[nodiscard]] int line() const noexcept { return where_.line; }
  [[nodiscard]] SourceLocation where() const noexcept { return where_; }

  /// `invalid argument: message (src/base/error.cpp:12)`; valid as long as this object.
  [[nodiscard]] const char* what() const noexcept override { return text_.c_str(); }

 private:
  ErrorCode code_;
  SourceLocation where_;
  std::string message_;
  std::string text_;
};

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
