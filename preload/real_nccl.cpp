// SPDX-License-Identifier: Apache-2.0
//
// The functions of the real NCCL that hooks call.

#include "real_nccl.hpp"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "image.hpp"
#include "notice.hpp"
#include "report.hpp"

namespace zipccl::preload {
namespace {

pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
RealNccl storage;
image::NcclImage ncclImage;
bool hasWarned = false;

bool isDisabledByUser() noexcept {
  const char* const value = getenv("ZIPCCL_DISABLE");
  return value != nullptr && strcmp(value, "1") == 0;
}

template <class Function>
void take(Function& function, const char* name) noexcept {
  image::takeNcclFunction(ncclImage, name, function);
}

/// All but those of the engine's table.
void takeMore(RealNccl& real) noexcept {
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

}  // namespace

std::atomic<const RealNccl*> resolvedNccl{nullptr};

const RealNccl* resolveNccl() noexcept {
  pthread_mutex_lock(&mutex);
  const RealNccl* real = resolvedNccl.load(std::memory_order_relaxed);
  if (real == nullptr) {
    char why[512] = {};
    if (findImage(ncclImage, why, sizeof(why))) {
      storage.path = ncclImage.path;
      storage.isDisabled = isDisabledByUser();
      if (!image::takeNcclApi(ncclImage, storage.api)) {
        storage.isDisabled = true;
        ZIPCCL_WARN("%s is no NCCL that ZipCCL knows; its calls pass unchanged", ncclImage.path);
      }
      takeMore(storage);
      reportNccl(ncclImage.path, ncclImage.how, storage.api.version, storage.isDisabled);
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
  return realNccl() != nullptr ? image::ncclFunction(ncclImage, name) : nullptr;
}

}  // namespace zipccl::preload
