// SPDX-License-Identifier: Apache-2.0
//
// A user's C++ program: the headers it includes are the installed ones, and the library that it
// loads is the one whose headers it was compiled with.

#include <zipccl/zipccl.h>

#include <cstdio>
#include <zipccl/codec.hpp>

int main() {
  int version = 0;
  if (zipcclGetVersion(&version) != zipcclSuccess || version != ZIPCCL_VERSION_CODE) {
    std::fprintf(stderr, "compiled against %d, runs with %d\n", ZIPCCL_VERSION_CODE, version);
    return 1;
  }
  std::printf("zipccl %s\n", ZIPCCL_VERSION_STRING);
  return 0;
}
