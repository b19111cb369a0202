// SPDX-License-Identifier: Apache-2.0
//
// Loads, stores and copies by the instruction that is meant. Shared memory is addressed by 32-bit
// numbers: generic pointers to it cost the compiler an address computation at each use.

#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>

namespace zipccl::gpu {

using SharedAddress = std::uint32_t;

/// Tells the compiler that `p` is no shared memory, where it cannot know: at a pointer that comes
/// from shared memory itself.
template <typename T>
__device__ __forceinline__ T* global(T* p) {
  __builtin_assume(__isGlobal(p));
  return p;
}

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
__device__ __forceinline__ const std::byte* loadSharedPointer(SharedAddress at) {
  std::uint64_t v;
  asm volatile("ld.shared.u64 %0, [%1];" : "=l"(v) : "r"(at) : "memory");
  return reinterpret_cast<const std::byte*>(v);
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
__device__ __forceinline__ void storeShared(SharedAddress at, unsigned v) { storeShared4(at, v); }
__device__ __forceinline__ void storeShared(SharedAddress at, unsigned short v) {
  asm volatile("st.shared.u16 [%0], %1;" ::"r"(at), "h"(v) : "memory");
}
template <typename Unit>
__device__ __forceinline__ Unit loadShared(SharedAddress at) {
  return static_cast<Unit>(sizeof(Unit) == 2 ? loadShared2(at) : loadShared4(at));
}

/// The block's shared memory, `kBytes` of it. Static as long as that is possible: from dynamic
/// shared memory of the same size the driver chose a division of the L1 cache that cost an eighth
/// of the encoder's speed. Where needsDynamicShared() says so, the launch must ask for it.
inline constexpr unsigned kMaxStaticShared = 40 * 1024;
constexpr bool needsDynamicShared(unsigned bytes) { return bytes > kMaxStaticShared; }

template <unsigned kBytes>
__device__ __forceinline__ SharedAddress blockShared() {
  if constexpr (needsDynamicShared(kBytes)) {
    extern __shared__ uint4 dynamicShared[];
    return sharedAddress(dynamicShared);
  } else {
    __shared__ uint4 staticShared[(kBytes + 15) / 16];
    return sharedAddress(staticShared);
  }
}

/// A barrier of `kThreads` threads of the block, all of whose warps name the same `id` (1 to 15).
template <unsigned kThreads>
__device__ __forceinline__ void barrier(unsigned id) {
  asm volatile("bar.sync %0, %1;" ::"r"(id), "n"(kThreads) : "memory");
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
