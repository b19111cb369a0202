// SPDX-License-Identifier: Apache-2.0
//
// Which file is the NCCL of this process. There is never a second one: two of them would not know
// each other's communicators.

#pragma once

namespace zipccl::preload {

/// A loaded libnccl. The process keeps it for good, so that no function of it goes away.
struct Image {
  void* handle = nullptr;  ///< of dlopen
  const char* path = "";   ///< static lifetime
  const char* how = "";    ///< in words, static lifetime
};

/// Finds the NCCL of this process, in this order: the next image after this library, where programs
/// are linked against NCCL; an image that something loaded for itself (RTLD_LOCAL); the file that
/// ZIPCCL_NCCL_LIB names, which is loaded; and, where this library took NCCL's name, the places
/// where NCCL is usually found. False if there is none; `why` says so in words then.
[[nodiscard]] bool findImage(Image& image, char* why, unsigned long whyBytes) noexcept;

/// The file of NCCL that would be loaded where this library stands in for it: false if none is
/// found. In builds that do not take NCCL's name there is none.
[[nodiscard]] bool usualPlace(char* path, unsigned long pathBytes) noexcept;

/// The file of this library itself.
[[nodiscard]] const char* ownPath() noexcept;

}  // namespace zipccl::preload
