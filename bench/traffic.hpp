// SPDX-License-Identifier: Apache-2.0
//
// Kernels that only read and write: what is left for a codec when its arithmetic costs nothing.

#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

namespace zipccl::bench {

/// Quarters of a tile of 2048 bytes that are read and written. Encoding comes near to reading 4 and
/// writing 3, decoding near to reading 3 and writing 4.
struct TrafficMix {
  unsigned readQuarters;
  unsigned writtenQuarters;
};
inline constexpr TrafficMix kTrafficMixes[] = {{4, 3}, {3, 4}, {4, 4}};

/// Reads and writes for `tileCount` tiles, from `source` to `destination`, both of 2048 bytes a
/// tile; `mix` must be one of kTrafficMixes.
cudaError_t launchTraffic(TrafficMix mix, const std::byte* source, std::byte* destination,
                          std::uint64_t tileCount, unsigned blocks, cudaStream_t stream);

}  // namespace zipccl::bench
