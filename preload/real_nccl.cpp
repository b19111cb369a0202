// SPDX-License-Identifier: Apache-2.0
//
// The functions of the real NCCL, taken from its image one by one.

#include "real_nccl.hpp"

#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include <cstdio>

#include "image.hpp"
#include "notice.hpp"
#include "report.hpp"

namespace zipccl::preload {
namespace {

pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
RealNccl storage;
Image image;
bool hasWarned = false;

bool isDisabledByUser() noexcept {
  const char* const value = getenv("ZIPCCL_DISABLE");
  return value != nullptr && strcmp(value, "1") == 0;
}

/// The function in the image, but never one of this library, which a handle of the whole program
/// would give.
void* symbolOf(const char* name) noexcept {
  void* const address = dlsym(image.handle, name);
  Dl_info there = {};
  if (address == nullptr || dladdr(address, &there) == 0) return address;
  return strcmp(there.dli_fname, ownPath()) == 0 ? nullptr : address;
}

/// pncclX, which no interposer stands in front of, else ncclX.
void* symbol(const char* name) noexcept {
  char twin[128];
  std::snprintf(twin, sizeof(twin), "p%s", name);
  void* const address = symbolOf(twin);
  return address != nullptr ? address : symbolOf(name);
}

template <class Function>
void take(Function& function, const char* name) noexcept {
  function = reinterpret_cast<Function>(symbol(name));
}

void takeAll(RealNccl& real) noexcept {
  zipcclNcclApi& api = real.api;
  api.size = sizeof(api);
  api.image = image.handle;
  take(api.getErrorString, "ncclGetErrorString");
  take(api.getLastError, "ncclGetLastError");
  take(api.groupStart, "ncclGroupStart");
  take(api.groupEnd, "ncclGroupEnd");
  take(api.commCount, "ncclCommCount");
  take(api.commUserRank, "ncclCommUserRank");
  take(api.commCuDevice, "ncclCommCuDevice");
  take(api.commGetAsyncError, "ncclCommGetAsyncError");
  take(api.commSplit, "ncclCommSplit");
  take(api.commDestroy, "ncclCommDestroy");
  take(api.commAbort, "ncclCommAbort");
  take(api.allGather, "ncclAllGather");
  take(api.reduceScatter, "ncclReduceScatter");
  take(api.allReduce, "ncclAllReduce");
  take(api.broadcast, "ncclBroadcast");
  take(api.reduce, "ncclReduce");
  take(api.allToAll, "ncclAlltoAll");
  take(api.gather, "ncclGather");
  take(api.scatter, "ncclScatter");
  take(api.send, "ncclSend");
  take(api.recv, "ncclRecv");
  take(real.groupSimulateEnd, "ncclGroupSimulateEnd");
  take(real.commInitRank, "ncclCommInitRank");
  take(real.commInitRankConfig, "ncclCommInitRankConfig");
  take(real.commInitRankScalable, "ncclCommInitRankScalable");
  take(real.commInitAll, "ncclCommInitAll");
  take(real.commShrink, "ncclCommShrink");
  take(real.commGrow, "ncclCommGrow");
  take(real.commFinalize, "ncclCommFinalize");
  take(real.commRevoke, "ncclCommRevoke");
  take(real.redOpCreatePreMulSum, "ncclRedOpCreatePreMulSum");
  take(real.redOpDestroy, "ncclRedOpDestroy");
  take(real.commWindowRegister, "ncclCommWindowRegister");
  take(real.commWindowDeregister, "ncclCommWindowDeregister");
  take(real.bcast, "ncclBcast");
  take(real.allGatherConfig, "ncclAllGatherConfig");
  take(real.reduceScatterConfig, "ncclReduceScatterConfig");
  take(real.allReduceConfig, "ncclAllReduceConfig");
  take(real.broadcastConfig, "ncclBroadcastConfig");
  take(real.reduceConfig, "ncclReduceConfig");
  take(real.allToAllConfig, "ncclAlltoAllConfig");
  take(real.gatherConfig, "ncclGatherConfig");
  take(real.scatterConfig, "ncclScatterConfig");
}

/// Without these a library is no NCCL that the hooks could serve: they pass everything then.
bool hasTheCore(const RealNccl& real) noexcept {
  const zipcclNcclApi& api = real.api;
  return api.groupStart != nullptr && api.groupEnd != nullptr && api.commCount != nullptr &&
         api.commUserRank != nullptr && api.commCuDevice != nullptr && api.allGather != nullptr &&
         api.reduceScatter != nullptr && api.allReduce != nullptr && api.broadcast != nullptr &&
         api.reduce != nullptr && api.send != nullptr && api.recv != nullptr;
}

}  // namespace

std::atomic<const RealNccl*> resolvedNccl{nullptr};

const RealNccl* resolveNccl() noexcept {
  pthread_mutex_lock(&mutex);
  const RealNccl* real = resolvedNccl.load(std::memory_order_relaxed);
  if (real == nullptr) {
    char why[512] = {};
    if (findImage(image, why, sizeof(why))) {
      takeAll(storage);
      storage.path = image.path;
      storage.isDisabled = isDisabledByUser();
      int (*getVersion)(int*) = nullptr;
      take(getVersion, "ncclGetVersion");
      if (getVersion(&storage.api.version) != kSuccess || !hasTheCore(storage)) {
        storage.isDisabled = true;
        ZIPCCL_WARN("%s is no NCCL that ZipCCL knows; its calls pass unchanged", image.path);
      }
      reportNccl(image.path, image.how, storage.api.version, storage.isDisabled);
      real = &storage;
      resolvedNccl.store(real, std::memory_order_release);
    } else if (!hasWarned) {
      hasWarned = true;
      ZIPCCL_WARN("an NCCL function was called, but %s", why);
    }
  }
  pthread_mutex_unlock(&mutex);
  return real;
}

void* realFunction(const char* name) noexcept {
  return realNccl() != nullptr ? symbol(name) : nullptr;
}

}  // namespace zipccl::preload
