// SPDX-License-Identifier: Apache-2.0
//
// DlHandle: the owner of a library that was loaded at run time.

#pragma once

#include <dlfcn.h>

#include <optional>
#include <string>

namespace zipccl {

/// Owns one reference to a loaded library and drops it with dlclose(). Move-only; empty when
/// default-constructed. Symbols taken from it are valid as long as the library stays loaded.
class DlHandle {
 public:
  DlHandle() noexcept = default;
  DlHandle(DlHandle&& other) noexcept;
  DlHandle& operator=(DlHandle&& other) noexcept;
  ~DlHandle();

  /// Loads `path` by dlopen()'s rules: a name without a slash is searched for. `flags` are
  /// dlopen()'s. Throws Error(kSystemError) with the loader's own words.
  [[nodiscard]] static DlHandle open(const std::string& path, int flags = RTLD_NOW | RTLD_LOCAL);

  /// As open(), but returns nothing on failure and stores the loader's words in `*reason`, which
  /// may be null.
  [[nodiscard]] static std::optional<DlHandle> tryOpen(const std::string& path, int flags,
                                                       std::string* reason);

  /// A reference to the image of `path` that the process has loaded already; nothing if there is
  /// none. Never loads anything.
  [[nodiscard]] static std::optional<DlHandle> findLoaded(const std::string& path);

  [[nodiscard]] bool isOpen() const noexcept { return handle_ != nullptr; }
  [[nodiscard]] void* get() const noexcept { return handle_; }

  /// Leaves the library loaded until the process ends and empties this owner.
  void leaveLoaded() noexcept { handle_ = nullptr; }

  /// The function or object `name` as a pointer of type T. Throws Error(kSystemError) where the
  /// library has none; needs an open handle.
  template <class T>
  [[nodiscard]] T symbol(const char* name) const {
    return reinterpret_cast<T>(requireSymbol(name));
  }

  /// As symbol(), but null where the library has none.
  template <class T>
  [[nodiscard]] T findSymbol(const char* name) const noexcept {
    return reinterpret_cast<T>(lookUp(name));
  }

 private:
  explicit DlHandle(void* handle) noexcept : handle_(handle) {}
  [[nodiscard]] void* lookUp(const char* name) const noexcept;
  [[nodiscard]] void* requireSymbol(const char* name) const;

  void* handle_ = nullptr;
};

/// The folder, as an absolute path, of the program or library whose code or data stands at
/// `address`. Empty if it cannot be told.
[[nodiscard]] std::string folderOfImage(const void* address);

}  // namespace zipccl
