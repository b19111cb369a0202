// SPDX-License-Identifier: Apache-2.0
//
// Which file is the NCCL of this process.

#pragma once

#include "image/nccl_image.hpp"

namespace zipccl::preload {

using image::NcclImage;
using image::ownPath;

/// Finds the NCCL of this process: one that is loaded; else the file that ZIPCCL_NCCL_LIB names,
/// which is loaded; else, where this library took NCCL's name, the places where NCCL is usually
/// found. False if there is none; `why` says so in words then.
[[nodiscard]] bool findImage(NcclImage& image, char* why, unsigned long whyBytes) noexcept;

/// The file of NCCL that would be loaded where this library stands in for it: false if none is
/// found. In builds that do not take NCCL's name there is none.
[[nodiscard]] bool usualPlace(char* path, unsigned long pathBytes) noexcept;

}  // namespace zipccl::preload
