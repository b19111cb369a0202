// SPDX-License-Identifier: Apache-2.0
//
// Loading the engine, and attaching it.

#include "engine.hpp"

#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include <cstdio>
#include <initializer_list>

#include "image.hpp"
#include "notice.hpp"
#include "report.hpp"

namespace zipccl::preload {
namespace {

constexpr unsigned long kPathBytes = 4096;

pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
bool hasTried = false;

void* openBeside(const char* library, char* path) noexcept {
  const char* const slash = strrchr(library, '/');
  if (slash == nullptr) return nullptr;
  // The library that takes NCCL's name stands in a folder below.
  for (const char* const to : {"", "/.."}) {
    const int length = std::snprintf(path, kPathBytes, "%.*s%s/" ZIPCCL_ENGINE_FILE,
                                     static_cast<int>(slash - library), library, to);
    if (length <= 0 || static_cast<unsigned long>(length) >= kPathBytes) return nullptr;
    void* const handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (handle != nullptr) return handle;
  }
  return nullptr;
}

/// libzipccl.so beside this library, as it was loaded or, behind a link, where it really stands;
/// else by the loader's search.
void* openEngine(char* path) noexcept {
  void* handle = openBeside(ownPath(), path);
  if (handle != nullptr) return handle;
  char real[kPathBytes];
  if (realpath(ownPath(), real) != nullptr) handle = openBeside(real, path);
  if (handle != nullptr) return handle;
  std::snprintf(path, kPathBytes, "%s", ZIPCCL_ENGINE_FILE);
  return dlopen(path, RTLD_NOW | RTLD_LOCAL);
}

const zipcclNcclEngine* load() noexcept {
  char path[kPathBytes] = {};
  void* const handle = openEngine(path);
  if (handle == nullptr) {
    const char* const words = dlerror();
    ZIPCCL_WARN("the engine cannot be loaded, NCCL's calls pass unchanged: %s",
                words != nullptr ? words : path);
    reportEngine(path, words != nullptr ? words : "cannot be loaded");
    return nullptr;
  }
  using Get = const zipcclNcclEngine* (*)(uint32_t);
  const auto get = reinterpret_cast<Get>(dlsym(handle, "zipcclGetNcclEngine"));
  const zipcclNcclEngine* const engine = get != nullptr ? get(ZIPCCL_NCCL_ENGINE_VERSION) : nullptr;
  if (engine == nullptr || engine->size < sizeof(zipcclNcclEngine)) {
    ZIPCCL_WARN("%s is of another version, NCCL's calls pass unchanged", path);
    reportEngine(path, "is of another version");
    return nullptr;
  }
  reportEngine(path, "");
  return engine;
}

const zipcclNcclEngine* engineOrNull() noexcept {
  const zipcclNcclEngine* engine = loadedEngine.load(std::memory_order_acquire);
  if (engine != nullptr) return engine;
  pthread_mutex_lock(&mutex);
  if (!hasTried) {
    hasTried = true;
    loadedEngine.store(load(), std::memory_order_release);
  }
  engine = loadedEngine.load(std::memory_order_relaxed);
  pthread_mutex_unlock(&mutex);
  return engine;
}

void detach(void* attached) { loadedEngine.load(std::memory_order_acquire)->detach(attached); }

void report(const RealNccl& real, void* comm, const char* why) noexcept {
  int ranks = 0;
  int rank = 0;
  static_cast<void>(real.api.commCount(comm, &ranks));
  static_cast<void>(real.api.commUserRank(comm, &rank));
  reportCommunicator(ranks, rank, why);
}

}  // namespace

std::atomic<const zipcclNcclEngine*> loadedEngine{nullptr};
constinit CommTable communicators;

void attachAll(const RealNccl& real, void* const comms[], int count) noexcept {
  const zipcclNcclEngine* const engine = engineOrNull();
  if (engine == nullptr) return;
  // By the compiler's leave on the stack: groups of inits are as long as a host has GPUs.
  constexpr int kMostOnStack = 64;
  void* presentOnStack[kMostOnStack];
  void* attachedOnStack[kMostOnStack];
  const auto bytes = static_cast<size_t>(count) * sizeof(void*);
  const bool isOnHeap = count > kMostOnStack;
  void** const present = isOnHeap ? static_cast<void**>(malloc(bytes)) : presentOnStack;
  void** const attached = isOnHeap ? static_cast<void**>(malloc(bytes)) : attachedOnStack;
  if (present != nullptr && attached != nullptr) {
    int presentCount = 0;
    for (int i = 0; i < count; ++i) {
      if (comms[i] == nullptr) continue;
      attached[presentCount] = nullptr;
      present[presentCount++] = comms[i];
    }
    if (presentCount != 0) engine->attach(&real.api, present, presentCount, attached);
    for (int i = 0; i < presentCount; ++i) {
      // Its address may have been that of a communicator that ended behind the hooks' back.
      Attached(present[i]).close();
      if (attached[i] != nullptr && !communicators.insert(present[i], attached[i])) {
        engine->detach(attached[i]);
        attached[i] = nullptr;
      }
      report(real, present[i], attached[i] != nullptr ? "" : "the engine left it alone");
    }
  }
  if (isOnHeap) {
    free(present);
    free(attached);
  }
}

void Attached::release() noexcept {
  if (attachment_ != nullptr) communicators.release(take(), detach);
}

void Attached::close() const noexcept {
  if (attachment_ != nullptr) CommTable::close(attachment_);
}

void releaseAttachment(Attachment* attachment) noexcept {
  communicators.release(attachment, detach);
}

}  // namespace zipccl::preload
