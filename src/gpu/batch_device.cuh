// SPDX-License-Identifier: Apache-2.0
//
// Many frames of different sizes in one launch: their descriptions go to the kernel by value, so
// that nothing is allocated or copied and a captured graph carries them, and a block finds its
// frame by a search over the sums of groups.

#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "gpu/launch.hpp"

namespace zipccl::gpu {

/// What a kernel may take by value, since CUDA 12.1 and sm_70.
inline constexpr std::size_t kMaxKernelBytes = 32764;

/// Frames by the units that end with them. `Item` is the public description of one.
template <typename Item, unsigned kCapacity>
struct BatchTable {
  std::uint32_t count;
  std::uint32_t ends[kCapacity];  ///< units up to the end of each frame
  Item items[kCapacity];

  /// The frame that has `unit`, and in `unit` its number within it.
  [[nodiscard]] __device__ __forceinline__ unsigned find(std::uint64_t& unit) const {
    const auto wanted = static_cast<std::uint32_t>(unit);
    unsigned low = 0;
    unsigned high = count - 1;
    while (low < high) {
      const unsigned middle = (low + high) / 2;
      if (ends[middle] <= wanted) {
        low = middle + 1;
      } else {
        high = middle;
      }
    }
    if (low != 0) unit -= ends[low - 1];
    return low;
  }
  [[nodiscard]] __device__ __forceinline__ std::uint64_t unitCount() const {
    return ends[count - 1];
  }
};

/// Batches of up to so many frames take little of what a launch has to carry.
inline constexpr unsigned kSmallBatch = 32;

/// Fills the table on the host; the units of all frames together.
template <typename Item, unsigned kCapacity>
std::uint64_t fillTable(BatchTable<Item, kCapacity>& table, std::span<const Item> items) {
  table.count = static_cast<std::uint32_t>(items.size());
  std::uint64_t units = 0;
  for (std::size_t i = 0; i < items.size(); ++i) {
    units += unitsOf(items[i].elementCount);
    table.ends[i] = static_cast<std::uint32_t>(units);
    table.items[i] = items[i];
  }
  return units;
}

}  // namespace zipccl::gpu
