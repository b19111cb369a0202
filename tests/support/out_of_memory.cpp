// SPDX-License-Identifier: Apache-2.0
//
// An operator new that can be told to fail.

#include "support/out_of_memory.hpp"

#include <cstdlib>
#include <new>

namespace zipccl::testing {
namespace {

thread_local bool isMemoryOut = false;

}  // namespace

OutOfMemory::OutOfMemory() noexcept { isMemoryOut = true; }
OutOfMemory::~OutOfMemory() { isMemoryOut = false; }

}  // namespace zipccl::testing

void* operator new(std::size_t bytes) {
  if (!zipccl::testing::isMemoryOut) {
    if (void* const memory = std::malloc(bytes == 0 ? 1 : bytes)) return memory;
  }
  throw std::bad_alloc();
}

void operator delete(void* memory) noexcept { std::free(memory); }
// Clang, for which this one is a function like any other, would hide it: then a module that is
// loaded at run time deletes by this what it allocated by the operator of the address sanitizer.
__attribute__((visibility("default"))) void operator delete(void* memory, std::size_t) noexcept {
  std::free(memory);
}

// Clang's address sanitizer may have libstdc++ delete by its own operator what ours above
// allocated.
extern "C" __attribute__((visibility("default"))) const char* __asan_default_options();
const char* __asan_default_options() { return "alloc_dealloc_mismatch=0"; }
