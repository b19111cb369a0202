// SPDX-License-Identifier: Apache-2.0
//
// The search for NCCL among the images of the process, and its functions, taken one by one.

#include "image/nccl_image.hpp"

#include <dlfcn.h>
#include <link.h>
#include <stdlib.h>
#include <string.h>

#include <atomic>
#include <cstdio>

namespace zipccl::image {
namespace {

constexpr unsigned long kPathBytes = 4096;

const char* baseName(const char* path) noexcept {
  const char* const slash = strrchr(path, '/');
  return slash != nullptr ? slash + 1 : path;
}

/// A copy that lives for ever.
const char* keep(const char* text) noexcept {
  const char* const copy = strdup(text);
  return copy != nullptr ? copy : "";
}

bool isNccl(void* handle) noexcept { return dlsym(handle, "ncclGetVersion") != nullptr; }

/// The image that holds `address`, with a reference.
bool imageAt(void* address, const char* how, NcclImage& image) noexcept {
  Dl_info info = {};
  if (dladdr(address, &info) == 0 || info.dli_fname == nullptr) return false;
  if (strcmp(info.dli_fname, ownPath()) == 0) return false;
  void* handle = dlopen(info.dli_fname, RTLD_LAZY | RTLD_NOLOAD);
  // The loader knows the program itself by another name than its file's.
  if (handle == nullptr) handle = dlopen(nullptr, RTLD_LAZY);
  if (handle == nullptr || !isNccl(handle)) return false;
  image = {handle, keep(info.dli_fname), how};
  return true;
}

/// Linked: an image that the loader finds in its search, after this one or anywhere.
bool linkedImage(void* where, NcclImage& image) noexcept {
  void* const address = dlsym(where, "ncclGetVersion");
  return address != nullptr && imageAt(address, "linked", image);
}

struct Search {
  const char* own;
  char found[kPathBytes];
};

int lookAtImage(dl_phdr_info* info, size_t, void* argument) noexcept {
  auto* const search = static_cast<Search*>(argument);
  const char* const path = info->dlpi_name;
  if (path == nullptr || strncmp(baseName(path), "libnccl.so", 10) != 0) return 0;
  if (strcmp(path, search->own) == 0 || strlen(path) >= kPathBytes) return 0;
  strcpy(search->found, path);
  return 1;
}

/// Loaded by somebody for his own use, where the loader's search does not see it.
bool namedImage(NcclImage& image) noexcept {
  Search search = {ownPath(), {}};
  if (dl_iterate_phdr(lookAtImage, &search) == 0) return false;
  void* const handle = dlopen(search.found, RTLD_LAZY | RTLD_NOLOAD);
  if (handle == nullptr || !isNccl(handle)) return false;
  image = {handle, keep(search.found), "loaded"};
  return true;
}

bool isOwnFile(const char* path) noexcept {
  char real[kPathBytes];
  char own[kPathBytes];
  return realpath(path, real) != nullptr && realpath(ownPath(), own) != nullptr &&
         strcmp(real, own) == 0;
}

void* symbolOf(const NcclImage& image, const char* name) noexcept {
  void* const address = dlsym(image.handle, name);
  Dl_info there = {};
  if (address == nullptr || dladdr(address, &there) == 0) return address;
  return strcmp(there.dli_fname, ownPath()) == 0 ? nullptr : address;
}

bool hasTheCore(const zipcclNcclApi& api) noexcept {
  return api.groupStart != nullptr && api.groupEnd != nullptr && api.commCount != nullptr &&
         api.commUserRank != nullptr && api.commCuDevice != nullptr && api.allGather != nullptr &&
         api.reduceScatter != nullptr && api.allReduce != nullptr && api.broadcast != nullptr &&
         api.reduce != nullptr && api.send != nullptr && api.recv != nullptr;
}

}  // namespace

const char* ownPath() noexcept {
  static std::atomic<const char*> known{nullptr};
  const char* path = known.load(std::memory_order_acquire);
  if (path != nullptr) return path;
  Dl_info info = {};
  const bool isFound = dladdr(&known, &info) != 0 && info.dli_fname != nullptr;
  path = isFound ? keep(info.dli_fname) : "";
  // Should two threads come here at once, one copy is lost.
  known.store(path, std::memory_order_release);
  return path;
}

bool findLoadedNccl(NcclImage& image) noexcept {
  return linkedImage(RTLD_NEXT, image) || namedImage(image) || linkedImage(RTLD_DEFAULT, image);
}

bool loadNccl(const char* path, const char* how, NcclImage& image, char* why,
              unsigned long whyBytes) noexcept {
  if (isOwnFile(path)) {
    std::snprintf(why, whyBytes, "%s is this library itself", path);
    return false;
  }
  void* const handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) {
    const char* const words = dlerror();
    std::snprintf(why, whyBytes, "%s", words != nullptr ? words : path);
    return false;
  }
  if (!isNccl(handle)) {
    std::snprintf(why, whyBytes, "%s is no NCCL", path);
    dlclose(handle);
    return false;
  }
  image = {handle, keep(path), how};
  return true;
}

void* ncclFunction(const NcclImage& image, const char* name) noexcept {
  char twin[128];
  std::snprintf(twin, sizeof(twin), "p%s", name);
  void* const address = symbolOf(image, twin);
  return address != nullptr ? address : symbolOf(image, name);
}

bool takeNcclApi(const NcclImage& image, zipcclNcclApi& api) noexcept {
  api.size = sizeof(api);
  api.version = 0;
  api.image = image.handle;
  const auto take = [&image](auto& function, const char* name) {
    takeNcclFunction(image, name, function);
  };
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
  int (*getVersion)(int*) = nullptr;
  take(getVersion, "ncclGetVersion");
  return getVersion != nullptr && getVersion(&api.version) == 0 && hasTheCore(api);
}

}  // namespace zipccl::image
