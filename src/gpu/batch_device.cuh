// SPDX-License-Identifier: Apache-2.0
//
// Many frames of different sizes in one launch: their descriptions go to the kernel by value, so
// that nothing is allocated or copied and a captured graph carries them. A block finds its frame
// among the sums of units; a table of buckets of units leaves it a step or two to search.

#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "gpu/launch.hpp"

namespace zipccl::gpu {

/// What a kernel may take by value, since CUDA 12.1 and sm_70.
inline constexpr std::size_t kMaxKernelBytes = 32764;

/// Batches of up to so many frames take little of what a launch has to carry.
inline constexpr unsigned kSmallBatch = 32;

/// Frames by the units that end with them. `Item` is the public description of one.
template <typename Item, unsigned kCapacity>
struct BatchTable {
  std::uint32_t count;
  std::uint32_t bucketShift;            ///< a bucket is 2^bucketShift units
  std::uint32_t ends[kCapacity];        ///< units up to the end of each frame
  std::uint16_t firsts[kCapacity + 1];  ///< the frame of each bucket's first unit
  Item items[kCapacity];

  /// The frame that has `unit`, and in `unit` its number within it.
  [[nodiscard]] __device__ __forceinline__ unsigned find(std::uint64_t& unit) const {
    const auto wanted = static_cast<std::uint32_t>(unit);
    const unsigned bucket = wanted >> bucketShift;
    unsigned low = firsts[bucket];
    unsigned high = firsts[bucket + 1];
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
  table.bucketShift = 0;
  while ((units - 1) >> table.bucketShift >= kCapacity) ++table.bucketShift;
  std::uint16_t frame = 0;
  for (std::uint64_t bucket = 0; bucket <= kCapacity; ++bucket) {
    const std::uint64_t first = bucket << table.bucketShift;
    while (frame + std::size_t{1} < items.size() && table.ends[frame] <= first) ++frame;
    table.firsts[bucket] = frame;
  }
  return units;
}

}  // namespace zipccl::gpu
