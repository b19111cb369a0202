// SPDX-License-Identifier: Apache-2.0
//
// The traps as Python's extensions meet them: this program knows the interposer alone; the module
// with the tests, and NCCL by it, are loaded with RTLD_LOCAL.

#include <dlfcn.h>

#include <cstdio>

int main(int argc, char** argv) {
  void* const module = dlopen(ZIPCCL_TEST_MODULE, RTLD_NOW | RTLD_LOCAL);
  if (module == nullptr) {
    std::fprintf(stderr, "%s\n", dlerror());
    return 98;
  }
  using Main = int (*)(int, char**);
  return reinterpret_cast<Main>(dlsym(module, "zipcclTestMain"))(argc, argv);
}
