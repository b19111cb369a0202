// SPDX-License-Identifier: Apache-2.0
//
// Launchers of the codec's kernels, for src/gpu/gpu_codec.cpp, which checks the arguments.

#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <span>

#include "codec/layout.hpp"
#include "zipccl/codec.hpp"
#include "zipccl/gpu_codec.hpp"

namespace zipccl::gpu {

struct EncodeLaunch {
  codec::FrameSpec spec;
  const std::byte* source;
  std::byte* frame;
  std::uint64_t* frameBytes;  ///< may be null
  void* workspace;
  codec::ApplicationWords application;
  unsigned maxBlocks;  ///< 0: no limit
};

struct EncodeBatchLaunch {
  codec::Datatype datatype;
  codec::Layout layout;
  std::span<const EncodeItem> items;  ///< 1 to kMaxBatchFrames, of fewer than 2^31 units together
  void* workspace;
  codec::ApplicationWords application;
  unsigned maxBlocks;  ///< 0: no limit
};

struct DecodeLaunch {
  codec::FrameSpec spec;
  const std::byte* staticPart;
  const std::byte* dynamicPart;
  std::uint64_t dynamicCapacity;
  std::byte* output;
  std::uint32_t* status;
  unsigned maxBlocks;  ///< 0: no limit
};

struct DecodeBatchLaunch {
  codec::Datatype datatype;
  codec::Layout layout;
  std::span<const DecodeItem> items;  ///< as EncodeBatchLaunch::items
  unsigned maxBlocks;                 ///< 0: no limit
};

struct DecodeReduceLaunch {
  codec::FrameSpec spec;
  const FrameParts* frames;
  unsigned frameCount;  ///< 1 to kMaxReduceFrames
  float factor;
  std::byte* output;
  std::uint32_t* status;
  unsigned maxBlocks;  ///< 0: no limit
};

/// Units of work of a frame, a block each: its groups, and one for a frame that has none but a
/// header.
constexpr std::uint64_t unitsOf(std::uint64_t elementCount) noexcept {
  const std::uint64_t groups =
      (elementCount / codec::kTileElements + codec::kGroupTiles - 1) / codec::kGroupTiles;
  return groups != 0 ? groups : 1;
}

cudaError_t launchEncode(const EncodeLaunch& launch, cudaStream_t stream);
cudaError_t launchEncodeBatch(const EncodeBatchLaunch& launch, cudaStream_t stream);
cudaError_t launchDecode(const DecodeLaunch& launch, cudaStream_t stream);
cudaError_t launchDecodeBatch(const DecodeBatchLaunch& launch, cudaStream_t stream);
cudaError_t launchDecodeReduce(const DecodeReduceLaunch& launch, cudaStream_t stream);

}  // namespace zipccl::gpu
