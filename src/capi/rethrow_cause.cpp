// SPDX-License-Identifier: Apache-2.0
//
// The exception to tell the caller.

#include "capi/rethrow_cause.hpp"

#include "base/error.hpp"

namespace zipccl::capi {

void rethrowCause(std::span<const std::exception_ptr> exceptions) {
  std::exception_ptr consequence;
  for (const std::exception_ptr& exception : exceptions) {
    if (exception == nullptr) continue;
    try {
      std::rethrow_exception(exception);
    } catch (const Error& error) {
      if (error.code() != ErrorCode::kRemoteError) throw;
      if (consequence == nullptr) consequence = exception;
    }
  }
  if (consequence != nullptr) std::rethrow_exception(consequence);
}

}  // namespace zipccl::capi
