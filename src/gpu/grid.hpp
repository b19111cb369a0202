// SPDX-License-Identifier: Apache-2.0
//
// How many blocks of a kernel the current device runs at once, asked once per kernel and device.

#pragma once

#include <cuda_runtime_api.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>

namespace zipccl::gpu {

inline constexpr int kMaxDevices = 64;

/// Blocks of `kernel` that fit the current device together, with `threads` threads and
/// `sharedBytes` of dynamic shared memory each, which it also permits the kernel to use. `cache` is
/// one static array a kernel. CUDA's answers are constant, so concurrent first calls write the same
/// value.
template <typename Kernel>
cudaError_t residentBlocks(Kernel* kernel, unsigned threads, std::size_t sharedBytes,
                           std::atomic<unsigned> (&cache)[kMaxDevices], unsigned& blocks) {
  int device = 0;
  if (const cudaError_t status = cudaGetDevice(&device); status != cudaSuccess) return status;
  const bool cached = device < kMaxDevices;
  if (cached) {
    blocks = cache[device].load(std::memory_order_relaxed);
    if (blocks != 0) return cudaSuccess;
  }
  int multiprocessors = 0;
  int perMultiprocessor = 0;
  if (const cudaError_t status = cudaFuncSetAttribute(
          kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(sharedBytes));
      status != cudaSuccess) {
    return status;
  }
  if (const cudaError_t status =
          cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, device);
      status != cudaSuccess) {
    return status;
  }
  if (const cudaError_t status = cudaOccupancyMaxActiveBlocksPerMultiprocessor(
          &perMultiprocessor, kernel, static_cast<int>(threads), sharedBytes);
      status != cudaSuccess) {
    return status;
  }
  blocks = static_cast<unsigned>(std::max(1, multiprocessors * perMultiprocessor));
  if (cached) cache[device].store(blocks, std::memory_order_relaxed);
  return cudaSuccess;
}

/// A grid for `work` pieces, one or more a block: at least one block, at most what is resident and
/// what the caller allows (0: no limit).
inline unsigned gridFor(std::uint64_t work, unsigned resident, unsigned maxBlocks) {
  const std::uint64_t most = maxBlocks == 0 ? resident : std::min(resident, maxBlocks);
  return static_cast<unsigned>(std::clamp<std::uint64_t>(work, 1, most));
}

}  // namespace zipccl::gpu
