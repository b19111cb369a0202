// SPDX-License-Identifier: Apache-2.0
//
// Encoding of one frame.

#include "gpu/encode_group.cuh"
#include "gpu/launch.hpp"

namespace zipccl::gpu {
namespace {

struct EncodeOne {
  static constexpr bool kIsBatch = false;
  codec::HeaderBytes common;
  EncodeFrame frame;

  [[nodiscard]] __device__ __forceinline__ std::uint64_t unitCount() const {
    return frame.view.groupCount == 0 ? 1 : frame.view.groupCount;
  }
};

template <typename Element>
cudaError_t launchFor(const EncodeOne& work, unsigned maxBlocks, cudaStream_t stream) {
  const std::uint64_t groups = work.frame.view.groupCount;
  const std::uint64_t units = groups == 0 ? 1 : groups;
  const bool aligned = reinterpret_cast<std::uintptr_t>(work.frame.source) % 16 == 0;
  return aligned ? launchEncodeUnits<EncodeOne, Element, Alignment::kAligned>(work, units,
                                                                              maxBlocks, stream)
                 : launchEncodeUnits<EncodeOne, Element, Alignment::kUnaligned>(work, units,
                                                                                maxBlocks, stream);
}

}  // namespace

cudaError_t launchEncode(const EncodeLaunch& launch, cudaStream_t stream) {
  const codec::FrameSpec& spec = launch.spec;
  const codec::FrameLayout layout =
      codec::frameLayout(spec.datatype, spec.layout, spec.elementCount, spec.poolBytes);
  EncodeOne work{};
  work.common = commonHeader(spec.datatype, spec.layout, launch.application);
  work.frame.source = launch.source;
  work.frame.view = makeFrameView<std::byte>(layout, launch.frame, nullptr, 0);
  work.frame.state = static_cast<EncodeState*>(launch.workspace);
  work.frame.frameBytes = launch.frameBytes;
  return forElement(spec.datatype, spec.layout, [&]<typename Element>(Element) {
    return launchFor<Element>(work, launch.maxBlocks, stream);
  });
}

}  // namespace zipccl::gpu
