// SPDX-License-Identifier: Apache-2.0
//
// The NCCL of this process: loaded by others, or by the interposer for want of that.

#include "image.hpp"

#include <stdlib.h>

#include <cstdio>

namespace zipccl::preload {

bool findImage(NcclImage& image, char* why, unsigned long whyBytes) noexcept {
  if (image::findLoadedNccl(image)) return true;
  const char* const named = secure_getenv("ZIPCCL_NCCL_LIB");
  if (named != nullptr && named[0] != '\0') {
    return image::loadNccl(named, "ZIPCCL_NCCL_LIB", image, why, whyBytes);
  }
  char path[4096];
  if (usualPlace(path, sizeof(path))) return image::loadNccl(path, "found", image, why, whyBytes);
  std::snprintf(why, whyBytes,
                "no libnccl.so.2 is loaded; ZIPCCL_NCCL_LIB may name the file to load");
  return false;
}

}  // namespace zipccl::preload
