// SPDX-License-Identifier: Apache-2.0
//
// Encoding on the GPU (docs/format.md). A group of eight tiles belongs to eight warps, a warp a
// tile.
//
// Bytes moved per bf16 value: 2 read, 1.375 written to the records, about 0.03 to extra space,
// 0.005 of descriptors. A tile is copied to shared memory, so that an escape's element can be
// addressed by its number. The group's place in extra space comes from one atomic add on the
// frame's counter once all eight warps know how many escapes they have. Nothing is read ahead: the
// grid has a block for each group, so that blocks start in the order of their addresses and other
// blocks of the multiprocessor work while one waits, which serves the memory better than a
// persistent grid does (docs/performance.md).
//
// A caller that limits the blocks gets larger ones, of four groups, that loop over the frame.

#include "codec/header_check.hpp"
#include "gpu/encode_tile.cuh"
#include "gpu/frame_device.cuh"
#include "gpu/launch.hpp"
#include "zipccl/gpu_codec.hpp"

namespace zipccl::gpu {
namespace {

using codec::escapesOf;
using codec::kGroupTiles;
using codec::kindOf;
using codec::TileKind;

constexpr unsigned kGroupThreads = 32 * kGroupTiles;

/// The workspace: extra space taken so far, in units of 16 bytes, and above it how many groups
/// took.
struct EncodeState {
  unsigned long long unitsAndGroups;
  unsigned long long unused;
};
static_assert(sizeof(EncodeState) == kEncodeWorkspaceBytes);
constexpr unsigned kGroupsShift = 36;
constexpr std::uint64_t kUnitsMask = (std::uint64_t{1} << kGroupsShift) - 1;
static_assert((kGpuMaxElementCount >> (codec::kTileLog2 + codec::kGroupLog2)) <
              (std::uint64_t{1} << (64 - kGroupsShift)));
static_assert((kGpuMaxElementCount >> codec::kTileLog2) *
                  (codec::elementFormat(codec::Datatype::kFloat32).rawRestBytes() +
                   codec::kLowPlaneBytes) /
                  16 <
              kUnitsMask);

struct EncodeArguments {
  const std::byte* source;
  FrameView<std::byte> frame;
  EncodeState* state;
  std::uint64_t staticBytes;
  std::uint64_t* frameBytes;
  codec::HeaderBytes header;
};

/// Writes the header once extra space is known, and leaves the state ready for the next launch.
__device__ void finishFrame(const EncodeArguments& a, std::uint64_t extraBytes) {
  codec::HeaderBytes header = a.header;
  header.extraBytes = extraBytes;
  *reinterpret_cast<codec::HeaderBytes*>(a.frame.header) = header;
  if (a.frameBytes != nullptr) {
    *a.frameBytes =
        a.staticBytes + (extraBytes > header.poolBytes ? extraBytes - header.poolBytes : 0);
  }
  a.state->unitsAndGroups = 0;
}

template <typename Element>
__device__ void encodeTail(const EncodeArguments& a) {
  using Unit = typename Element::Unit;
  const FrameView<std::byte>& f = a.frame;
  const Unit* from = reinterpret_cast<const Unit*>(a.source + f.tileCount * Element::kTileBytes);
  Unit* to = reinterpret_cast<Unit*>(f.tail);
  for (unsigned i = threadIdx.x; i < f.tailBytes / sizeof(Unit); i += blockDim.x) to[i] = from[i];
}

/// A group's region: blocks of tiles in `blocks` order, then escapes (docs/format.md section 7).
template <typename Element>
struct GroupNeeds {
  unsigned rawTiles;  ///< a bit a tile
  unsigned lowTiles;  ///< a bit a tile whose low plane goes to extra space

  __device__ std::uint32_t blockBytesBefore(unsigned tile) const {
    const unsigned below = (1U << tile) - 1U;
    return __popc(rawTiles & below) * Element::kRawRestBytes +
           __popc(lowTiles & below) * codec::kLowPlaneBytes;
  }
  __device__ std::uint32_t blockBytes() const { return blockBytesBefore(kGroupTiles); }
};

template <typename Element, bool kAligned, unsigned kGroups, unsigned kMinBlocks>
__global__ __launch_bounds__(kGroups* kGroupThreads, kMinBlocks) void encodeGroupsKernel(
    const __grid_constant__ EncodeArguments a) {
  __shared__ std::uint32_t descriptors[kGroups][kGroupTiles];
  __shared__ std::uint64_t regionAt[kGroups];

  const unsigned lane = threadIdx.x % 32;
  const unsigned warp = threadIdx.x / 32;
  const unsigned member = warp % kGroupTiles;  // of the group
  const unsigned part = warp / kGroupTiles;    // of the block
  const std::uint32_t lanesBelow = (1U << lane) - 1U;
  const SharedAddress tileAt =
      blockShared<kGroups * kGroupTiles * Element::kTileBytes>() + warp * Element::kTileBytes;
  const SharedAddress laneSource = tileAt + 16 * lane;
  const FrameView<std::byte>& f = a.frame;
  // The frame is contiguous: its dynamic part follows the pool.
  const auto extra = [&](std::uint64_t offset) { return f.pool + offset; };
  const auto groupBarrier = [&] {
    if constexpr (kGroups == 1) {
      __syncthreads();
    } else {
      barrier<kGroupThreads>(1 + part);
    }
  };

  // With one group a block there is a block for each group.
  const std::uint64_t stride = std::uint64_t{gridDim.x} * kGroups;
  for (std::uint64_t group = std::uint64_t{blockIdx.x} * kGroups + part; group < f.groupCount;
       group = kGroups == 1 ? f.groupCount : group + stride) {
    const std::uint64_t tile = group * kGroupTiles + member;
    const bool present = tile < f.tileCount;
    EncodedTile t{};
    if (present) {
      startTileCopy<Element, kAligned>(tileAt, a.source + tile * Element::kTileBytes, lane);
      finishTileCopy<kAligned>();
      t = encodeTile<Element>(laneSource, lane, lanesBelow, f.tiles + tile * Element::kRecordBytes);
    }
    if (lane == 0) descriptors[part][member] = t.descriptor;
    groupBarrier();

    const std::uint32_t d = lane < kGroupTiles ? descriptors[part][lane] : 0U;
    GroupNeeds<Element> needs;
    needs.rawTiles = __ballot_sync(kFullWarp, kindOf(d) == TileKind::kRaw);
    needs.lowTiles = Element::kNarrowLow ? __ballot_sync(kFullWarp, codec::hasLow(d)) : 0U;
    const std::uint32_t escapesBefore =
        __reduce_add_sync(kFullWarp, lane < member ? escapesOf(d) : 0U);
    if (member == 0) {
      const std::uint32_t escapes = __reduce_add_sync(kFullWarp, escapesOf(d));
      const std::uint32_t units = needs.blockBytes() / 16 + (escapes + 15U) / 16U;
      if (lane < kGroupTiles && tile + lane < f.tileCount) {
        reinterpret_cast<std::uint32_t*>(f.descriptors)[tile + lane] = d;
      }
      if (lane == 0) {
        const std::uint64_t before =
            atomicAdd(&a.state->unitsAndGroups, (std::uint64_t{1} << kGroupsShift) + units);
        const std::uint64_t at = (before & kUnitsMask) * 16;
        regionAt[part] = at;
        reinterpret_cast<std::uint64_t*>(f.groups)[group] = units != 0 ? at : 0;
        if ((before >> kGroupsShift) + 1 == f.groupCount) finishFrame(a, at + units * 16);
      }
    }
    groupBarrier();

    const std::uint64_t region = regionAt[part];
    std::uint64_t block = region + needs.blockBytesBefore(member);
    if (present && kindOf(t.descriptor) == TileKind::kRaw) {
      PairWords words;
      Element::loadPairWords(laneSource, words);
#pragma unroll
      for (unsigned k = 0; k < codec::kPairWords - Element::kRawRecordWords; ++k) {
        *reinterpret_cast<std::uint32_t*>(extra(block + 128 * k + 4 * lane)) =
            words[Element::kRawRecordWords + k];
      }
      block += Element::kRawRestBytes;
    }
    if constexpr (Element::kNarrowLow) {
      if (codec::hasLow(t.descriptor)) {
        PairWords low;
        Element::loadLowWords(laneSource, low);
#pragma unroll
        for (unsigned k = 0; k < 4; ++k) {
          __stcs(reinterpret_cast<uint4*>(extra(block + 512 * k + 16 * lane)),
                 lowPlaneBytes(low, k));
        }
      }
    }
    // The last escape comes first: the highest set bit is one instruction away, the lowest three.
    std::uint64_t to = region + needs.blockBytes() + escapesBefore + t.escapePrefix +
                       static_cast<unsigned>(__popc(t.escapeMask));
    for (std::uint32_t mask = t.escapeMask; mask != 0;) {
      const std::uint32_t bit = 31U - static_cast<std::uint32_t>(__clz(static_cast<int>(mask)));
      mask ^= 1U << bit;
      --to;
      *extra(to) =
          static_cast<std::byte>(loadShared2(laneSource + Element::upperHalfOfMaskBit(bit)) >> 7);
    }
    // The next round writes descriptors and place again.
    if constexpr (kGroups != 1) groupBarrier();
  }

  if (blockIdx.x == gridDim.x - 1) encodeTail<Element>(a);
  if (f.groupCount == 0 && threadIdx.x == 0) finishFrame(a, 0);
}

template <typename Element, bool kAligned, unsigned kGroups, unsigned kMinBlocks>
cudaError_t launchKernel(const EncodeArguments& a, std::uint64_t blocks, cudaStream_t stream) {
  constexpr unsigned kShared = kGroups * kGroupTiles * Element::kTileBytes;
  constexpr unsigned kDynamic = needsDynamicShared(kShared) ? kShared : 0;
  const auto kernel = encodeGroupsKernel<Element, kAligned, kGroups, kMinBlocks>;
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
cudaError_t launch(const EncodeArguments& a, unsigned maxBlocks, cudaStream_t stream) {
  const std::uint64_t groups = a.frame.groupCount;
  if (maxBlocks != 0 && groups > maxBlocks) {
    constexpr unsigned kGroups = 4;
    const std::uint64_t wanted = (groups + kGroups - 1) / kGroups;
    return launchKernel<Element, kAligned, kGroups, 1>(a, wanted < maxBlocks ? wanted : maxBlocks,
                                                       stream);
  }
  return launchKernel<Element, kAligned, 1, 5>(a, groups == 0 ? 1 : groups, stream);
}

template <typename Element>
cudaError_t launchForAlignment(const EncodeArguments& a, unsigned maxBlocks, cudaStream_t stream) {
  const bool aligned = reinterpret_cast<std::uintptr_t>(a.source) % 16 == 0;
  return aligned ? launch<Element, true>(a, maxBlocks, stream)
                 : launch<Element, false>(a, maxBlocks, stream);
}

}  // namespace

cudaError_t launchEncode(const EncodeLaunch& launch, cudaStream_t stream) {
  const codec::FrameSpec& spec = launch.spec;
  const codec::FrameLayout layout =
      codec::frameLayout(spec.datatype, spec.layout, spec.elementCount, spec.poolBytes);
  EncodeArguments a{};
  a.source = launch.source;
  a.frame = makeFrameView<std::byte>(layout, launch.frame, launch.frame + layout.staticBytes,
                                     launch.frameCapacity - layout.staticBytes);
  a.state = static_cast<EncodeState*>(launch.workspace);
  a.staticBytes = layout.staticBytes;
  a.frameBytes = launch.frameBytes;
  a.header = codec::makeHeader(spec);
  if (spec.datatype == codec::Datatype::kBfloat16) {
    return launchForAlignment<Bfloat16Element>(a, launch.maxBlocks, stream);
  }
  if (spec.layout == codec::Layout::kWide) {
    return launchForAlignment<Float32Element<true>>(a, launch.maxBlocks, stream);
  }
  return launchForAlignment<Float32Element<false>>(a, launch.maxBlocks, stream);
}

}  // namespace zipccl::gpu
