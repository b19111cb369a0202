// SPDX-License-Identifier: Apache-2.0
//
// The functions of the preloadable libnccl.so.2 that have no hook: each jumps to the real one, with
// registers and stack as they were, so that no argument need be known. The address is looked up at
// the first call, since NCCL must not be loaded into processes that do not use it.

#include <zipccl/nccl_engine.h>

#include <atomic>

#include "notice.hpp"
#include "real_nccl.hpp"

#if !defined(__x86_64__)
#error "forward.cpp is written for x86-64"
#endif

namespace zipccl::preload {
namespace {

constexpr const char* kNames[] = {
#define ZIPCCL_FORWARD(name) #name,
#include "forward_symbols.inc"
#undef ZIPCCL_FORWARD
};

int missing() noexcept { return kInvalidUsage; }
int nowhere() noexcept { return kSystemError; }

}  // namespace

}  // namespace zipccl::preload

extern "C" {

/// By position in the list; NULL until the first call.
[[gnu::visibility("hidden"), gnu::used]] std::atomic<void*>
    zipcclForwardTargets[sizeof(zipccl::preload::kNames) / sizeof(const char*)];

[[gnu::visibility("hidden"), gnu::used]] void* zipcclResolveForward(unsigned long index) {
  using namespace zipccl::preload;
  if (realNccl() == nullptr) return reinterpret_cast<void*>(&nowhere);
  const char* const name = kNames[index];
  void* target = realFunction(name[0] == 'p' ? name + 1 : name);
  if (target == nullptr) {
    ZIPCCL_WARN("the NCCL of this process, %s, has no %s", realNccl()->path, name);
    target = reinterpret_cast<void*>(&missing);
  }
  zipcclForwardTargets[index].store(target, std::memory_order_release);
  return target;
}

}  // extern "C"

// %r10 and %r11 are the registers that a call may destroy and that hold no argument. What may hold
// one is saved around the look-up; at entry the stack is 8 bytes off a multiple of 16.
asm(R"(
.pushsection .text
.p2align 4
.type zipcclForward, @function
zipcclForward:
  leaq zipcclForwardTargets(%rip), %r10
  movq (%r10,%r11,8), %r10
  testq %r10, %r10
  je 1f
  jmp *%r10
1:
  pushq %rdi
  pushq %rsi
  pushq %rdx
  pushq %rcx
  pushq %r8
  pushq %r9
  pushq %rax
  pushq %r11
  subq $136, %rsp
  movups %xmm0, (%rsp)
  movups %xmm1, 16(%rsp)
  movups %xmm2, 32(%rsp)
  movups %xmm3, 48(%rsp)
  movups %xmm4, 64(%rsp)
  movups %xmm5, 80(%rsp)
  movups %xmm6, 96(%rsp)
  movups %xmm7, 112(%rsp)
  movq %r11, %rdi
  call zipcclResolveForward
  movq %rax, %r10
  movups (%rsp), %xmm0
  movups 16(%rsp), %xmm1
  movups 32(%rsp), %xmm2
  movups 48(%rsp), %xmm3
  movups 64(%rsp), %xmm4
  movups 80(%rsp), %xmm5
  movups 96(%rsp), %xmm6
  movups 112(%rsp), %xmm7
  addq $136, %rsp
  popq %r11
  popq %rax
  popq %r9
  popq %r8
  popq %rcx
  popq %rdx
  popq %rsi
  popq %rdi
  jmp *%r10
.size zipcclForward, . - zipcclForward
.set zipcclForwardIndex, 0
.popsection
)");

#define ZIPCCL_FORWARD(name)                              \
  asm(".pushsection .text\n"                              \
      ".p2align 4\n"                                      \
      ".globl " #name                                     \
      "\n"                                                \
      ".type " #name ", @function\n" #name                \
      ":\n"                                               \
      "  endbr64\n"                                       \
      "  movl $zipcclForwardIndex, %r11d\n"               \
      "  jmp zipcclForward\n"                             \
      ".size " #name ", . - " #name                       \
      "\n"                                                \
      ".set zipcclForwardIndex, zipcclForwardIndex + 1\n" \
      ".popsection");
#include "forward_symbols.inc"
#undef ZIPCCL_FORWARD
