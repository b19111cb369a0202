// SPDX-License-Identifier: Apache-2.0
//
// The call of the GPU codec that `zipccl perf codec` measures and checks, with a fault: with
// ZIPCCL_TEST_FAULT=gpu:1 the last element that is decoded becomes a NaN.

#include <cuda_runtime_api.h>

#include <cstdlib>
#include <string_view>

#include "perf_codec/gpu_codec_calls.hpp"

namespace zipccl::tools::perf_codec {

void decodeOnGpu(const codec::FrameSpec& spec, const std::byte* frame, std::uint64_t frameCapacity,
                 std::byte* output, std::uint32_t* status, gpu::StreamHandle stream,
                 const gpu::LaunchOptions& options) {
  const std::uint64_t staticBytes = codec::staticBytes(spec);
  gpu::decode(spec, frame, frame + staticBytes, frameCapacity - staticBytes, output, status, stream,
              options);
  const char* const fault = std::getenv("ZIPCCL_TEST_FAULT");
  if (fault == nullptr || std::string_view(fault) != "gpu:1") return;
  const std::uint64_t bytes = spec.elementCount * codec::elementBytes(spec.datatype);
  if (cudaMemsetAsync(output + bytes - 2, 0xFF, 2, stream) != cudaSuccess) std::abort();
}

}  // namespace zipccl::tools::perf_codec
