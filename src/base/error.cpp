// SPDX-License-Identifier: Apache-2.0
//
// The texts of errors and the one place that throws them.

#include "base/error.hpp"

#include <utility>

namespace zipccl {

const char* errorCodeText(ErrorCode code) noexcept {
  switch (code) {
    case ErrorCode::kSuccess:
      return "no error";
    case ErrorCode::kUnhandledCudaError:
      return "unhandled cuda error";
    case ErrorCode::kSystemError:
      return "unhandled system error";
    case ErrorCode::kInternalError:
      return "internal error";
    case ErrorCode::kInvalidArgument:
      return "invalid argument";
    case ErrorCode::kInvalidUsage:
      return "invalid usage";
    case ErrorCode::kRemoteError:
      return "remote process exited or there was a network error";
    case ErrorCode::kInProgress:
      return "operation in progress";
  }
  return "unknown result code";
}

std::string_view shortFileName(std::string_view file) noexcept {
  for (const std::string_view root :
       {"src/", "tests/", "tools/", "preload/", "python/", "include/"}) {
    const std::size_t at = file.rfind(root);
    if (at == 0 || (at != std::string_view::npos && file[at - 1] == '/')) return file.substr(at);
  }
  const std::size_t slash = file.rfind('/');
  return slash == std::string_view::npos ? file : file.substr(slash + 1);
}

Error::Error(ErrorCode code, std::string message, SourceLocation where)
    : code_(code),
      where_(where),
      message_(std::move(message)),
      text_(concat(errorCodeText(code), ": ", message_, " (", shortFileName(where.file), ':',
                   where.line, ')')) {}

namespace detail {

void throwError(ErrorCode code, std::string message, SourceLocation where) {
  throw Error(code, std::move(message), where);
}

}  // namespace detail
}  // namespace zipccl
