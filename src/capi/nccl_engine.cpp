// SPDX-License-Identifier: Apache-2.0
//
// The table of zipccl/nccl_engine.h. Exceptions end here: they become NCCL's codes, and their words
// stay with the communicator.

#include <zipccl/nccl_engine.h>

#include <exception>
#include <memory>
#include <new>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "base/error.hpp"
#include "base/log.hpp"
#include "base/settings.hpp"
#include "capi/config.hpp"
#include "capi/nccl_api.hpp"
#include "collectives/nccl_attach.hpp"
#include "collectives/nccl_communicator.hpp"
#include "collectives/nccl_rounds.hpp"

namespace zipccl::capi {
namespace {

using collectives::NcclCommunicator;

NcclCommunicator* communicatorOf(void* attached) {
  return static_cast<NcclCommunicator*>(attached);
}

int codeOf(ErrorCode code) { return static_cast<int>(code); }

/// Turns what `body` throws into a code.
template <class Body>
int guarded(const Body& body) noexcept {
  try {
    return body();
  } catch (const Error& error) {
    return codeOf(error.code());
  } catch (const std::bad_alloc&) {
    return codeOf(ErrorCode::kSystemError);
  } catch (...) {
    return codeOf(ErrorCode::kInternalError);
  }
}

void* attachOne(const zipcclNcclApi& api, void* comm) noexcept {
  try {
    return collectives::attachNccl(api, comm, resolveNcclSettings(nullptr, zipccl::settings()))
        .release();
  } catch (const std::exception& error) {
    logWarn("a communicator stays native: ", error.what());
  } catch (...) {
    logWarn("a communicator stays native");
  }
  return nullptr;
}

void attach(const zipcclNcclApi* api, void* const comms[], int count, void* attached[]) noexcept {
  for (int i = 0; i < count; ++i) attached[i] = nullptr;
  static_cast<void>(guarded([&] {
    expects(api != nullptr, "api is NULL");
    if (zipccl::settings().isDisabled) return 0;
    const zipcclNcclApi& kept = keepNcclApi(*api);
    if (count == 1) {
      attached[0] = attachOne(kept, comms[0]);
      return 0;
    }
    // They wait for other ranks, which may be among them.
    std::vector<std::jthread> threads;
    threads.reserve(static_cast<std::size_t>(count));
    for (int i = 0; i < count; ++i) {
      threads.emplace_back([&, i] { attached[i] = attachOne(kept, comms[i]); });
    }
    return 0;
  }));
}

void detach(void* attached) noexcept {
  if (attached == nullptr) return;
  NcclCommunicator::destroy(std::unique_ptr<NcclCommunicator>(communicatorOf(attached)));
}

void abortAttached(void* attached) noexcept {
  if (attached != nullptr) communicatorOf(attached)->abort();
}

int wants(const zipcclNcclCall* call) noexcept {
  if (call->attached == nullptr) return 0;
  try {
    // Of one that failed every call is wanted, to be told so: what other ranks do nobody knows.
    const NcclCommunicator& communicator = *communicatorOf(call->attached);
    return communicator.hasFailed() || communicator.wants(*call) ? 1 : 0;
  } catch (...) {
    return 0;
  }
}

/// Whether the call has a root, a peer, buffers that NCCL would refuse at once. What is left out
/// here is found at the end of the group.
int check(const zipcclNcclCall* call) noexcept {
  NcclCommunicator* const communicator = communicatorOf(call->attached);
  if (communicator == nullptr) return transport::kNcclSuccess;
  return guarded([&] {
    const int ranks = communicator->rankCount();
    const bool hasPeer = call->kind == zipcclNcclBroadcast || call->kind == zipcclNcclReduce ||
                         call->kind == zipcclNcclGather || call->kind == zipcclNcclScatter ||
                         call->kind == zipcclNcclSend || call->kind == zipcclNcclRecv;
    const bool isRight = collectives::isDatatype(call->datatype) &&
                         (!hasPeer || (call->peer >= 0 && call->peer < ranks));
    return codeOf(isRight ? ErrorCode::kSuccess : ErrorCode::kInvalidArgument);
  });
}

int run(const zipcclNcclCall* calls, size_t count) noexcept {
  return guarded([&]() -> int {
    const zipcclNcclApi* const api = keptNcclApi();
    expects(api != nullptr, ErrorCode::kInvalidUsage, "no communicator was ever attached");
    std::vector<collectives::RoundCall> rounds(count);
    for (std::size_t i = 0; i < count; ++i) {
      NcclCommunicator* const communicator = communicatorOf(calls[i].attached);
      if (communicator != nullptr) communicator->throwIfFailed();
      rounds[i] = {&calls[i], communicator};
    }
    return collectives::runRounds(*api, rounds);
  });
}

int asyncError(void* attached, int real) noexcept {
  if (attached == nullptr ||
      (real != transport::kNcclSuccess && real != transport::kNcclInProgress)) {
    return real;
  }
  const std::optional<Error> error = communicatorOf(attached)->asyncError();
  return error ? codeOf(error->code()) : real;
}

const char* lastError(void* attached) noexcept {
  thread_local std::string words;
  if (attached == nullptr) return nullptr;
  try {
    const std::optional<Error> error = communicatorOf(attached)->asyncError();
    if (!error) return nullptr;
    words = concat("ZipCCL: ", error->message());
    return words.c_str();
  } catch (...) {
    return nullptr;
  }
}

// Operations that programs make have a scalar of each rank's own: calls with them go as they are.
void redOpCreated(void* /*attached*/, int /*op*/, const void* /*scalar*/, int /*datatype*/,
                  int /*residence*/) noexcept {}

void redOpDestroyed(void* /*attached*/, int /*op*/) noexcept {}

void windowRegistered(void* attached, void* buffer, size_t bytes, void* window) noexcept {
  if (attached == nullptr) return;
  static_cast<void>(guarded([&] {
    communicatorOf(attached)->addWindow(window, buffer, bytes);
    return 0;
  }));
}

void windowDeregistered(void* attached, void* window) noexcept {
  if (attached != nullptr) communicatorOf(attached)->removeWindow(window);
}

constexpr zipcclNcclEngine kEngine = {
    .size = sizeof(zipcclNcclEngine),
    .version = ZIPCCL_NCCL_ENGINE_VERSION,
    .attach = attach,
    .detach = detach,
    .abort = abortAttached,
    .wants = wants,
    .check = check,
    .run = run,
    .asyncError = asyncError,
    .lastError = lastError,
    .redOpCreated = redOpCreated,
    .redOpDestroyed = redOpDestroyed,
    .windowRegistered = windowRegistered,
    .windowDeregistered = windowDeregistered,
};

}  // namespace
}  // namespace zipccl::capi

const zipcclNcclEngine* zipcclGetNcclEngine(uint32_t version) {
  return version == ZIPCCL_NCCL_ENGINE_VERSION ? &zipccl::capi::kEngine : nullptr;
}
