// SPDX-License-Identifier: Apache-2.0
//
// As codec_calls.hpp, of the GPU codec.

#pragma once

#include <cstddef>
#include <cstdint>
#include <zipccl/gpu_codec.hpp>

namespace zipccl::tools::perf_codec {

/// As gpu::decode(), of a frame in one piece with room for `frameCapacity` bytes.
void decodeOnGpu(const codec::FrameSpec& spec, const std::byte* frame, std::uint64_t frameCapacity,
                 std::byte* output, std::uint32_t* status, gpu::StreamHandle stream,
                 const gpu::LaunchOptions& options);

}  // namespace zipccl::tools::perf_codec
