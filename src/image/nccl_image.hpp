// SPDX-License-Identifier: Apache-2.0
//
// Which loaded image is the NCCL of this process, and its functions. There is never a second one:
// two of them would not know each other's communicators. For the engine and the interposer alike:
// nothing here throws, or needs more than libc.

#pragma once

#include <zipccl/nccl_engine.h>

namespace zipccl::image {

/// A loaded libnccl. The process keeps it for good, so that no function of it goes away.
struct NcclImage {
  void* handle = nullptr;  ///< of dlopen
  const char* path = "";   ///< static lifetime
  const char* how = "";    ///< how it was found, in words, static lifetime
};

/// Finds the NCCL that the process has loaded, in this order: the loader's next image after the one
/// that this code is linked into, where programs are linked against NCCL; an image that something
/// loaded for itself (RTLD_LOCAL), by its name; any that the whole process sees, such as the
/// program. False if there is none.
[[nodiscard]] bool findLoadedNccl(NcclImage& image) noexcept;

/// Loads the file. False if that cannot be, or it is no NCCL; `why` says so in words then.
[[nodiscard]] bool loadNccl(const char* path, const char* how, NcclImage& image, char* why,
                            unsigned long whyBytes) noexcept;

/// The address of a function by its public name: of pncclX, which no interposer stands in front of,
/// else of ncclX. NULL where the image lacks both; never a function of the image that this code is
/// linked into, which a handle of the whole program would give.
[[nodiscard]] void* ncclFunction(const NcclImage& image, const char* name) noexcept;

/// Takes a function, or NULL.
template <class Function>
void takeNcclFunction(const NcclImage& image, const char* name, Function& function) noexcept {
  function = reinterpret_cast<Function>(ncclFunction(image, name));
}

/// Fills in the engine's table. False where functions are missing without which a library is no
/// NCCL that the engine knows.
[[nodiscard]] bool takeNcclApi(const NcclImage& image, zipcclNcclApi& api) noexcept;

/// The file of the library, or the program, that this code is linked into.
[[nodiscard]] const char* ownPath() noexcept;

}  // namespace zipccl::image
