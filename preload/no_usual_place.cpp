// SPDX-License-Identifier: Apache-2.0
//
// libzipccl_preload.so looks for NCCL nowhere: whoever calls NCCL has loaded it.

#include "image.hpp"

namespace zipccl::preload {

bool usualPlace(char*, unsigned long) noexcept { return false; }

}  // namespace zipccl::preload
