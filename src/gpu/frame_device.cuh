// SPDX-License-Identifier: Apache-2.0
//
// A frame as kernels see it: one pointer a section, made on the host from codec/layout.hpp.

#pragma once

#include <cstddef>
#include <cstdint>

#include "base/host_device.hpp"
#include "codec/layout.hpp"
#include "gpu/memory_device.cuh"

namespace zipccl::gpu {

/// Pointers into a frame whose static and dynamic part may lie apart. `Byte` is std::byte or const
/// std::byte. Plain data, passed to kernels by value.
template <typename Byte>
struct FrameView {
  Byte* header;
  Byte* descriptors;
  Byte* groups;
  Byte* tiles;
  Byte* tail;
  Byte* pool;
  Byte* dynamic;  ///< where extra space from poolBytes on stands
  std::uint64_t poolBytes;
  std::uint64_t extraLimit;  ///< bytes of extra space that may be touched: pool and dynamic part
  std::uint64_t tileCount;
  std::uint64_t groupCount;
  std::uint64_t tailBytes;

  /// The byte at `offset` of extra space; a region may begin in the pool and end in the dynamic
  /// part.
  __device__ __forceinline__ Byte* extra(std::uint64_t offset) const {
    return global(offset < poolBytes ? pool + offset : dynamic + (offset - poolBytes));
  }
};

template <typename Byte>
ZIPCCL_HOST_DEVICE FrameView<Byte> makeFrameView(const codec::FrameLayout& f, Byte* staticPart,
                                                 Byte* dynamicPart, std::uint64_t dynamicCapacity) {
  return {staticPart,
          staticPart + f.descriptorsAt,
          staticPart + f.groupsAt,
          staticPart + f.tilesAt,
          staticPart + f.tailAt,
          staticPart + f.poolAt,
          dynamicPart,
          f.poolBytes,
          f.poolBytes + dynamicCapacity,
          f.tileCount,
          f.groupCount,
          f.tailBytes};
}

/// Threads of the eight warps that work on a group.
inline constexpr unsigned kGroupThreads = 32 * codec::kGroupTiles;

/// A barrier of the warps of group `part` of a block of `kGroups`.
template <unsigned kGroups>
__device__ __forceinline__ void groupBarrier(unsigned part) {
  if constexpr (kGroups == 1) {
    __syncthreads();
  } else {
    barrier<kGroupThreads>(1 + part);
  }
}

/// A unit of work of a batch: a group of a frame, or what a frame without tiles has.
template <typename Frame>
struct FoundFrame {
  Frame frame;
  std::uint64_t unit;  ///< of this frame
};

/// Whether a frame of `groupCount` groups ends with its unit `unit`. Where each block has one unit
/// the block's number tells it, and needs no register.
template <typename Work, unsigned kGroups>
__device__ __forceinline__ bool isLastUnit(std::uint64_t unit, std::uint64_t groupCount) {
  return !Work::kIsBatch && kGroups == 1 ? blockIdx.x + 1 == gridDim.x : unit + 1 >= groupCount;
}

}  // namespace zipccl::gpu
