// SPDX-License-Identifier: Apache-2.0
//
// The functions of the fake libnccl.so.2, as pncclX; the weak ncclX jump to them (symbols.cpp). As
// in the real library, some functions call others by their public names, so that whoever stands in
// front of the library meets its inner calls too.

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <string>

#include "base/random.hpp"
#include "group.hpp"

using namespace zipccl::testing;

namespace {

constexpr int kVersion = FAKE_NCCL_VERSION;
constexpr int kNoColor = -1;

struct UniqueId {
  char internal[128];
};

/// The beginning of ncclConfig_t.
struct Config {
  std::size_t size;
  unsigned int magic;
  unsigned int version;
  int blocking;
};

struct Window {
  CommunicatorPtr communicator;
  void* buffer;
};

bool isBlocking(const Config* config, bool inherited) {
  constexpr unsigned kMagic = 0xcafebeef;
  if (config == nullptr || config->magic != kMagic || config->blocking == INT32_MIN) {
    return inherited;
  }
  return config->blocking != 0;
}

void trace(const char* name) {
  if (fakeNcclIsTracing() != 0) fakeNcclTraceAdd(name);
}

void traceCall(const char* name, const Call& call) {
  if (fakeNcclIsTracing() == 0) return;
  char line[160];
  std::snprintf(line, sizeof(line), "%s count=%zu datatype=%d op=%d peer=%d", name, call.count,
                call.datatype, call.op < kNcclNumOps ? call.op : kNcclNumOps, call.peer);
  fakeNcclTraceAdd(line);
}

int fail(int result, const std::string& text) {
  setLastError(text);
  return groupFail(result);
}

/// What every call on a communicator needs: that it is one, and ready. NULL with *result set.
CommunicatorPtr ready(void* handle, const char* name, int* result) {
  const CommunicatorPtr communicator = findCommunicator(handle);
  if (communicator == nullptr) {
    *result = fail(kNcclInvalidArgument, std::string(name) + ": comm is no communicator");
    if (handle != nullptr) fakeFault((std::string(name) + " of no communicator").c_str());
    return nullptr;
  }
  if (const int injected = fakeNcclInjectedError(handle); injected != 0) {
    *result = fail(injected, std::string(name) + ": the communicator has failed");
    return nullptr;
  }
  const int state = communicator->state();
  if (state == kNcclSuccess) return communicator;
  *result = fail(state == kNcclInProgress ? int{kNcclInvalidArgument} : state,
                 std::string(name) + ": the communicator is not ready");
  return nullptr;
}

int enqueue(const char* name, Kind kind, const void* sendbuff, void* recvbuff, std::size_t count,
            int datatype, int op, int peer, void* comm, void* stream) {
  if (fakeNcclIsIdle() != 0) return kNcclSuccess;
  Call call = {
      kind, sendbuff, recvbuff, count, datatype, op, peer, static_cast<fakeStream_t>(stream), {}};
  traceCall(name, call);
  int result = kNcclSuccess;
  const CommunicatorPtr communicator = ready(comm, name, &result);
  if (communicator == nullptr) return result;
  if (const std::string wrong = communicator->check(call); !wrong.empty()) {
    return fail(kNcclInvalidArgument, std::string(name) + ": " + wrong);
  }
  const bool isReduction =
      kind == Kind::kReduceScatter || kind == Kind::kAllReduce || kind == Kind::kReduce;
  if (isReduction && op >= kNcclNumOps) call.user = communicator->userOperation(op);
  // Collectives of no elements are no operation; sends and receives still meet.
  if (count == 0 && kind != Kind::kSend && kind != Kind::kReceive) return kNcclSuccess;
  return submit(communicator, call);
}

int initRank(void** comm, int ranks, const std::string& name, int rank, bool isBlocking) {
  if (comm == nullptr) return fail(kNcclInvalidArgument, "comm is NULL");
  *comm = nullptr;
  if (ranks < 1 || ranks > kMostRanks || rank < 0 || rank >= ranks) {
    return fail(kNcclInvalidArgument, "a rank that is none");
  }
  const auto communicator = std::make_shared<Communicator>(isBlocking);
  *comm = publish(communicator);
  return submit(Job{communicator, [communicator, name, ranks, rank] {
                      return communicator->join(name, ranks, rank);
                    }});
}

std::string nameOf(const UniqueId& id) {
  return std::string(id.internal, ::strnlen(id.internal, sizeof(id.internal)));
}

void makeUniqueId(UniqueId& id) {
  std::memset(&id, 0, sizeof(id));
  std::snprintf(id.internal, sizeof(id.internal), "/fake_nccl.%016llx",
                static_cast<unsigned long long>(zipccl::freshSeed()));
}

}  // namespace

extern "C" {

// What the library calls by its public names.
FAKE_API int ncclBroadcast(const void*, void*, std::size_t, int, int, void*, void*);
FAKE_API int ncclGroupStart();
FAKE_API int ncclGroupEnd();

FAKE_API int pncclGetVersion(int* version) {
  if (version == nullptr) return kNcclInvalidArgument;
  *version = kVersion;
  return kNcclSuccess;
}

FAKE_API int pncclGetUniqueId(UniqueId* id) {
  if (id == nullptr) return kNcclInvalidArgument;
  makeUniqueId(*id);
  return kNcclSuccess;
}

FAKE_API int pncclCommInitRank(void** comm, int nranks, UniqueId id, int rank) {
  trace("CommInitRank");
  return initRank(comm, nranks, nameOf(id), rank, true);
}

FAKE_API int pncclCommInitRankConfig(void** comm, int nranks, UniqueId id, int rank,
                                     const Config* config) {
  trace("CommInitRankConfig");
  return initRank(comm, nranks, nameOf(id), rank, isBlocking(config, true));
}

FAKE_API int pncclCommInitRankScalable(void** comm, int nranks, int rank, int idCount,
                                       const UniqueId* ids, const Config* config) {
  trace("CommInitRankScalable");
  if (idCount < 1 || ids == nullptr) return fail(kNcclInvalidArgument, "no unique id");
  return initRank(comm, nranks, nameOf(ids[0]), rank, isBlocking(config, true));
}

FAKE_API int pncclCommInitAll(void** comms, int ndev, const int* devices) {
  trace("CommInitAll");
  if (comms == nullptr || ndev < 1) return kNcclInvalidArgument;
  UniqueId id;
  makeUniqueId(id);
  const int device = fakeGetDevice();
  int result = ncclGroupStart();
  for (int rank = 0; rank < ndev; ++rank) {
    fakeSetDevice(devices != nullptr ? devices[rank] : rank);
    const int each = initRank(comms + rank, ndev, nameOf(id), rank, true);
    if (result == kNcclSuccess) result = each;
  }
  fakeSetDevice(device);
  const int ended = ncclGroupEnd();
  return result == kNcclSuccess ? ended : result;
}

FAKE_API int pncclCommSplit(void* comm, int color, int key, void** newcomm, const Config* config) {
  trace("CommSplit");
  int result = kNcclSuccess;
  const CommunicatorPtr parent = ready(comm, "CommSplit", &result);
  if (parent == nullptr) return result;
  *newcomm = nullptr;
  const bool isChildBlocking = isBlocking(config, parent->isBlocking());
  if (color == kNoColor) {
    return submit(Job{parent, [parent, color, key] {
                        std::string name;
                        int ranks = 0;
                        int rank = 0;
                        return parent->splitPlan(color, key, name, ranks, rank);
                      }});
  }
  // The handle must be there at once, but who belongs to the new communicator is known later.
  const auto child = std::make_shared<Communicator>(isChildBlocking);
  *newcomm = publish(child);
  return submit(Job{child, [parent, child, color, key] {
                      std::string name;
                      int ranks = 0;
                      int rank = 0;
                      const int planned = parent->splitPlan(color, key, name, ranks, rank);
                      return planned == kNcclSuccess ? child->join(name, ranks, rank) : planned;
                    }});
}

FAKE_API int pncclCommShrink(void* comm, int* excluded, int excludedCount, void** newcomm,
                             const Config* config, int flags) {
  trace("CommShrink");
  const CommunicatorPtr parent = findCommunicator(comm);
  if (parent == nullptr || newcomm == nullptr) return fail(kNcclInvalidArgument, "CommShrink");
  if (flags != 0) parent->abort();
  std::string name = parent->name() + ".shrunk" + std::to_string(parent->nextChild());
  int rank = parent->rank();
  for (int i = 0; i < excludedCount; ++i) {
    if (excluded[i] == parent->rank()) return fail(kNcclInvalidArgument, "CommShrink of itself");
    if (excluded[i] < parent->rank()) --rank;
    name += "." + std::to_string(excluded[i]);
  }
  return initRank(newcomm, parent->ranks() - excludedCount, name, rank,
                  isBlocking(config, parent->isBlocking()));
}

FAKE_API int pncclCommGetUniqueId(void* comm, UniqueId* id) {
  if (findCommunicator(comm) == nullptr || id == nullptr) return kNcclInvalidArgument;
  makeUniqueId(*id);
  return kNcclSuccess;
}

/// As the real one but for one thing: each existing rank passes the id, for there is no other way
/// here by which the root could tell the others.
FAKE_API int pncclCommGrow(void* comm, int ranks, const UniqueId* id, int rank, void** newcomm,
                           const Config* config) {
  trace("CommGrow");
  const CommunicatorPtr parent = findCommunicator(comm);
  if (id == nullptr || (comm != nullptr && parent == nullptr)) {
    return fail(kNcclInvalidArgument, "CommGrow");
  }
  return initRank(newcomm, ranks, nameOf(*id), parent != nullptr ? parent->rank() : rank,
                  isBlocking(config, true));
}

FAKE_API int pncclCommFinalize(void* comm) {
  trace("CommFinalize");
  int result = kNcclSuccess;
  const CommunicatorPtr communicator = ready(comm, "CommFinalize", &result);
  if (communicator == nullptr) return result;
  return submit(Job{communicator, [communicator] {
                      communicator->flush();
                      return int{kNcclSuccess};
                    }});
}

FAKE_API int pncclCommDestroy(void* comm) {
  trace("CommDestroy");
  if (comm == nullptr) return kNcclSuccess;
  const CommunicatorPtr communicator = findCommunicator(comm);
  if (communicator == nullptr) {
    fakeFault("CommDestroy of no communicator");
    return kNcclInvalidArgument;
  }
  communicator->flush();
  retract(comm);
  return kNcclSuccess;
}

FAKE_API int pncclCommAbort(void* comm) {
  trace("CommAbort");
  if (comm == nullptr) return kNcclSuccess;
  const CommunicatorPtr communicator = findCommunicator(comm);
  if (communicator == nullptr) {
    fakeFault("CommAbort of no communicator");
    return kNcclInvalidArgument;
  }
  communicator->abort();
  retract(comm);
  return kNcclSuccess;
}

FAKE_API int pncclCommRevoke(void* comm, int flags) {
  trace("CommRevoke");
  const CommunicatorPtr communicator = findCommunicator(comm);
  if (communicator == nullptr || flags != 0) return kNcclInvalidArgument;
  communicator->abort();
  return kNcclSuccess;
}

FAKE_API int pncclCommGetAsyncError(void* comm, int* asyncError) {
  const CommunicatorPtr communicator = findCommunicator(comm);
  if (communicator == nullptr || asyncError == nullptr) return kNcclInvalidArgument;
  const int injected = fakeNcclInjectedError(comm);
  *asyncError = injected != 0 ? injected : communicator->state();
  return kNcclSuccess;
}

FAKE_API const char* pncclGetLastError(void*) { return lastError(); }

FAKE_API const char* pncclGetErrorString(int result) {
  switch (result) {
    case kNcclSuccess:
      return "no error";
    case kNcclInProgress:
      return "NCCL operation in progress";
    default:
      return "an error of the fake library";
  }
}

FAKE_API int pncclCommCount(void* comm, int* count) {
  const CommunicatorPtr communicator = findCommunicator(comm);
  if (communicator == nullptr) return kNcclInvalidArgument;
  *count = communicator->ranks();
  return kNcclSuccess;
}

FAKE_API int pncclCommUserRank(void* comm, int* rank) {
  const CommunicatorPtr communicator = findCommunicator(comm);
  if (communicator == nullptr) return kNcclInvalidArgument;
  *rank = communicator->rank();
  return kNcclSuccess;
}

FAKE_API int pncclCommCuDevice(void* comm, int* device) {
  const CommunicatorPtr communicator = findCommunicator(comm);
  if (communicator == nullptr) return kNcclInvalidArgument;
  *device = communicator->device();
  return kNcclSuccess;
}

FAKE_API int pncclRedOpCreatePreMulSum(int* op, void* scalar, int datatype, int residence,
                                       void* comm) {
  trace("RedOpCreatePreMulSum");
  int result = kNcclSuccess;
  const CommunicatorPtr communicator = ready(comm, "RedOpCreatePreMulSum", &result);
  if (communicator == nullptr) return result;
  UserOperation operation;
  operation.datatype = datatype;
  if (residence == 0) {
    operation.deviceScalar = scalar;
  } else {
    operation.scalar = readScalar(scalar, datatype);
  }
  *op = communicator->addOperation(operation);
  return kNcclSuccess;
}

FAKE_API int pncclRedOpDestroy(int op, void* comm) {
  trace("RedOpDestroy");
  const CommunicatorPtr communicator = findCommunicator(comm);
  if (communicator == nullptr || !communicator->removeOperation(op)) {
    return fail(kNcclInvalidArgument, "RedOpDestroy: op is none");
  }
  return kNcclSuccess;
}

FAKE_API int pncclCommRegister(void* comm, void* buffer, std::size_t, void** handle) {
  trace("CommRegister");
  if (findCommunicator(comm) == nullptr) return kNcclInvalidArgument;
  *handle = buffer;
  return kNcclSuccess;
}

FAKE_API int pncclCommDeregister(void* comm, void*) {
  trace("CommDeregister");
  return findCommunicator(comm) == nullptr ? kNcclInvalidArgument : kNcclSuccess;
}

FAKE_API int pncclCommWindowRegister(void* comm, void* buffer, std::size_t, void** window, int) {
  trace("CommWindowRegister");
  int result = kNcclSuccess;
  const CommunicatorPtr communicator = ready(comm, "CommWindowRegister", &result);
  if (communicator == nullptr) return result;
  // As in the real library, in a group the window is there when the group has ended.
  *window = nullptr;
  return submit(Job{communicator, [communicator, buffer, window] {
                      *window = new Window{communicator, buffer};
                      return int{kNcclSuccess};
                    }});
}

FAKE_API int pncclCommWindowDeregister(void* comm, void* window) {
  trace("CommWindowDeregister");
  if (findCommunicator(comm) == nullptr) return kNcclInvalidArgument;
  delete static_cast<Window*>(window);
  return kNcclSuccess;
}

FAKE_API int pncclMemAlloc(void** pointer, std::size_t bytes) {
  trace("MemAlloc");
  *pointer = std::aligned_alloc(4096, (bytes + 4095) / 4096 * 4096);
  return *pointer != nullptr ? kNcclSuccess : kNcclSystemError;
}

FAKE_API int pncclMemFree(void* pointer) {
  trace("MemFree");
  std::free(pointer);
  return kNcclSuccess;
}

FAKE_API int pncclGroupStart() {
  if (fakeNcclIsIdle() != 0) return kNcclSuccess;
  trace("GroupStart");
  return groupStart();
}

FAKE_API int pncclGroupEnd() {
  if (fakeNcclIsIdle() != 0) return kNcclSuccess;
  trace("GroupEnd");
  return groupEnd();
}

FAKE_API int pncclGroupSimulateEnd(void*) {
  trace("GroupSimulateEnd");
  return groupSimulateEnd();
}

FAKE_API int pncclAllGather(const void* sendbuff, void* recvbuff, std::size_t count, int datatype,
                            void* comm, void* stream) {
  return enqueue("AllGather", Kind::kAllGather, sendbuff, recvbuff, count, datatype, 0, 0, comm,
                 stream);
}

FAKE_API int pncclReduceScatter(const void* sendbuff, void* recvbuff, std::size_t count,
                                int datatype, int op, void* comm, void* stream) {
  return enqueue("ReduceScatter", Kind::kReduceScatter, sendbuff, recvbuff, count, datatype, op, 0,
                 comm, stream);
}

FAKE_API int pncclAllReduce(const void* sendbuff, void* recvbuff, std::size_t count, int datatype,
                            int op, void* comm, void* stream) {
  return enqueue("AllReduce", Kind::kAllReduce, sendbuff, recvbuff, count, datatype, op, 0, comm,
                 stream);
}

FAKE_API int pncclBroadcast(const void* sendbuff, void* recvbuff, std::size_t count, int datatype,
                            int root, void* comm, void* stream) {
  return enqueue("Broadcast", Kind::kBroadcast, sendbuff, recvbuff, count, datatype, 0, root, comm,
                 stream);
}

FAKE_API int pncclBcast(void* buffer, std::size_t count, int datatype, int root, void* comm,
                        void* stream) {
  trace("Bcast");
  return ncclBroadcast(buffer, buffer, count, datatype, root, comm, stream);
}

FAKE_API int pncclReduce(const void* sendbuff, void* recvbuff, std::size_t count, int datatype,
                         int op, int root, void* comm, void* stream) {
  return enqueue("Reduce", Kind::kReduce, sendbuff, recvbuff, count, datatype, op, root, comm,
                 stream);
}

FAKE_API int pncclSend(const void* sendbuff, std::size_t count, int datatype, int peer, void* comm,
                       void* stream) {
  return enqueue("Send", Kind::kSend, sendbuff, nullptr, count, datatype, 0, peer, comm, stream);
}

FAKE_API int pncclRecv(void* recvbuff, std::size_t count, int datatype, int peer, void* comm,
                       void* stream) {
  return enqueue("Recv", Kind::kReceive, nullptr, recvbuff, count, datatype, 0, peer, comm, stream);
}

#if FAKE_NCCL_VERSION >= 22800
FAKE_API int pncclAlltoAll(const void* sendbuff, void* recvbuff, std::size_t count, int datatype,
                           void* comm, void* stream) {
  return enqueue("AlltoAll", Kind::kAlltoAll, sendbuff, recvbuff, count, datatype, 0, 0, comm,
                 stream);
}

FAKE_API int pncclGather(const void* sendbuff, void* recvbuff, std::size_t count, int datatype,
                         int root, void* comm, void* stream) {
  return enqueue("Gather", Kind::kGather, sendbuff, recvbuff, count, datatype, 0, root, comm,
                 stream);
}

FAKE_API int pncclScatter(const void* sendbuff, void* recvbuff, std::size_t count, int datatype,
                          int root, void* comm, void* stream) {
  return enqueue("Scatter", Kind::kScatter, sendbuff, recvbuff, count, datatype, 0, root, comm,
                 stream);
}
#endif

#if FAKE_NCCL_VERSION >= 23100
FAKE_API int pncclAllGatherConfig(const void* sendbuff, void* recvbuff, std::size_t count,
                                  int datatype, void* comm, void* stream, const void*) {
  return pncclAllGather(sendbuff, recvbuff, count, datatype, comm, stream);
}
#endif

}  // extern "C"
