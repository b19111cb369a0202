// SPDX-License-Identifier: Apache-2.0
//
// The public face of the codec on the GPU (zipccl/gpu_codec.hpp): checks arguments, then launches.

#include "zipccl/gpu_codec.hpp"

#include <cuda_runtime_api.h>

#include <bit>

#include "base/error.hpp"
#include "codec/spec.hpp"
#include "gpu/cuda_check.hpp"
#include "gpu/launch.hpp"

namespace zipccl::gpu {
namespace {

constexpr std::uintptr_t kAlignment = 16;

void expectsAligned(const void* pointer, const char* name) {
  const auto address = reinterpret_cast<std::uintptr_t>(pointer);
  expects(address % kAlignment == 0, name, " must be 16-byte aligned, but is ",
          address % kAlignment, " bytes past a multiple of 16");
}

void expectsBuffer(const void* pointer, const char* name) {
  expects(pointer != nullptr, name, " must not be null");
  expectsAligned(pointer, name);
}

void expectsElements(const void* pointer, const codec::FrameSpec& spec, const char* name) {
  if (spec.elementCount == 0) return;
  expects(pointer != nullptr, name, " must not be null");
  const std::uint64_t alignment = codec::bytesPerElement(spec.datatype);
  const auto address = reinterpret_cast<std::uintptr_t>(pointer);
  expects(address % alignment == 0, name, " must be aligned to its elements of ", alignment,
          " bytes, but is ", address % alignment, " bytes past");
}

void expectsGpuSpec(const codec::FrameSpec& spec) {
  static_cast<void>(codec::checkedLayout(spec));
  expects(spec.datatype != codec::Datatype::kFloat16,
          "the GPU codec has no kernels for fp16: use the host codec");
  expects(spec.elementCount <= kGpuMaxElementCount, "the GPU codec takes up to 2^38 elements, not ",
          spec.elementCount);
}

}  // namespace

void initEncodeWorkspace(void* workspace, StreamHandle stream) {
  expectsBuffer(workspace, "workspace");
  check(cudaMemsetAsync(workspace, 0, kEncodeWorkspaceBytes, stream),
        "clearing the encoder's workspace");
}

void encode(const codec::FrameSpec& spec, const void* source, void* frame,
            std::uint64_t frameCapacity, std::uint64_t* frameBytes, void* workspace,
            StreamHandle stream, const LaunchOptions& options) {
  expectsGpuSpec(spec);
  expects(!spec.checksum, "the GPU codec does not write checksums: agree on a frame without one");
  const std::uint64_t needed = codec::maxFrameBytes(spec.datatype, spec.elementCount);
  expects(frameCapacity >= needed, "a frame of ", spec.elementCount, " elements needs ", needed,
          " bytes of space, not ", frameCapacity);
  expectsElements(source, spec, "source");
  expectsBuffer(frame, "frame");
  expectsBuffer(workspace, "workspace");
  const EncodeLaunch launch{spec,
                            static_cast<const std::byte*>(source),
                            static_cast<std::byte*>(frame),
                            frameCapacity,
                            frameBytes,
                            workspace,
                            options.maxBlocks};
  check(launchEncode(launch, stream), "launching the encoder");
}

void decode(const codec::FrameSpec& spec, const void* staticPart, const void* dynamicPart,
            std::uint64_t dynamicCapacity, void* output, std::uint32_t* status, StreamHandle stream,
            const LaunchOptions& options) {
  expectsGpuSpec(spec);
  expectsBuffer(staticPart, "staticPart");
  if (dynamicCapacity != 0) expectsBuffer(dynamicPart, "dynamicPart");
  expectsElements(output, spec, "output");
  expects(status != nullptr, "status must not be null");
  const DecodeLaunch launch{spec,
                            static_cast<const std::byte*>(staticPart),
                            static_cast<const std::byte*>(dynamicPart),
                            dynamicCapacity,
                            static_cast<std::byte*>(output),
                            status,
                            options.maxBlocks};
  check(launchDecode(launch, stream), "launching the decoder");
}

void decodeReduce(const codec::FrameSpec& spec, std::span<const FrameParts> frames, float factor,
                  void* output, std::uint32_t* status, StreamHandle stream,
                  const LaunchOptions& options) {
  expectsGpuSpec(spec);
  expects(!frames.empty() && frames.size() <= kMaxReduceFrames,
          "decodeReduce takes 1 to 512 frames, not ", frames.size());
  for (const FrameParts& parts : frames) {
    expectsBuffer(parts.staticPart, "a frame's staticPart");
    if (parts.dynamicCapacity != 0) expectsBuffer(parts.dynamicPart, "a frame's dynamicPart");
  }
  expects(spec.datatype == codec::Datatype::kFloat32 ||
              (std::bit_cast<std::uint32_t>(factor) & 0xFFFFU) == 0,
          "the factor ", factor, " is not a number of bf16");
  expectsElements(output, spec, "output");
  expects(status != nullptr, "status must not be null");
  const DecodeReduceLaunch launch{spec,
                                  frames.data(),
                                  static_cast<unsigned>(frames.size()),
                                  factor,
                                  static_cast<std::byte*>(output),
                                  status,
                                  options.maxBlocks};
  check(launchDecodeReduce(launch, stream), "launching the decoder that adds up");
}

codec::DecodeStatus statusOf(std::uint32_t statusWord) noexcept {
  return statusWord == 0 ? codec::DecodeStatus::kOk
                         : static_cast<codec::DecodeStatus>(std::countr_zero(statusWord));
}

}  // namespace zipccl::gpu
