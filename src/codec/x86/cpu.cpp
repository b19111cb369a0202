// SPDX-License-Identifier: Apache-2.0
//
// Which instruction sets this machine has: CPUID, and whether the kernel saves the registers.

#include "codec/x86/cpu.hpp"

#include <cpuid.h>

namespace zipccl::codec {
namespace {

/// F16C, which __builtin_cpu_supports() does not know in every compiler.
bool cpuHasF16c() noexcept {
  unsigned eax = 0;
  unsigned ebx = 0;
  unsigned ecx = 0;
  unsigned edx = 0;
  return __get_cpuid(1, &eax, &ebx, &ecx, &edx) != 0 && (ecx & bit_F16C) != 0;
}

}  // namespace

bool cpuHasAvx2() noexcept {
  __builtin_cpu_init();
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("bmi") &&
         __builtin_cpu_supports("bmi2") && __builtin_cpu_supports("popcnt") && cpuHasF16c();
}

bool cpuHasAvx512() noexcept {
  return cpuHasAvx2() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
         __builtin_cpu_supports("avx512vbmi") && __builtin_cpu_supports("avx512vbmi2");
}

}  // namespace zipccl::codec
