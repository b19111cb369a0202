// SPDX-License-Identifier: Apache-2.0
//
// Where the preloadable libnccl.so.2 finds the NCCL whose name it took: beside the libraries that
// are loaded (Python's wheels keep NCCL in a folder of its own), on LD_LIBRARY_PATH, and where
// packages put it.

#include <link.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cstdio>
#include <initializer_list>

#include "image.hpp"

namespace zipccl::preload {
namespace {

struct Place {
  char* path;
  unsigned long bytes;
};

/// Whether NCCL stands in the first `folderChars` of `folder`, or from there in `below`.
bool tryFolder(const Place& place, const char* folder, int folderChars,
               const char* below) noexcept {
  const int length =
      std::snprintf(place.path, place.bytes, "%.*s%s/libnccl.so.2", folderChars, folder, below);
  if (length <= 0 || static_cast<unsigned long>(length) >= place.bytes) return false;
  if (access(place.path, R_OK) != 0) return false;
  char real[4096];
  char own[4096];
  return realpath(place.path, real) != nullptr &&
         (realpath(ownPath(), own) == nullptr || strcmp(real, own) != 0);
}

/// torch/lib/libtorch_cuda.so and jaxlib/xla_client.so have nvidia/nccl/lib beside their packages.
int besideImage(dl_phdr_info* info, size_t, void* argument) noexcept {
  const Place& place = *static_cast<const Place*>(argument);
  const char* const path = info->dlpi_name;
  const char* const slash = path != nullptr ? strrchr(path, '/') : nullptr;
  if (slash == nullptr || strcmp(path, ownPath()) == 0) return 0;
  const auto chars = static_cast<int>(slash - path);
  for (const char* const below : {"", "/../nvidia/nccl/lib", "/../../nvidia/nccl/lib"}) {
    if (tryFolder(place, path, chars, below)) return 1;
  }
  return 0;
}

bool onPath(const Place& place, const char* list) noexcept {
  while (list != nullptr && *list != '\0') {
    const char* const colon = strchr(list, ':');
    const auto chars =
        static_cast<int>(colon != nullptr ? colon - list : static_cast<long>(strlen(list)));
    if (chars != 0 && tryFolder(place, list, chars, "")) return true;
    list = colon != nullptr ? colon + 1 : nullptr;
  }
  return false;
}

}  // namespace

bool usualPlace(char* path, unsigned long pathBytes) noexcept {
  Place place = {path, pathBytes};
  if (dl_iterate_phdr(besideImage, &place) != 0) return true;
  return onPath(place, secure_getenv("LD_LIBRARY_PATH")) ||
         onPath(place,
                "/usr/lib/x86_64-linux-gnu:/usr/lib64:/usr/local/lib:/usr/local/cuda/lib64:/lib64");
}

}  // namespace zipccl::preload
