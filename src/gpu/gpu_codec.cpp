// SPDX-License-Identifier: Apache-2.0
//
// The public face of the codec on the GPU (zipccl/gpu_codec.hpp): checks arguments, then launches.

#include "zipccl/gpu_codec.hpp"

#include <cuda_runtime_api.h>

#include <bit>
#include <cmath>

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
  expects(spec.elementCount <= kGpuMaxElementCount, "the GPU codec takes up to 2^38 elements, not ",
          spec.elementCount);
}

/// What encode() asks of one frame, without its workspace.
void expectsEncodable(const codec::FrameSpec& spec, const void* source, const void* frame,
                      std::uint64_t frameCapacity) {
  expectsGpuSpec(spec);
  expects(!spec.checksum, "the GPU codec does not write checksums: agree on a frame without one");
  const std::uint64_t needed = codec::maxFrameBytes(spec.datatype, spec.elementCount);
  expects(frameCapacity >= needed, "a frame of ", spec.elementCount, " elements needs ", needed,
          " bytes of space, not ", frameCapacity);
  expectsElements(source, spec, "source");
  expectsBuffer(frame, "frame");
}

void expectsDecodable(const codec::FrameSpec& spec, const void* staticPart, const void* dynamicPart,
                      std::uint64_t dynamicCapacity, const void* output,
                      const std::uint32_t* status) {
  expectsGpuSpec(spec);
  expectsBuffer(staticPart, "staticPart");
  if (dynamicCapacity != 0) expectsBuffer(dynamicPart, "dynamicPart");
  expectsElements(output, spec, "output");
  expects(status != nullptr, "status must not be null");
}

/// Calls `check(item, its spec)` for each of the items, which must fit one launch.
template <typename Item, typename Check>
void expectsBatch(codec::Datatype datatype, codec::Layout layout, std::span<const Item> items,
                  Check&& check) {
  expects(items.size() <= kMaxBatchFrames, "a batch has up to ", kMaxBatchFrames, " frames, not ",
          items.size());
  std::uint64_t units = 0;
  for (const Item& item : items) {
    codec::FrameSpec spec;
    spec.datatype = datatype;
    spec.layout = layout;
    spec.elementCount = item.elementCount;
    spec.poolBytes = item.poolBytes;
    check(item, spec);
    units += unitsOf(item.elementCount);
  }
  constexpr std::uint64_t kMostUnits = (std::uint64_t{1} << 31) - 1;
  expects(units <= kMostUnits, "a batch has up to 2^44 elements");
}

/// Whether `value` is one without rounding.
bool isNumberOf(codec::Datatype datatype, float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  switch (datatype) {
    case codec::Datatype::kFloat32:
      return true;
    case codec::Datatype::kBfloat16:
      return (bits & 0xFFFFU) == 0;
    case codec::Datatype::kFloat16:
      break;
  }
  constexpr float kMostFloat16 = 65504.0F;
  constexpr float kUnit = 0x1p-24F;  // of subnormal numbers
  const float magnitude = std::fabs(value);
  if (!(magnitude <= kMostFloat16)) return !std::isfinite(value) && (bits & 0x1FFFU) == 0;
  if (magnitude < 0x1p-14F) return std::fmod(magnitude, kUnit) == 0.0F;
  return (bits & 0x1FFFU) == 0;
}

}  // namespace

void initEncodeWorkspace(void* workspace, StreamHandle stream, std::size_t frameCount) {
  expectsBuffer(workspace, "workspace");
  expects(frameCount <= kMaxBatchFrames, "a batch has up to ", kMaxBatchFrames, " frames, not ",
          frameCount);
  check(cudaMemsetAsync(workspace, 0, encodeWorkspaceBytes(frameCount), stream),
        "clearing the encoder's workspace");
}

void encode(const codec::FrameSpec& spec, const void* source, void* frame,
            std::uint64_t frameCapacity, std::uint64_t* frameBytes, void* workspace,
            StreamHandle stream, const LaunchOptions& options,
            const codec::ApplicationWords& application) {
  expectsEncodable(spec, source, frame, frameCapacity);
  expectsBuffer(workspace, "workspace");
  const EncodeLaunch launch{spec,
                            static_cast<const std::byte*>(source),
                            static_cast<std::byte*>(frame),
                            frameBytes,
                            workspace,
                            application,
                            options.maxBlocks};
  check(launchEncode(launch, stream), "launching the encoder");
}

void encodeBatch(codec::Datatype datatype, codec::Layout layout, std::span<const EncodeItem> items,
                 void* workspace, StreamHandle stream, const LaunchOptions& options,
                 const codec::ApplicationWords& application) {
  expectsBatch(datatype, layout, items, [](const EncodeItem& item, const codec::FrameSpec& spec) {
    expectsEncodable(spec, item.source, item.frame, item.frameCapacity);
  });
  expectsBuffer(workspace, "workspace");
  if (items.empty()) return;
  check(launchEncodeBatch({datatype, layout, items, workspace, application, options.maxBlocks},
                          stream),
        "launching the encoder of a batch");
}

void decode(const codec::FrameSpec& spec, const void* staticPart, const void* dynamicPart,
            std::uint64_t dynamicCapacity, void* output, std::uint32_t* status, StreamHandle stream,
            const LaunchOptions& options) {
  expectsDecodable(spec, staticPart, dynamicPart, dynamicCapacity, output, status);
  const DecodeLaunch launch{spec,
                            static_cast<const std::byte*>(staticPart),
                            static_cast<const std::byte*>(dynamicPart),
                            dynamicCapacity,
                            static_cast<std::byte*>(output),
                            status,
                            options.maxBlocks};
  check(launchDecode(launch, stream), "launching the decoder");
}

void decodeBatch(codec::Datatype datatype, codec::Layout layout, std::span<const DecodeItem> items,
                 StreamHandle stream, const LaunchOptions& options) {
  expectsBatch(datatype, layout, items, [](const DecodeItem& item, const codec::FrameSpec& spec) {
    expectsDecodable(spec, item.staticPart, item.dynamicPart, item.dynamicCapacity, item.output,
                     item.status);
  });
  if (items.empty()) return;
  check(launchDecodeBatch({datatype, layout, items, options.maxBlocks}, stream),
        "launching the decoder of a batch");
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
    if (parts.poolBytes == kPoolOfSpec) continue;
    codec::FrameSpec own = spec;
    own.poolBytes = parts.poolBytes;
    expectsGpuSpec(own);
  }
  expects(isNumberOf(spec.datatype, factor), "the factor ", factor, " is not a number of ",
          spec.datatype == codec::Datatype::kFloat16 ? "fp16" : "bf16");
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
