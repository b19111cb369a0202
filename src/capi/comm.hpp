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

#include "capi/nccl_comm.hpp"
#include "collectives/communicator.hpp"
#include "collectives/reduction.hpp"

/// Named by the public header; its members are private to this folder.
struct zipcclComm {
  static constexpr std::uint64_t kMagic = 0x6D6D6F436C636370ULL;

  explicit zipcclComm(std::unique_ptr<zipccl::collectives::Communicator> owned) noexcept
      : communicator(std::move(owned)) {}
  explicit zipcclComm(std::unique_ptr<zipccl::capi::NcclComm> owned) noexcept
      : nccl(std::move(owned)) {}
  zipcclComm(const zipcclComm&) = delete;
  zipcclComm& operator=(const zipcclComm&) = delete;
  ~zipcclComm() { magic.store(0, std::memory_order_relaxed); }

  std::atomic<std::uint64_t> magic = kMagic;
  // One of the two.
  std::unique_ptr<zipccl::collectives::Communicator> communicator;  ///< works on host memory
  std::unique_ptr<zipccl::capi::NcclComm> nccl;
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

/// Throws Error(kInvalidArgument) for a handle that is null, destroyed or never was one.
void expectAlive(zipcclComm_t comm);

/// Calls `body` with what is behind the handle, a Communicator or a NcclComm. Throws as
/// expectAlive().
template <class Body>
decltype(auto) with(zipcclComm_t comm, const Body& body) {
  expectAlive(comm);
  return comm->nccl != nullptr ? body(*comm->nccl) : body(*comm->communicator);
}

}  // namespace zipccl::capi
