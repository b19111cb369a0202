// SPDX-License-Identifier: Apache-2.0
//
// DlHandle over dlopen().

#include "base/dl_handle.hpp"

#include <filesystem>
#include <system_error>
#include <utility>

#include "base/error.hpp"

namespace zipccl {

namespace {

std::string loaderWords() {
  const char* words = ::dlerror();
  return words == nullptr ? "the loader gives no reason" : words;
}

}  // namespace

DlHandle::DlHandle(DlHandle&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}

DlHandle& DlHandle::operator=(DlHandle&& other) noexcept {
  if (this != &other) {
    if (handle_ != nullptr) ::dlclose(handle_);
    handle_ = std::exchange(other.handle_, nullptr);
  }
  return *this;
}

DlHandle::~DlHandle() {
  if (handle_ != nullptr) ::dlclose(handle_);
}

std::optional<DlHandle> DlHandle::tryOpen(const std::string& path, int flags, std::string* reason) {
  void* handle = ::dlopen(path.c_str(), flags);
  if (handle != nullptr) return DlHandle(handle);
  std::string words = loaderWords();
  if (reason != nullptr) *reason = std::move(words);
  return std::nullopt;
}

DlHandle DlHandle::open(const std::string& path, int flags) {
  std::string reason;
  std::optional<DlHandle> handle = tryOpen(path, flags, &reason);
  if (!handle) fail(ErrorCode::kSystemError, "cannot load ", path, ": ", reason);
  return std::move(*handle);
}

std::optional<DlHandle> DlHandle::findLoaded(const std::string& path) {
  return tryOpen(path, RTLD_NOW | RTLD_NOLOAD, nullptr);
}

void* DlHandle::lookUp(const char* name) const noexcept {
  return handle_ == nullptr ? nullptr : ::dlsym(handle_, name);
}

void* DlHandle::requireSymbol(const char* name) const {
  expects(handle_ != nullptr, "a symbol (", name, ") is asked of an empty library handle");
  void* address = ::dlsym(handle_, name);
  if (address == nullptr) {
    fail(ErrorCode::kSystemError, "no symbol ", name, ": ", loaderWords());
  }
  return address;
}

std::string folderOfImage(const void* address) {
  Dl_info info = {};
  if (::dladdr(address, &info) == 0 || info.dli_fname == nullptr) return {};
  std::filesystem::path path = info.dli_fname;
  // The loader knows a program by its first argument, which need not be a path.
  if (!path.has_parent_path()) path = "/proc/self/exe";
  std::error_code error;
  path = std::filesystem::canonical(path, error);
  return error ? std::string() : path.parent_path().string();
}

}  // namespace zipccl
