// SPDX-License-Identifier: Apache-2.0
//
// Decoding of many frames of different sizes in one launch.

#include "gpu/batch_device.cuh"
#include "gpu/decode_group.cuh"
#include "gpu/launch.hpp"

namespace zipccl::gpu {
namespace {

template <unsigned kCapacity>
struct DecodeBatch {
  static constexpr bool kIsBatch = true;
  BatchTable<DecodeItem, kCapacity> table;

  [[nodiscard]] __device__ __forceinline__ std::uint64_t unitCount() const {
    return table.unitCount();
  }
  template <typename Element>
  [[nodiscard]] __device__ __forceinline__ DecodeFrame frameOf(unsigned number) const {
    const DecodeItem& item = table.items[number];
    const codec::FrameLayout layout =
        codec::frameLayout(Element::kDatatype, Element::kLayout, item.elementCount, item.poolBytes);
    return {makeFrameView(layout, static_cast<const std::byte*>(item.staticPart),
                          static_cast<const std::byte*>(item.dynamicPart), item.dynamicCapacity),
            static_cast<std::byte*>(item.output), item.status};
  }
};
static_assert(sizeof(DecodeBatch<kMaxBatchFrames>) <= kMaxKernelBytes);

template <unsigned kCapacity>
cudaError_t launchWith(const DecodeBatchLaunch& launch, cudaStream_t stream) {
  DecodeBatch<kCapacity> work;
  const std::uint64_t units = fillTable(work.table, launch.items);
  return forElement(launch.datatype, launch.layout, [&]<typename Element>(Element) {
    return launchDecodeUnits<DecodeBatch<kCapacity>, Element, Alignment::kEither>(
        work, units, launch.maxBlocks, stream);
  });
}

}  // namespace

cudaError_t launchDecodeBatch(const DecodeBatchLaunch& launch, cudaStream_t stream) {
  return launch.items.size() <= kSmallBatch ? launchWith<kSmallBatch>(launch, stream)
                                            : launchWith<kMaxBatchFrames>(launch, stream);
}

}  // namespace zipccl::gpu
