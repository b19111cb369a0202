// SPDX-License-Identifier: Apache-2.0
//
// Decoding on the GPU (docs/format.md). A warp takes a tile, a block a group of eight; nothing is
// shared between warps, and there is no barrier.
//
// Bytes moved per bf16 value: 1.375 read from the record, about 0.04 of descriptors and extra
// space, 2 written. Descriptors and record are read at once; the tile's escapes, whose place the
// descriptors tell, one dependent load later, a byte a lane. They reach their slots through shared
// memory, since registers cannot be indexed. The grid has a block for each group (see encode.cu); a
// caller that limits the blocks gets larger ones that loop over the frame.

#include "gpu/decode_tile.cuh"
#include "gpu/launch.hpp"

namespace zipccl::gpu {
namespace {

using codec::DecodeStatus;
using codec::kGroupTiles;

constexpr unsigned kGroupThreads = 32 * kGroupTiles;

struct DecodeArguments {
  FrameView<const std::byte> frame;
  std::byte* output;
  std::uint32_t* status;
  codec::HeaderBytes expected;
};

template <typename Element, bool kAligned, unsigned kGroups, unsigned kMinBlocks>
__global__ __launch_bounds__(kGroups* kGroupThreads, kMinBlocks) void decodeGroupsKernel(
    const __grid_constant__ DecodeArguments a) {
  const unsigned lane = threadIdx.x % 32;
  const unsigned warp = threadIdx.x / 32;
  const unsigned member = warp % kGroupTiles;
  constexpr unsigned kShared = kSharedPerWarp<Element, kAligned>;
  const SharedAddress stage = blockShared<kGroups * kGroupTiles * kShared>() + warp * kShared;
  const FrameView<const std::byte>& f = a.frame;
  const std::uint64_t stride = std::uint64_t{gridDim.x} * kGroups;
  // With one group a block there is a block for each group.
  for (std::uint64_t group = std::uint64_t{blockIdx.x} * kGroups + warp / kGroupTiles;
       group < f.groupCount; group = kGroups == 1 ? f.groupCount : group + stride) {
    if (group * kGroupTiles + member < f.tileCount) {
      std::byte* const output = a.output + (group * kGroupTiles + member) * Element::kTileBytes;
      decodeTile<Element>(f, a.status, group, member, lane,
                          readTile<Element>(f, group, member, lane), stage,
                          [&](const PairWords& words, const PairWords& low) {
                            storeTile<Element, kAligned>(output, stage, lane, words, low);
                          });
      __syncwarp();  // before the stage is used again
    }
  }
  if (blockIdx.x == gridDim.x - 1) {
    using Unit = typename Element::Unit;
    const Unit* from = reinterpret_cast<const Unit*>(f.tail);
    Unit* to = reinterpret_cast<Unit*>(a.output + f.tileCount * Element::kTileBytes);
    for (unsigned i = threadIdx.x; i < f.tailBytes / sizeof(Unit); i += blockDim.x) to[i] = from[i];
    if (threadIdx.x == 0) {
      const DecodeStatus status = headerStatus(f, a.expected);
      if (status != DecodeStatus::kOk) report(a.status, status);
    }
  }
}

/// Up to this many groups more resident blocks are faster, beyond it more registers.
constexpr std::uint64_t kFewGroups = 2048;

template <typename Element, bool kAligned, unsigned kGroups, unsigned kMinBlocks>
cudaError_t launchKernel(const DecodeArguments& a, std::uint64_t blocks, cudaStream_t stream) {
  constexpr unsigned kShared = kGroups * kGroupTiles * kSharedPerWarp<Element, kAligned>;
  const auto kernel = decodeGroupsKernel<Element, kAligned, kGroups, kMinBlocks>;
  constexpr unsigned kDynamic = needsDynamicShared(kShared) ? kShared : 0;
  if constexpr (kDynamic != 0) {
    if (const cudaError_t status = cudaFuncSetAttribute(
            kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(kDynamic));
        status != cudaSuccess) {
      return status;
    }
  }
  kernel<<<static_cast<unsigned>(blocks), kGroups * kGroupThreads, kDynamic, stream>>>(a);
  return cudaGetLastError();
}

template <typename Element, bool kAligned>
cudaError_t launch(const DecodeArguments& a, unsigned maxBlocks, cudaStream_t stream) {
  const std::uint64_t groups = a.frame.groupCount;
  if (maxBlocks != 0 && groups > maxBlocks) {
    constexpr unsigned kGroups = 4;
    const std::uint64_t wanted = (groups + kGroups - 1) / kGroups;
    return launchKernel<Element, kAligned, kGroups, 1>(a, wanted < maxBlocks ? wanted : maxBlocks,
                                                       stream);
  }
  const std::uint64_t blocks = groups == 0 ? 1 : groups;
  if constexpr (kAligned && !Element::kHasLow) {
    if (groups <= kFewGroups) return launchKernel<Element, kAligned, 1, 8>(a, blocks, stream);
  }
  return launchKernel < Element, kAligned, 1, Element::kHasLow ? 4 : 5 > (a, blocks, stream);
}

template <typename Element>
cudaError_t launchForAlignment(const DecodeArguments& a, unsigned maxBlocks, cudaStream_t stream) {
  const bool aligned = reinterpret_cast<std::uintptr_t>(a.output) % 16 == 0;
  return aligned ? launch<Element, true>(a, maxBlocks, stream)
                 : launch<Element, false>(a, maxBlocks, stream);
}

}  // namespace

cudaError_t launchDecode(const DecodeLaunch& launch, cudaStream_t stream) {
  const codec::FrameSpec& spec = launch.spec;
  const codec::FrameLayout layout =
      codec::frameLayout(spec.datatype, spec.layout, spec.elementCount, spec.poolBytes);
  DecodeArguments a{};
  a.frame = makeFrameView<const std::byte>(layout, launch.staticPart, launch.dynamicPart,
                                           launch.dynamicCapacity);
  a.output = launch.output;
  a.status = launch.status;
  a.expected = codec::makeHeader(spec);
  if (spec.datatype == codec::Datatype::kBfloat16) {
    return launchForAlignment<Bfloat16Element>(a, launch.maxBlocks, stream);
  }
  if (spec.layout == codec::Layout::kWide) {
    return launchForAlignment<Float32Element<true>>(a, launch.maxBlocks, stream);
  }
  return launchForAlignment<Float32Element<false>>(a, launch.maxBlocks, stream);
}

}  // namespace zipccl::gpu
