// SPDX-License-Identifier: Apache-2.0
//
// What a zipcclComm_t points to, and the one place where exceptions become result codes and the
// last error is kept.

#pragma once

#include <zipccl/zipccl.h>

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>

#include "collectives/communicator.hpp"
#include "collectives/reduction.hpp"

/// Named by the public header; its members are private to this folder.
struct zipcclComm {
  static constexpr std::uint64_t kMagic = 0x6D6D6F436C636370ULL;

  explicit zipcclComm(std::unique_ptr<zipccl::collectives::Communicator> owned) noexcept
      : communicator(std::move(owned)) {}
  zipcclComm(const zipcclComm&) = delete;
  zipcclComm& operator=(const zipcclComm&) = delete;
  ~zipcclComm() { magic.store(0, std::memory_order_relaxed); }

  std::atomic<std::uint64_t> magic = kMagic;
  std::unique_ptr<zipccl::collectives::Communicator> communicator;
  std::mutex mutex;  ///< guards what follows
  std::string lastError;

  /// What zipcclRedOpCreatePreMulSum made, by operation.
  struct PreMulSum {
    zipcclDataType_t datatype;
    zipccl::collectives::Reduction reduction;
  };
  std::map<int, PreMulSum> preMulSums;
  int nextRedOp = zipcclNumOps;
};

namespace zipccl::capi {

/// Turns the exception in flight into a code. Its words, with `function` before them, become the
/// last error of this thread and of `comm`, which may be null. Call it in a catch (...).
[[nodiscard]] zipcclResult_t keepError(const char* function, zipcclComm_t comm) noexcept;

/// Makes `message` the last error of this thread and of `comm`, which may be null.
void keepMessage(std::string_view message, zipcclComm_t comm) noexcept;

/// Runs `body` for the C function of that name: zipcclSuccess when it returns. No exception leaves.
template <class Body>
[[nodiscard]] zipcclResult_t guarded(const char* function, zipcclComm_t comm,
                                     const Body& body) noexcept {
  try {
    body();
    return zipcclSuccess;
  } catch (...) {
    return keepError(function, comm);
  }
}

/// The communicator behind a handle. Throws Error(kInvalidArgument) for one that is null, destroyed
/// or never was one.
[[nodiscard]] collectives::Communicator& communicatorOf(zipcclComm_t comm);

}  // namespace zipccl::capi
