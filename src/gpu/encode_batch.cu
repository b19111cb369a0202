// SPDX-License-Identifier: Apache-2.0
//
// Encoding of many frames of different sizes in one launch.

#include "gpu/batch_device.cuh"
#include "gpu/encode_group.cuh"
#include "gpu/launch.hpp"

namespace zipccl::gpu {
namespace {

template <unsigned kCapacity>
struct EncodeBatch {
  static constexpr bool kIsBatch = true;
  codec::HeaderBytes common;
  EncodeState* states;
  BatchTable<EncodeItem, kCapacity> table;

  [[nodiscard]] __device__ __forceinline__ std::uint64_t unitCount() const {
    return table.unitCount();
  }
  template <typename Element>
  [[nodiscard]] __device__ __forceinline__ EncodeFrame frameOf(unsigned number) const {
    const EncodeItem& item = table.items[number];
    const codec::FrameLayout layout =
        codec::frameLayout(Element::kDatatype, Element::kLayout, item.elementCount, item.poolBytes);
    return {static_cast<const std::byte*>(item.source),
            makeFrameView<std::byte>(layout, static_cast<std::byte*>(item.frame), nullptr, 0),
            states + number, item.frameBytes};
  }
};
static_assert(sizeof(EncodeBatch<kMaxBatchFrames>) <= kMaxKernelBytes);

template <unsigned kCapacity>
cudaError_t launchWith(const EncodeBatchLaunch& launch, cudaStream_t stream) {
  EncodeBatch<kCapacity> work;
  work.common = commonHeader(launch.datatype, launch.layout, launch.application);
  work.states = static_cast<EncodeState*>(launch.workspace);
  const std::uint64_t units = fillTable(work.table, launch.items);
  return forElement(launch.datatype, launch.layout, [&]<typename Element>(Element) {
    return launchEncodeUnits<EncodeBatch<kCapacity>, Element, Alignment::kEither>(
        work, units, launch.maxBlocks, stream);
  });
}

}  // namespace

cudaError_t launchEncodeBatch(const EncodeBatchLaunch& launch, cudaStream_t stream) {
  return launch.items.size() <= kSmallBatch ? launchWith<kSmallBatch>(launch, stream)
                                            : launchWith<kMaxBatchFrames>(launch, stream);
}

}  // namespace zipccl::gpu
