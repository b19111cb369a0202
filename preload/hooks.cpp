// SPDX-License-Identifier: Apache-2.0
//
// The functions that stand in front of NCCL's: those with the action "hook" of nccl_symbols.txt.
// Arguments have NCCL's names and order, handles are void* and enumerators int, which is the same
// at the level of machine code.

#include <cstddef>

#include "engine.hpp"
#include "group.hpp"
#include "real_nccl.hpp"

using namespace zipccl::preload;

#define ZIPCCL_HOOK extern "C" [[gnu::visibility("default")]]

namespace {

constexpr int kSymmetricWindow = 1;  // NCCL_WIN_COLL_SYMMETRIC

int submitCall(zipcclNcclKind kind, const void* sendbuff, void* recvbuff, std::size_t count,
               int datatype, int op, int peer, void* comm, void* stream) noexcept {
  const RealNccl* const real = realNccl();
  if (real == nullptr) return kSystemError;
  return submit(*real,
                {kind, 0, sendbuff, recvbuff, count, datatype, op, peer, comm, nullptr, stream});
}

/// Whether the hooks do anything in this call.
bool isOn(const RealNccl& real) noexcept { return !real.isDisabled && !isInside(); }

/// Calls a real function that may be missing, as one that the hooks leave alone.
template <class Function, class... Arguments>
int pass(Function* function, Arguments... arguments) noexcept {
  if (function == nullptr) return kInvalidUsage;
  const Inside inside;
  return function(arguments...);
}

/// An init: the real one, then the engine.
template <class Function, class... Arguments>
int init(void** comms, int count, Function* RealNccl::*member, Arguments... arguments) noexcept {
  const RealNccl* const real = realNccl();
  if (real == nullptr) return kSystemError;
  if (!isOn(*real)) return pass(real->*member, arguments...);
  const Inside inside;
  return afterInit(*real, comms, count, pass(real->*member, arguments...));
}

/// Finalize and Destroy: the engine goes first.
int endComm(const RealNccl& real, void* comm, int (*function)(void*)) noexcept {
  if (!isOn(real)) return pass(function, comm);
  const Inside inside;
  Attached attached(comm);
  attached.close();
  attached.release();
  return pass(function, comm);
}

/// Abort and Revoke, by any thread at any time: what the engine waits for on the communicator ends
/// first; the engine itself goes afterwards, since what it would wait for then may end by the real
/// call alone, or when the last thread inside a call on the communicator has left it.
template <class... Arguments>
int abortComm(const RealNccl& real, int (*function)(void*, Arguments...), void* comm,
              Arguments... arguments) noexcept {
  if (!isOn(real)) return pass(function, comm, arguments...);
  const Inside inside;
  const Attached attached(comm);
  if (attached) Attached::engine().abort(attached.get());
  attached.close();
  return pass(function, comm, arguments...);
}

}  // namespace

ZIPCCL_HOOK int ncclAllGather(const void* sendbuff, void* recvbuff, std::size_t sendcount,
                              int datatype, void* comm, void* stream) {
  return submitCall(zipcclNcclAllGather, sendbuff, recvbuff, sendcount, datatype, 0, 0, comm,
                    stream);
}

ZIPCCL_HOOK int ncclReduceScatter(const void* sendbuff, void* recvbuff, std::size_t recvcount,
                                  int datatype, int op, void* comm, void* stream) {
  return submitCall(zipcclNcclReduceScatter, sendbuff, recvbuff, recvcount, datatype, op, 0, comm,
                    stream);
}

ZIPCCL_HOOK int ncclAllReduce(const void* sendbuff, void* recvbuff, std::size_t count, int datatype,
                              int op, void* comm, void* stream) {
  return submitCall(zipcclNcclAllReduce, sendbuff, recvbuff, count, datatype, op, 0, comm, stream);
}

ZIPCCL_HOOK int ncclBroadcast(const void* sendbuff, void* recvbuff, std::size_t count, int datatype,
                              int root, void* comm, void* stream) {
  return submitCall(zipcclNcclBroadcast, sendbuff, recvbuff, count, datatype, 0, root, comm,
                    stream);
}

ZIPCCL_HOOK int ncclBcast(void* buff, std::size_t count, int datatype, int root, void* comm,
                          void* stream) {
  return submitCall(zipcclNcclBroadcast, buff, buff, count, datatype, 0, root, comm, stream);
}

ZIPCCL_HOOK int ncclReduce(const void* sendbuff, void* recvbuff, std::size_t count, int datatype,
                           int op, int root, void* comm, void* stream) {
  return submitCall(zipcclNcclReduce, sendbuff, recvbuff, count, datatype, op, root, comm, stream);
}

ZIPCCL_HOOK int ncclAlltoAll(const void* sendbuff, void* recvbuff, std::size_t count, int datatype,
                             void* comm, void* stream) {
  return submitCall(zipcclNcclAlltoAll, sendbuff, recvbuff, count, datatype, 0, 0, comm, stream);
}

ZIPCCL_HOOK int ncclGather(const void* sendbuff, void* recvbuff, std::size_t count, int datatype,
                           int root, void* comm, void* stream) {
  return submitCall(zipcclNcclGather, sendbuff, recvbuff, count, datatype, 0, root, comm, stream);
}

ZIPCCL_HOOK int ncclScatter(const void* sendbuff, void* recvbuff, std::size_t count, int datatype,
                            int root, void* comm, void* stream) {
  return submitCall(zipcclNcclScatter, sendbuff, recvbuff, count, datatype, 0, root, comm, stream);
}

ZIPCCL_HOOK int ncclSend(const void* sendbuff, std::size_t count, int datatype, int peer,
                         void* comm, void* stream) {
  return submitCall(zipcclNcclSend, sendbuff, nullptr, count, datatype, 0, peer, comm, stream);
}

ZIPCCL_HOOK int ncclRecv(void* recvbuff, std::size_t count, int datatype, int peer, void* comm,
                         void* stream) {
  return submitCall(zipcclNcclRecv, nullptr, recvbuff, count, datatype, 0, peer, comm, stream);
}

// Without a config these are the functions above; what a config says, NCCL alone understands.

ZIPCCL_HOOK int ncclAllGatherConfig(const void* sendbuff, void* recvbuff, std::size_t sendcount,
                                    int datatype, void* comm, void* stream, const void* config) {
  if (config == nullptr)
    return ncclAllGather(sendbuff, recvbuff, sendcount, datatype, comm, stream);
  const RealNccl* const real = realNccl();
  if (real == nullptr) return kSystemError;
  return pass(real->allGatherConfig, sendbuff, recvbuff, sendcount, datatype, comm, stream, config);
}

ZIPCCL_HOOK int ncclReduceScatterConfig(const void* sendbuff, void* recvbuff, std::size_t recvcount,
                                        int datatype, int op, void* comm, void* stream,
                                        const void* config) {
  if (config == nullptr) {
    return ncclReduceScatter(sendbuff, recvbuff, recvcount, datatype, op, comm, stream);
  }
  const RealNccl* const real = realNccl();
  if (real == nullptr) return kSystemError;
  return pass(real->reduceScatterConfig, sendbuff, recvbuff, recvcount, datatype, op, comm, stream,
              config);
}

ZIPCCL_HOOK int ncclAllReduceConfig(const void* sendbuff, void* recvbuff, std::size_t count,
                                    int datatype, int op, void* comm, void* stream,
                                    const void* config) {
  if (config == nullptr) {
    return ncclAllReduce(sendbuff, recvbuff, count, datatype, op, comm, stream);
  }
  const RealNccl* const real = realNccl();
  if (real == nullptr) return kSystemError;
  return pass(real->allReduceConfig, sendbuff, recvbuff, count, datatype, op, comm, stream, config);
}

ZIPCCL_HOOK int ncclBroadcastConfig(const void* sendbuff, void* recvbuff, std::size_t count,
                                    int datatype, int root, void* comm, void* stream,
                                    const void* config) {
  if (config == nullptr) {
    return ncclBroadcast(sendbuff, recvbuff, count, datatype, root, comm, stream);
  }
  const RealNccl* const real = realNccl();
  if (real == nullptr) return kSystemError;
  return pass(real->broadcastConfig, sendbuff, recvbuff, count, datatype, root, comm, stream,
              config);
}

ZIPCCL_HOOK int ncclReduceConfig(const void* sendbuff, void* recvbuff, std::size_t count,
                                 int datatype, int op, int root, void* comm, void* stream,
                                 const void* config) {
  if (config == nullptr) {
    return ncclReduce(sendbuff, recvbuff, count, datatype, op, root, comm, stream);
  }
  const RealNccl* const real = realNccl();
  if (real == nullptr) return kSystemError;
  return pass(real->reduceConfig, sendbuff, recvbuff, count, datatype, op, root, comm, stream,
              config);
}

ZIPCCL_HOOK int ncclAlltoAllConfig(const void* sendbuff, void* recvbuff, std::size_t count,
                                   int datatype, void* comm, void* stream, const void* config) {
  if (config == nullptr) return ncclAlltoAll(sendbuff, recvbuff, count, datatype, comm, stream);
  const RealNccl* const real = realNccl();
  if (real == nullptr) return kSystemError;
  return pass(real->allToAllConfig, sendbuff, recvbuff, count, datatype, comm, stream, config);
}

ZIPCCL_HOOK int ncclGatherConfig(const void* sendbuff, void* recvbuff, std::size_t count,
                                 int datatype, int root, void* comm, void* stream,
                                 const void* config) {
  if (config == nullptr) {
    return ncclGather(sendbuff, recvbuff, count, datatype, root, comm, stream);
  }
  const RealNccl* const real = realNccl();
  if (real == nullptr) return kSystemError;
  return pass(real->gatherConfig, sendbuff, recvbuff, count, datatype, root, comm, stream, config);
}

ZIPCCL_HOOK int ncclScatterConfig(const void* sendbuff, void* recvbuff, std::size_t count,
                                  int datatype, int root, void* comm, void* stream,
                                  const void* config) {
  if (config == nullptr) {
    return ncclScatter(sendbuff, recvbuff, count, datatype, root, comm, stream);
  }
  const RealNccl* const real = realNccl();
  if (real == nullptr) return kSystemError;
  return pass(real->scatterConfig, sendbuff, recvbuff, count, datatype, root, comm, stream, config);
}

ZIPCCL_HOOK int ncclGroupStart() {
  const RealNccl* const real = realNccl();
  return real != nullptr ? groupStart(*real) : kSystemError;
}

ZIPCCL_HOOK int ncclGroupEnd() {
  const RealNccl* const real = realNccl();
  return real != nullptr ? groupEnd(*real) : kSystemError;
}

ZIPCCL_HOOK int ncclGroupSimulateEnd(void* simInfo) {
  const RealNccl* const real = realNccl();
  return real != nullptr ? groupSimulateEnd(*real, simInfo) : kSystemError;
}

ZIPCCL_HOOK int ncclCommInitRank(void** comm, int nranks, UniqueId commId, int rank) {
  return init(comm, 1, &RealNccl::commInitRank, comm, nranks, commId, rank);
}

ZIPCCL_HOOK int ncclCommInitRankConfig(void** comm, int nranks, UniqueId commId, int rank,
                                       void* config) {
  return init(comm, 1, &RealNccl::commInitRankConfig, comm, nranks, commId, rank, config);
}

ZIPCCL_HOOK int ncclCommInitRankScalable(void** newcomm, int nranks, int myrank, int nId,
                                         void* commIds, void* config) {
  return init(newcomm, 1, &RealNccl::commInitRankScalable, newcomm, nranks, myrank, nId, commIds,
              config);
}

ZIPCCL_HOOK int ncclCommInitAll(void** comm, int ndev, const int* devlist) {
  return init(comm, ndev, &RealNccl::commInitAll, comm, ndev, devlist);
}

ZIPCCL_HOOK int ncclCommSplit(void* comm, int color, int key, void** newcomm, void* config) {
  const RealNccl* const real = realNccl();
  if (real == nullptr) return kSystemError;
  if (!isOn(*real)) return pass(real->api.commSplit, comm, color, key, newcomm, config);
  const Inside inside;
  return afterInit(*real, newcomm, 1, pass(real->api.commSplit, comm, color, key, newcomm, config));
}

ZIPCCL_HOOK int ncclCommShrink(void* comm, int* excludeRanksList, int excludeRanksCount,
                               void** newcomm, void* config, int shrinkFlags) {
  return init(newcomm, 1, &RealNccl::commShrink, comm, excludeRanksList, excludeRanksCount, newcomm,
              config, shrinkFlags);
}

ZIPCCL_HOOK int ncclCommGrow(void* comm, int nRanks, const void* uniqueId, int rank, void** newcomm,
                             void* config) {
  return init(newcomm, 1, &RealNccl::commGrow, comm, nRanks, uniqueId, rank, newcomm, config);
}

ZIPCCL_HOOK int ncclCommFinalize(void* comm) {
  const RealNccl* const real = realNccl();
  if (real == nullptr) return kSystemError;
  return endComm(*real, comm, real->commFinalize);
}

ZIPCCL_HOOK int ncclCommDestroy(void* comm) {
  const RealNccl* const real = realNccl();
  if (real == nullptr) return kSystemError;
  return endComm(*real, comm, real->api.commDestroy);
}

ZIPCCL_HOOK int ncclCommAbort(void* comm) {
  const RealNccl* const real = realNccl();
  if (real == nullptr) return kSystemError;
  return abortComm(*real, real->api.commAbort, comm);
}

ZIPCCL_HOOK int ncclCommRevoke(void* comm, int revokeFlags) {
  const RealNccl* const real = realNccl();
  if (real == nullptr) return kSystemError;
  return abortComm(*real, real->commRevoke, comm, revokeFlags);
}

ZIPCCL_HOOK int ncclCommGetAsyncError(void* comm, int* asyncError) {
  const RealNccl* const real = realNccl();
  if (real == nullptr) return kSystemError;
  const int result = pass(real->api.commGetAsyncError, comm, asyncError);
  if (result != kSuccess || asyncError == nullptr || !isOn(*real)) return result;
  const Inside inside;
  if (const Attached attached(comm); attached) {
    *asyncError = Attached::engine().asyncError(attached.get(), *asyncError);
  }
  return result;
}

ZIPCCL_HOOK const char* ncclGetLastError(void* comm) {
  const RealNccl* const real = realNccl();
  if (real == nullptr) return "no NCCL is loaded";
  if (isOn(*real) && comm != nullptr) {
    const Inside inside;
    if (const Attached attached(comm); attached) {
      const char* const words = Attached::engine().lastError(attached.get());
      if (words != nullptr) return words;
    }
  }
  return real->api.getLastError != nullptr ? real->api.getLastError(comm) : "";
}

ZIPCCL_HOOK int ncclRedOpCreatePreMulSum(int* op, void* scalar, int datatype, int residence,
                                         void* comm) {
  const RealNccl* const real = realNccl();
  if (real == nullptr) return kSystemError;
  const int result = pass(real->redOpCreatePreMulSum, op, scalar, datatype, residence, comm);
  if (result != kSuccess || !isOn(*real)) return result;
  const Inside inside;
  if (const Attached attached(comm); attached) {
    Attached::engine().redOpCreated(attached.get(), *op, scalar, datatype, residence);
  }
  return result;
}

ZIPCCL_HOOK int ncclRedOpDestroy(int op, void* comm) {
  const RealNccl* const real = realNccl();
  if (real == nullptr) return kSystemError;
  if (isOn(*real)) {
    const Inside inside;
    if (destroyOpLater(op, comm)) return kSuccess;
    if (const Attached attached(comm); attached) {
      Attached::engine().redOpDestroyed(attached.get(), op);
    }
  }
  return pass(real->redOpDestroy, op, comm);
}

ZIPCCL_HOOK int ncclCommWindowRegister(void* comm, void* buff, std::size_t size, void** win,
                                       int winFlags) {
  const RealNccl* const real = realNccl();
  if (real == nullptr) return kSystemError;
  const int result = pass(real->commWindowRegister, comm, buff, size, win, winFlags);
  if (!isOn(*real) || win == nullptr || (winFlags & kSymmetricWindow) == 0) return result;
  const Inside inside;
  return afterWindow(comm, buff, size, win, result);
}

ZIPCCL_HOOK int ncclCommWindowDeregister(void* comm, void* win) {
  const RealNccl* const real = realNccl();
  if (real == nullptr) return kSystemError;
  if (isOn(*real)) {
    const Inside inside;
    if (const Attached attached(comm); attached) {
      Attached::engine().windowDeregistered(attached.get(), win);
    }
  }
  return pass(real->commWindowDeregister, comm, win);
}
