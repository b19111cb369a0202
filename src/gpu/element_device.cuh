// SPDX-License-Identifier: Apache-2.0
//
// What differs between the element types for a kernel: how many bytes a tile has, how a lane's
// bytes become pair words and low halves, and back. A lane copies 16 bytes at a time, 512 apart,
// which is the order of slots of docs/format.md section 4.

#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "codec/layout.hpp"
#include "gpu/memory_device.cuh"

namespace zipccl::gpu {

using PairWords = std::uint32_t[codec::kPairWords];

/// The numbers of codec::ElementFormat, as kernels take them.
template <codec::Datatype kOf>
struct ElementNumbers {
  static constexpr codec::Datatype kDatatype = kOf;
  static constexpr unsigned kUpperRecordBytes = codec::elementFormat(kOf).upperRecordBytes();
  static constexpr unsigned kLowPlaneAt = codec::elementFormat(kOf).lowPlaneAt();
  static constexpr unsigned kRawRestBytes = codec::elementFormat(kOf).rawRestBytes();
  static constexpr unsigned kRawRecordWords = codec::elementFormat(kOf).rawRecordWords();
  static constexpr unsigned kMaxEscapes = codec::elementFormat(kOf).maxEscapes();
  static constexpr unsigned kExponentBits = codec::elementFormat(kOf).exponentBits;
  static constexpr unsigned kFineBits = codec::elementFormat(kOf).fineBits();
};

/// bf16 or fp16.
template <codec::Datatype kOf>
struct SixteenBitElement : ElementNumbers<kOf> {
  using Unit = unsigned short;  ///< what element alignment allows to load
  static constexpr codec::Layout kLayout = codec::Layout::kNarrow;
  static constexpr bool kHasLow = false;
  static constexpr bool kNarrowLow = false;
  static constexpr unsigned kCopies = 4;
  static constexpr unsigned kTileBytes = codec::kTileElements * 2;
  static constexpr unsigned kRecordBytes = ElementNumbers<kOf>::kUpperRecordBytes;

  /// The lane's pair words, from the tile in shared memory.
  __device__ static void loadPairWords(SharedAddress laneSource, PairWords& words) {
#pragma unroll
    for (unsigned j = 0; j < kCopies; ++j) {
      const uint4 v = loadShared16(laneSource + 512 * j);
      words[4 * j] = v.x;
      words[4 * j + 1] = v.y;
      words[4 * j + 2] = v.z;
      words[4 * j + 3] = v.w;
    }
  }
  /// Byte offset from `laneSource` of the upper half that bit `bit` of an escape mask stands for.
  __device__ static std::uint32_t upperHalfOfMaskBit(std::uint32_t bit) {
    // bit = 16h + 4j + q: copy j, word q, half h.
    return ((bit & 12U) << 7) | ((bit & 3U) << 2) | ((bit >> 3) & 2U);
  }
  /// The lane's 16 bytes number `j` of the decoded tile.
  __device__ static uint4 decodedBytes(const PairWords& words, const PairWords& /*low*/,
                                       unsigned j) {
    return make_uint4(words[4 * j], words[4 * j + 1], words[4 * j + 2], words[4 * j + 3]);
  }
};

using Bfloat16Element = SixteenBitElement<codec::Datatype::kBfloat16>;
using Float16Element = SixteenBitElement<codec::Datatype::kFloat16>;

template <bool kWide>
struct Float32Element : ElementNumbers<codec::Datatype::kFloat32> {
  using Unit = unsigned;
  static constexpr codec::Layout kLayout = kWide ? codec::Layout::kWide : codec::Layout::kNarrow;
  static constexpr bool kHasLow = true;
  static constexpr bool kNarrowLow = !kWide;
  static constexpr unsigned kCopies = 8;
  static constexpr unsigned kTileBytes = codec::kTileElements * 4;
  static constexpr unsigned kRecordBytes =
      Float32Element::kUpperRecordBytes + (kWide ? codec::kLowPlaneBytes : 0U);

  __device__ static void loadPairWords(SharedAddress laneSource, PairWords& words) {
#pragma unroll
    for (unsigned j = 0; j < kCopies; ++j) {
      const uint4 v = loadShared16(laneSource + 512 * j);
      words[2 * j] = __byte_perm(v.x, v.y, 0x7632);
      words[2 * j + 1] = __byte_perm(v.z, v.w, 0x7632);
    }
  }
  /// Pairs of low halves, in the order of the pair words.
  __device__ static void loadLowWords(SharedAddress laneSource, PairWords& low) {
#pragma unroll
    for (unsigned j = 0; j < kCopies; ++j) {
      const uint4 v = loadShared16(laneSource + 512 * j);
      low[2 * j] = __byte_perm(v.x, v.y, 0x5410);
      low[2 * j + 1] = __byte_perm(v.z, v.w, 0x5410);
    }
  }
  /// Whether any of the lane's low halves is not zero.
  __device__ static bool anyLow(SharedAddress laneSource) {
    std::uint32_t any = 0;
#pragma unroll
    for (unsigned j = 0; j < kCopies; ++j) {
      const uint4 v = loadShared16(laneSource + 512 * j);
      any |= v.x | v.y | v.z | v.w;
    }
    return (any & 0xFFFFU) != 0;
  }
  __device__ static std::uint32_t upperHalfOfMaskBit(std::uint32_t bit) {
    // bit = 16h + 2j + q: copy j, pair q, element h of it.
    return ((bit & 14U) << 8) | ((bit & 1U) << 3) | ((bit >> 2) & 4U) | 2U;
  }
  __device__ static uint4 decodedBytes(const PairWords& words, const PairWords& low, unsigned j) {
    return make_uint4(__byte_perm(low[2 * j], words[2 * j], 0x5410),
                      __byte_perm(low[2 * j], words[2 * j], 0x7632),
                      __byte_perm(low[2 * j + 1], words[2 * j + 1], 0x5410),
                      __byte_perm(low[2 * j + 1], words[2 * j + 1], 0x7632));
  }
};

/// Whether a kernel's elements are 16-byte aligned; those of a batch may or may not be.
enum class Alignment { kAligned, kUnaligned, kEither };

template <Alignment kAlignment>
__device__ __forceinline__ bool isAligned(const std::byte* elements) {
  return kAlignment == Alignment::kAligned ||
         (kAlignment == Alignment::kEither && reinterpret_cast<std::uintptr_t>(elements) % 16 == 0);
}

/// Starts copying this lane's share of a tile to shared memory, or without 16-byte alignment does
/// it, unit by unit; finishTileCopy() must follow.
template <typename Element, bool kAligned>
__device__ __forceinline__ void startTileCopy(SharedAddress tileAt, const std::byte* tile,
                                              unsigned lane) {
  if constexpr (kAligned) {
#pragma unroll
    for (unsigned j = 0; j < Element::kCopies; ++j) {
      copyAsync16(tileAt + 512 * j + 16 * lane, tile + 512 * j + 16 * lane);
    }
    commitCopies();
  } else {
    using Unit = typename Element::Unit;
    const Unit* from = reinterpret_cast<const Unit*>(tile) + lane;
    const SharedAddress to = tileAt + lane * static_cast<unsigned>(sizeof(Unit));
#pragma unroll 16
    for (unsigned i = 0; i < codec::kTileElements / 32; ++i) {
      storeShared(to + i * 32 * static_cast<unsigned>(sizeof(Unit)), __ldcs(from + 32 * i));
    }
  }
}

template <bool kAligned>
__device__ __forceinline__ void finishTileCopy() {
  if constexpr (kAligned) {
    waitCopies<0>();  // each lane reads what it copied itself
  } else {
    __syncwarp();
  }
}

/// Stores the lane's share of a decoded tile; without 16-byte alignment by way of shared memory.
template <typename Element, bool kAligned>
__device__ __forceinline__ void storeTile(std::byte* tile, SharedAddress tileStage, unsigned lane,
                                          const PairWords& words, const PairWords& low) {
  if constexpr (kAligned) {
#pragma unroll
    for (unsigned j = 0; j < Element::kCopies; ++j) {
      __stcs(reinterpret_cast<uint4*>(tile + 512 * j) + lane, Element::decodedBytes(words, low, j));
    }
  } else {
    using Unit = typename Element::Unit;
    __syncwarp();
#pragma unroll
    for (unsigned j = 0; j < Element::kCopies; ++j) {
      storeShared16(tileStage + 512 * j + 16 * lane, Element::decodedBytes(words, low, j));
    }
    __syncwarp();
    Unit* to = reinterpret_cast<Unit*>(tile) + lane;
#pragma unroll 16
    for (unsigned i = 0; i < codec::kTileElements / 32; ++i) {
      __stcs(to + 32 * i,
             loadShared<Unit>(tileStage + (32 * i + lane) * static_cast<unsigned>(sizeof(Unit))));
    }
    __syncwarp();
  }
}

/// Calls `launch(Element{})` for the element type of frames.
template <typename Launch>
cudaError_t forElement(codec::Datatype datatype, codec::Layout layout, Launch&& launch) {
  switch (datatype) {
    case codec::Datatype::kBfloat16:
      return launch(Bfloat16Element{});
    case codec::Datatype::kFloat16:
      return launch(Float16Element{});
    case codec::Datatype::kFloat32:
      return layout == codec::Layout::kWide ? launch(Float32Element<true>{})
                                            : launch(Float32Element<false>{});
  }
  return cudaErrorInvalidValue;
}

}  // namespace zipccl::gpu
