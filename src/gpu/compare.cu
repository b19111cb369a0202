// SPDX-License-Identifier: Apache-2.0
//
// The comparison: a thread reads 16 bytes of each buffer, and those of its block that found
// something agree on the first before one of them tells. The bytes before the first whole 16, and
// those behind the last, are left to the first threads.

#include <algorithm>

#include "base/verdict.hpp"
#include "gpu/compare.hpp"
#include "gpu/cuda_check.hpp"

namespace zipccl::gpu {
namespace {

constexpr unsigned kThreads = 256;
constexpr unsigned kMostBlocks = 1024;
constexpr std::uint64_t kWide = sizeof(ulonglong2);

using Word = unsigned long long;  // that of atomicMax

struct Comparison {
  const std::byte* expected;
  const std::byte* found;
  std::uint64_t bytes;
  std::uint64_t headBytes;  ///< before the first that both buffers read 16 at once
  std::uint64_t wideCount;
  Word* verdict;
};

/// The verdict on 8 bytes that begin at `byte`, little-endian as everywhere.
__device__ Word verdictOn(Word expected, Word found, std::uint64_t byte) {
  const Word difference = expected ^ found;
  if (difference == 0) return 0;
  const int bit = __ffsll(static_cast<long long>(difference)) - 1;
  return verdictOf(byte + static_cast<unsigned>(bit) / 8U);
}

__device__ Word verdictOnByte(const Comparison& c, std::uint64_t byte) {
  return c.expected[byte] == c.found[byte] ? 0 : verdictOf(byte);
}

__global__ __launch_bounds__(kThreads) void compareKernel(const __grid_constant__ Comparison c) {
  __shared__ Word ofBlock;
  if (threadIdx.x == 0) ofBlock = 0;
  __syncthreads();
  const std::uint64_t first = std::uint64_t{blockIdx.x} * kThreads + threadIdx.x;
  const std::uint64_t stride = std::uint64_t{gridDim.x} * kThreads;
  Word verdict = 0;
  const auto* const expected = reinterpret_cast<const ulonglong2*>(c.expected + c.headBytes);
  const auto* const found = reinterpret_cast<const ulonglong2*>(c.found + c.headBytes);
  for (std::uint64_t i = first; i < c.wideCount; i += stride) {
    const ulonglong2 a = expected[i];
    const ulonglong2 b = found[i];
    const std::uint64_t byte = c.headBytes + i * kWide;
    verdict = max(verdict, verdictOn(a.x, b.x, byte));
    verdict = max(verdict, verdictOn(a.y, b.y, byte + sizeof(Word)));
  }
  for (std::uint64_t i = first; i < c.headBytes; i += stride) {
    verdict = max(verdict, verdictOnByte(c, i));
  }
  for (std::uint64_t i = c.headBytes + c.wideCount * kWide + first; i < c.bytes; i += stride) {
    verdict = max(verdict, verdictOnByte(c, i));
  }
  if (verdict != 0) atomicMax(&ofBlock, verdict);
  __syncthreads();
  if (threadIdx.x == 0 && ofBlock != 0) atomicMax(c.verdict, ofBlock);
}

std::uint64_t placeOf(const void* buffer) {
  return reinterpret_cast<std::uintptr_t>(buffer) % kWide;
}

}  // namespace

void compareBytes(const void* expected, const void* found, std::uint64_t bytes,
                  std::uint64_t* verdict, StreamHandle stream) {
  if (bytes == 0) return;
  static_assert(sizeof(Word) == sizeof(std::uint64_t));
  const bool isWide = placeOf(expected) == placeOf(found);
  const std::uint64_t headBytes =
      isWide ? std::min(bytes, (kWide - placeOf(expected)) % kWide) : bytes;
  const Comparison comparison{.expected = static_cast<const std::byte*>(expected),
                              .found = static_cast<const std::byte*>(found),
                              .bytes = bytes,
                              .headBytes = headBytes,
                              .wideCount = (bytes - headBytes) / kWide,
                              .verdict = reinterpret_cast<Word*>(verdict)};
  const std::uint64_t units = isWide ? comparison.wideCount : bytes;
  const auto blocks = static_cast<unsigned>(
      std::clamp<std::uint64_t>((units + kThreads - 1) / kThreads, 1, kMostBlocks));
  compareKernel<<<blocks, kThreads, 0, stream>>>(comparison);
  check(cudaGetLastError(), "launching the kernel that compares");
}

}  // namespace zipccl::gpu
