// SPDX-License-Identifier: Apache-2.0
//
// Exceptions to result codes, and the last error.

#include <exception>
#include <new>
#include <string>

#include "base/error.hpp"
#include "base/text.hpp"
#include "capi/comm.hpp"

namespace zipccl::capi {
namespace {

static_assert(static_cast<int>(ErrorCode::kSuccess) == zipcclSuccess);
static_assert(static_cast<int>(ErrorCode::kUnhandledCudaError) == zipcclUnhandledCudaError);
static_assert(static_cast<int>(ErrorCode::kSystemError) == zipcclSystemError);
static_assert(static_cast<int>(ErrorCode::kInternalError) == zipcclInternalError);
static_assert(static_cast<int>(ErrorCode::kInvalidArgument) == zipcclInvalidArgument);
static_assert(static_cast<int>(ErrorCode::kInvalidUsage) == zipcclInvalidUsage);
static_assert(static_cast<int>(ErrorCode::kRemoteError) == zipcclRemoteError);
static_assert(static_cast<int>(ErrorCode::kInProgress) == zipcclInProgress);

constexpr const char* kNotAlive = "comm is not a communicator, or was destroyed";

bool isAlive(zipcclComm_t comm) noexcept {
  return comm->magic.load(std::memory_order_relaxed) == zipcclComm::kMagic;
}

std::string& lastErrorOfThread() {
  thread_local std::string message;
  return message;
}

zipcclResult_t keep(const char* function, zipcclComm_t comm, ErrorCode code,
                    std::string_view message) noexcept {
  try {
    keepMessage(concat(function, ": ", message), comm);
  } catch (const std::bad_alloc&) {
    keepMessage(message, comm);
  }
  return static_cast<zipcclResult_t>(code);
}

}  // namespace

void keepMessage(std::string_view message, zipcclComm_t comm) noexcept {
  try {
    lastErrorOfThread() = message;
    if (comm != nullptr && isAlive(comm)) {
      const std::lock_guard lock(comm->mutex);
      comm->lastError = message;
    }
  } catch (const std::bad_alloc&) {
    // The code still tells what kind of error it was.
  }
}

zipcclResult_t keepError(const char* function, zipcclComm_t comm) noexcept {
  try {
    throw;
  } catch (const Error& error) {
    return keep(function, comm, error.code(), error.message());
  } catch (const std::bad_alloc&) {
    return keep(function, comm, ErrorCode::kSystemError, "out of memory");
  } catch (const std::exception& error) {
    return keep(function, comm, ErrorCode::kInternalError, error.what());
  } catch (...) {
    return keep(function, comm, ErrorCode::kInternalError, "an unknown exception");
  }
}

void expectAlive(zipcclComm_t comm) {
  expects(comm != nullptr, "comm is NULL");
  expects(isAlive(comm), kNotAlive);
}

}  // namespace zipccl::capi

const char* zipcclGetLastError(zipcclComm_t comm) {
  thread_local std::string answer;
  try {
    if (comm == nullptr) {
      answer = zipccl::capi::lastErrorOfThread();
    } else if (zipccl::capi::isAlive(comm)) {
      const std::lock_guard lock(comm->mutex);
      answer = comm->lastError;
    } else {
      answer = zipccl::capi::kNotAlive;
    }
    return answer.c_str();
  } catch (const std::bad_alloc&) {
    return "out of memory";
  }
}
