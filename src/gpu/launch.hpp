// SPDX-License-Identifier: Apache-2.0
//
// Launchers of the codec's kernels, for src/gpu/gpu_codec.cpp, which checks the arguments.

#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

#include "codec/layout.hpp"
#include "zipccl/codec.hpp"
#include "zipccl/gpu_codec.hpp"

namespace zipccl::gpu {

struct EncodeLaunch {
  codec::FrameSpec spec;
  const std::byte* source;
  std::byte* frame;
  std::uint64_t frameCapacity;
  std::uint64_t* frameBytes;  ///< may be null
  void* workspace;
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

struct DecodeReduceLaunch {
  codec::FrameSpec spec;
  const FrameParts* frames;
  unsigned frameCount;  ///< 1 to kMaxReduceFrames
  float factor;
  std::byte* output;
  std::uint32_t* status;
  unsigned maxBlocks;  ///< 0: no limit
};

cudaError_t launchEncode(const EncodeLaunch& launch, cudaStream_t stream);
cudaError_t launchDecode(const DecodeLaunch& launch, cudaStream_t stream);
cudaError_t launchDecodeReduce(const DecodeReduceLaunch& launch, cudaStream_t stream);

}  // namespace zipccl::gpu
