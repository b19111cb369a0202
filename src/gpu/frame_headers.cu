// SPDX-License-Identifier: Apache-2.0
//
// Seals of headers: a block a frame, since tiles may have to be counted. A launch carries the
// places of up to 64 frames.

#include <algorithm>

#include "codec/seal.hpp"
#include "gpu/cuda_check.hpp"
#include "gpu/frame_headers.hpp"

namespace zipccl::gpu {
namespace {

constexpr unsigned kMostItems = 64;
constexpr unsigned kSealThreads = 256;

struct SealWork {
  SealItem items[kMostItems];
};

__global__ void sealHeadersKernel(const __grid_constant__ SealWork work) {
  __shared__ unsigned lowTiles;
  const SealItem& item = work.items[blockIdx.x];
  if (threadIdx.x == 0) lowTiles = 0;
  __syncthreads();
  const auto* const descriptors =
      reinterpret_cast<const std::uint32_t*>(item.frame + codec::kHeaderBytes);
  unsigned count = 0;
  for (std::uint64_t tile = threadIdx.x; tile < item.tileCount; tile += kSealThreads) {
    count += codec::hasLow(descriptors[tile]) ? 1U : 0U;
  }
  count = __reduce_add_sync(0xFFFFFFFFU, count);
  if (threadIdx.x % 32 == 0 && count != 0) atomicAdd(&lowTiles, count);
  __syncthreads();
  if (threadIdx.x != 0) return;
  auto* const words = reinterpret_cast<std::uint64_t*>(item.frame);
  std::uint64_t header[codec::kHeaderWords];
#pragma unroll
  for (std::size_t i = 0; i < codec::kHeaderWords; ++i) header[i] = words[i];
  header[codec::kApplicationWord] = lowTiles;
  header[codec::kApplicationWord + 1] = item.call;
  header[codec::kApplicationWord + 2] = item.chunk;
  header[codec::kSealWord] = codec::sealOf(header);
#pragma unroll
  for (std::size_t i = codec::kApplicationWord; i <= codec::kSealWord; ++i) words[i] = header[i];
}

}  // namespace

void sealHeaders(std::span<const SealItem> items, StreamHandle stream) {
  for (std::size_t first = 0; first < items.size(); first += kMostItems) {
    const std::span<const SealItem> some =
        items.subspan(first, std::min<std::size_t>(kMostItems, items.size() - first));
    SealWork work{};
    std::copy(some.begin(), some.end(), work.items);
    sealHeadersKernel<<<static_cast<unsigned>(some.size()), kSealThreads, 0, stream>>>(work);
    check(cudaGetLastError(), "launching the kernel that seals headers");
  }
}

}  // namespace zipccl::gpu
