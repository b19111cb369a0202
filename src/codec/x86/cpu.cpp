// SPDX-License-Identifier: Apache-2.0
//
// Which instruction sets this machine has: CPUID, and whether the kernel saves the registers.

#include "codec/x86/cpu.hpp"

namespace zipccl::codec {

bool cpuHasAvx2() noexcept {
  __builtin_cpu_init();
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("bmi") &&
         __builtin_cpu_supports("bmi2") && __builtin_cpu_supports("popcnt");
}

bool cpuHasAvx512() noexcept {
  return cpuHasAvx2() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
         __builtin_cpu_supports("avx512vbmi") && __builtin_cpu_supports("avx512vbmi2");
}

}  // namespace zipccl::codec
