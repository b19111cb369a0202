// SPDX-License-Identifier: Apache-2.0
//
// The search for NCCL among the images of the process and in the file system.

#include "image.hpp"

#include <dlfcn.h>
#include <link.h>
#include <stdlib.h>
#include <string.h>

#include <atomic>
#include <cstdio>

namespace zipccl::preload {
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
bool imageAt(void* address, const char* how, Image& image) noexcept {
  Dl_info info = {};
  if (dladdr(address, &info) == 0 || info.dli_fname == nullptr) return false;
  void* handle = dlopen(info.dli_fname, RTLD_LAZY | RTLD_NOLOAD);
  // The loader knows the program itself by another name than its file's.
  if (handle == nullptr) handle = dlopen(nullptr, RTLD_LAZY);
  if (handle == nullptr || !isNccl(handle)) return false;
  image = {handle, keep(info.dli_fname), how};
  return true;
}

/// Linked: the loader's next image that has the function.
bool nextImage(Image& image) noexcept {
  void* const address = dlsym(RTLD_NEXT, "ncclGetVersion");
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

/// Loaded by somebody for his own use, where RTLD_NEXT does not see it.
bool loadedImage(Image& image) noexcept {
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

bool loadImage(const char* path, const char* how, Image& image, char* why,
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

bool findImage(Image& image, char* why, unsigned long whyBytes) noexcept {
  if (nextImage(image) || loadedImage(image)) return true;
  const char* const named = secure_getenv("ZIPCCL_NCCL_LIB");
  if (named != nullptr && named[0] != '\0') {
    return loadImage(named, "ZIPCCL_NCCL_LIB", image, why, whyBytes);
  }
  char path[kPathBytes];
  if (usualPlace(path, sizeof(path))) return loadImage(path, "found", image, why, whyBytes);
  std::snprintf(why, whyBytes,
                "no libnccl.so.2 is loaded; ZIPCCL_NCCL_LIB may name the file to load");
  return false;
}

}  // namespace zipccl::preload
