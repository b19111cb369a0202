// SPDX-License-Identifier: Apache-2.0
//
// The real NCCL of this process: the one image, found when it is first needed, and its functions.

#pragma once

#include <zipccl/nccl_engine.h>

#include <atomic>
#include <cstddef>

namespace zipccl::preload {

/// Values of ncclResult_t.
inline constexpr int kSuccess = 0;
inline constexpr int kSystemError = 2;
inline constexpr int kInvalidUsage = 5;
inline constexpr int kInProgress = 7;

/// ncclUniqueId, which is passed by value.
struct UniqueId {
  char internal[128];
};

/// The functions that hooks call. `api` is what the engine gets; a function that the image lacks is
/// NULL.
struct RealNccl {
  bool isDisabled;   ///< ZIPCCL_DISABLE=1: hooks do nothing but call the real functions
  const char* path;  ///< of the image
  zipcclNcclApi api;

  int (*groupSimulateEnd)(void* simInfo);
  int (*commInitRank)(void** comm, int nranks, UniqueId commId, int rank);
  int (*commInitRankConfig)(void** comm, int nranks, UniqueId commId, int rank, void* config);
  int (*commInitRankScalable)(void** newcomm, int nranks, int myrank, int nId, void* commIds,
                              void* config);
  int (*commInitAll)(void** comm, int ndev, const int* devlist);
  int (*commShrink)(void* comm, int* excludeRanksList, int excludeRanksCount, void** newcomm,
                    void* config, int shrinkFlags);
  int (*commGrow)(void* comm, int nRanks, const void* uniqueId, int rank, void** newcomm,
                  void* config);
  int (*commFinalize)(void* comm);
  int (*commRevoke)(void* comm, int revokeFlags);
  int (*redOpCreatePreMulSum)(int* op, void* scalar, int datatype, int residence, void* comm);
  int (*redOpDestroy)(int op, void* comm);
  int (*commWindowRegister)(void* comm, void* buff, std::size_t size, void** win, int winFlags);
  int (*commWindowDeregister)(void* comm, void* win);
  int (*bcast)(void* buff, std::size_t count, int datatype, int root, void* comm, void* stream);
  int (*allGatherConfig)(const void* sendbuff, void* recvbuff, std::size_t sendcount, int datatype,
                         void* comm, void* stream, const void* config);
  int (*reduceScatterConfig)(const void* sendbuff, void* recvbuff, std::size_t recvcount,
                             int datatype, int op, void* comm, void* stream, const void* config);
  int (*allReduceConfig)(const void* sendbuff, void* recvbuff, std::size_t count, int datatype,
                         int op, void* comm, void* stream, const void* config);
  int (*broadcastConfig)(const void* sendbuff, void* recvbuff, std::size_t count, int datatype,
                         int root, void* comm, void* stream, const void* config);
  int (*reduceConfig)(const void* sendbuff, void* recvbuff, std::size_t count, int datatype, int op,
                      int root, void* comm, void* stream, const void* config);
  int (*allToAllConfig)(const void* sendbuff, void* recvbuff, std::size_t count, int datatype,
                        void* comm, void* stream, const void* config);
  int (*gatherConfig)(const void* sendbuff, void* recvbuff, std::size_t count, int datatype,
                      int root, void* comm, void* stream, const void* config);
  int (*scatterConfig)(const void* sendbuff, void* recvbuff, std::size_t count, int datatype,
                       int root, void* comm, void* stream, const void* config);
};

extern std::atomic<const RealNccl*> resolvedNccl;

/// Looks for the image and its functions. NULL, with a warning the first time, where the process
/// has none; the next call looks again.
[[nodiscard]] const RealNccl* resolveNccl() noexcept;

/// The real NCCL; the first call looks for it. Any thread may call it.
[[nodiscard]] inline const RealNccl* realNccl() noexcept {
  const RealNccl* const real = resolvedNccl.load(std::memory_order_acquire);
  return __builtin_expect(real != nullptr, 1) ? real : resolveNccl();
}

/// The address of `name` in the real image, as pncclX where there is one, or NULL.
[[nodiscard]] void* realFunction(const char* name) noexcept;

}  // namespace zipccl::preload
