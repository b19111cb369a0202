// SPDX-License-Identifier: Apache-2.0
//
// Decoding of one frame.

#include "gpu/decode_group.cuh"
#include "gpu/launch.hpp"

namespace zipccl::gpu {
namespace {

struct DecodeOne {
  static constexpr bool kIsBatch = false;
  DecodeFrame frame;

  [[nodiscard]] __device__ __forceinline__ std::uint64_t unitCount() const {
    return frame.view.groupCount == 0 ? 1 : frame.view.groupCount;
  }
};

template <typename Element>
cudaError_t launchFor(const DecodeOne& work, unsigned maxBlocks, cudaStream_t stream) {
  const std::uint64_t groups = work.frame.view.groupCount;
  const std::uint64_t units = groups == 0 ? 1 : groups;
  const bool aligned = reinterpret_cast<std::uintptr_t>(work.frame.output) % 16 == 0;
  return aligned ? launchDecodeUnits<DecodeOne, Element, Alignment::kAligned>(work, units,
                                                                              maxBlocks, stream)
                 : launchDecodeUnits<DecodeOne, Element, Alignment::kUnaligned>(work, units,
                                                                                maxBlocks, stream);
}

}  // namespace

cudaError_t launchDecode(const DecodeLaunch& launch, cudaStream_t stream) {
  const codec::FrameSpec& spec = launch.spec;
  const codec::FrameLayout layout =
      codec::frameLayout(spec.datatype, spec.layout, spec.elementCount, spec.poolBytes);
  const DecodeOne work{{makeFrameView<const std::byte>(layout, launch.staticPart,
                                                       launch.dynamicPart, launch.dynamicCapacity),
                        launch.output, launch.status}};
  return forElement(spec.datatype, spec.layout, [&]<typename Element>(Element) {
    return launchFor<Element>(work, launch.maxBlocks, stream);
  });
}

}  // namespace zipccl::gpu
