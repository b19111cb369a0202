// SPDX-License-Identifier: Apache-2.0
//
// Loads, stores and copies by the instruction that is meant. Shared memory is addressed by 32-bit
// numbers: generic pointers to it cost the compiler an address computation at each use.

#pragma once

#include <cuda_runtime.h>

#include <cstdint>

namespace zipccl::gpu {

using SharedAddress = std::uint32_t;

__device__ __forceinline__ SharedAddress sharedAddress(const void* p) {
  return static_cast<SharedAddress>(__cvta_generic_to_shared(p));
}
__device__ __forceinline__ uint4 loadShared16(SharedAddress at) {
  uint4 v;
  asm volatile("ld.shared.v4.u32 {%0,%1,%2,%3}, [%4];"
               : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
               : "r"(at)
               : "memory");
  return v;
}
__device__ __forceinline__ std::uint32_t loadShared4(SharedAddress at) {
  std::uint32_t v;
  asm volatile("ld.shared.u32 %0, [%1];" : "=r"(v) : "r"(at) : "memory");
  return v;
}
__device__ __forceinline__ std::uint32_t loadShared2(SharedAddress at) {
  std::uint16_t v;
  asm volatile("ld.shared.u16 %0, [%1];" : "=h"(v) : "r"(at) : "memory");
  return v;
}
__device__ __forceinline__ std::uint32_t loadShared1(SharedAddress at) {
  std::uint32_t v;
  asm volatile("ld.shared.u8 %0, [%1];" : "=r"(v) : "r"(at) : "memory");
  return v;
}
__device__ __forceinline__ void storeShared16(SharedAddress at, uint4 v) {
  asm volatile("st.shared.v4.u32 [%0], {%1,%2,%3,%4};" ::"r"(at), "r"(v.x), "r"(v.y), "r"(v.z),
               "r"(v.w)
               : "memory");
}
__device__ __forceinline__ void storeShared4(SharedAddress at, std::uint32_t v) {
  asm volatile("st.shared.u32 [%0], %1;" ::"r"(at), "r"(v) : "memory");
}
__device__ __forceinline__ void storeShared1(SharedAddress at, std::uint32_t v) {
  asm volatile("st.shared.u8 [%0], %1;" ::"r"(at), "r"(v) : "memory");
}

/// Copies 16 bytes to shared memory without passing registers; both addresses 16-byte aligned.
__device__ __forceinline__ void copyAsync16(SharedAddress to, const void* from) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to), "l"(from) : "memory");
}
/// Closes the group of copies that this thread has issued since the last call.
__device__ __forceinline__ void commitCopies() {
  asm volatile("cp.async.commit_group;" ::: "memory");
}
/// Waits until at most `kPending` of this thread's groups are under way.
template <unsigned kPending>
__device__ __forceinline__ void waitCopies() {
  asm volatile("cp.async.wait_group %0;" ::"n"(kPending) : "memory");
}

}  // namespace zipccl::gpu
