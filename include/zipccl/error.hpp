// SPDX-License-Identifier: Apache-2.0
//
// The exception of the C++ headers, zipccl/codec.hpp and zipccl/gpu_codec.hpp: what their functions
// throw when the caller, CUDA or the system is at fault. Bad bytes are no exception but a value,
// DecodeStatus. The C API throws nothing; it returns a zipcclResult_t.

#pragma once

#include <exception>
#include <string>

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

/// The text of NCCL for `code`, such as `invalid argument`; never null, static lifetime.
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

/// The exception of this library, the only one that it throws besides std::bad_alloc. Copying it
/// may allocate; the copies are independent.
class Error : public std::exception {
 public:
  Error(ErrorCode code, std::string message, SourceLocation where = SourceLocation::current());

  [[nodiscard]] ErrorCode code() const noexcept { return code_; }

  /// What happened, for a person, without code and place. Its words may change.
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

}  // namespace zipccl
