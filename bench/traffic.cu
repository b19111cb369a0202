// SPDX-License-Identifier: Apache-2.0
//
// Kernels that only read and write. A warp takes a tile, 512 bytes an instruction, all reads of a
// tile before its writes; both kinds bypass the caches' favour, as those of the codec do.

#include <cuda_runtime.h>

#include "bench/traffic.hpp"

namespace zipccl::bench {
namespace {

constexpr unsigned kThreads = 256;

template <unsigned kRead, unsigned kWritten>
__global__ __launch_bounds__(kThreads) void trafficKernel(const uint4* source, uint4* destination,
                                                          std::uint64_t tileCount) {
  const unsigned lane = threadIdx.x % 32;
  const std::uint64_t warps = std::uint64_t{gridDim.x} * (kThreads / 32);
  std::uint64_t tile = std::uint64_t{blockIdx.x} * (kThreads / 32) + threadIdx.x / 32;
  for (; tile < tileCount; tile += warps) {
    uint4 values[kRead];
#pragma unroll
    for (unsigned i = 0; i < kRead; ++i) {
      values[i] = __ldcs(source + (tile * kRead + i) * 32 + lane);
    }
#pragma unroll
    for (unsigned i = 0; i < kWritten; ++i) {
      uint4 value = values[i % kRead];
      // What is read and not written must count too.
      if (i == 0 && kRead > kWritten) value.x ^= values[kRead - 1].x;
      __stcs(destination + (tile * kWritten + i) * 32 + lane, value);
    }
  }
}

}  // namespace

cudaError_t launchTraffic(TrafficMix mix, const std::byte* source, std::byte* destination,
                          std::uint64_t tileCount, unsigned blocks, cudaStream_t stream) {
  const auto* from = reinterpret_cast<const uint4*>(source);
  auto* to = reinterpret_cast<uint4*>(destination);
  if (mix.readQuarters == 4 && mix.writtenQuarters == 3) {
    trafficKernel<4, 3><<<blocks, kThreads, 0, stream>>>(from, to, tileCount);
  } else if (mix.readQuarters == 3 && mix.writtenQuarters == 4) {
    trafficKernel<3, 4><<<blocks, kThreads, 0, stream>>>(from, to, tileCount);
  } else if (mix.readQuarters == 4 && mix.writtenQuarters == 4) {
    trafficKernel<4, 4><<<blocks, kThreads, 0, stream>>>(from, to, tileCount);
  } else {
    return cudaErrorInvalidValue;
  }
  return cudaGetLastError();
}

}  // namespace zipccl::bench
