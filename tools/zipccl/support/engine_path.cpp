// SPDX-License-Identifier: Apache-2.0
//
// The engine's path, from the loader.

#include "support/engine_path.hpp"

#include <dlfcn.h>
#include <zipccl/zipccl.h>

#include <string>
#include <system_error>

#include "support/failure.hpp"

namespace zipccl::tools {

std::filesystem::path enginePath() {
  Dl_info info = {};
  if (::dladdr(reinterpret_cast<void*>(&zipcclGetVersion), &info) == 0) {
    throw Failure("the folder of libzipccl.so cannot be told");
  }
  std::error_code error;
  std::filesystem::path path = std::filesystem::canonical(info.dli_fname, error);
  if (error) throw Failure(std::string(info.dli_fname) + ": " + error.message());
  return path;
}

}  // namespace zipccl::tools
