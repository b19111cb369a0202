// SPDX-License-Identifier: Apache-2.0
//
// The calls of the GPU codec, as it is.

#include "perf_codec/gpu_codec_calls.hpp"

namespace zipccl::tools::perf_codec {

void decodeOnGpu(const codec::FrameSpec& spec, const std::byte* frame, std::uint64_t frameCapacity,
                 std::byte* output, std::uint32_t* status, gpu::StreamHandle stream,
                 const gpu::LaunchOptions& options) {
  const std::uint64_t staticBytes = codec::staticBytes(spec);
  gpu::decode(spec, frame, frame + staticBytes, frameCapacity - staticBytes, output, status, stream,
              options);
}

}  // namespace zipccl::tools::perf_codec
