// SPDX-License-Identifier: Apache-2.0
//
// Loads nvCOMP.

#include "perf_codec/nvcomp.hpp"

#include <dlfcn.h>

#include "support/failure.hpp"

namespace zipccl::tools::perf_codec {
namespace {

constexpr const char* kSoname = "libnvcomp.so.6";
constexpr std::uint32_t kMajor = 6;

/// nvcompProperties_t; a version 6.1.2 is 6102.
struct Properties {
  std::uint32_t version = 0;
  std::uint32_t cudartVersion = 0;
};

std::string lastDlError() {
  const char* const words = ::dlerror();
  return words == nullptr ? "unknown reason" : words;
}

template <class Function>
void find(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(::dlsym(library, name));
  if (function == nullptr) throw Failure("nvCOMP has no function " + std::string(name));
}

}  // namespace

void Nvcomp::Close::operator()(void* handle) const noexcept { ::dlclose(handle); }

Nvcomp::Nvcomp(const std::string& path) : path_(path.empty() ? kSoname : path) {
  library_.reset(::dlopen(path_.c_str(), RTLD_NOW | RTLD_LOCAL));
  if (library_ == nullptr) throw Failure("cannot load nvCOMP: " + lastDlError());

  Status (*getProperties)(Properties*) = nullptr;
  find(library_.get(), "nvcompGetProperties", getProperties);
  Properties properties;
  if (getProperties(&properties) != Status::kSuccess) throw Failure("nvCOMP does not answer");
  const std::uint32_t version = properties.version;
  version_ = std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 100) + "." +
             std::to_string(version % 100);
  if (version / 1000 != kMajor) {
    throw Failure("nvCOMP is version " + version_ + ", but only version 6 is understood");
  }
  find(library_.get(), "nvcompBatchedANSCompressGetTempSize", compressGetTempSize);
  find(library_.get(), "nvcompBatchedANSCompressGetMaxOutputChunkSize",
       compressGetMaxOutputChunkSize);
  find(library_.get(), "nvcompBatchedANSCompressAsync", compressAsync);
  find(library_.get(), "nvcompBatchedANSDecompressGetTempSize", decompressGetTempSize);
  find(library_.get(), "nvcompBatchedANSDecompressAsync", decompressAsync);
}

}  // namespace zipccl::tools::perf_codec
