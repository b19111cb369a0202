// SPDX-License-Identifier: Apache-2.0
//
// Decode-reduce on the GPU: several frames of one spec in, their sum out. A warp takes a tile of
// all frames, one after the other, and keeps the sums of its lanes' 32 values in registers. A block
// is half a group; all that its warps share is a table that says where tiles stand in the frames.
//
// The arithmetic: each addend is multiplied by the factor and rounded to the datatype, unless the
// factor is 1; addends are added in fp32 in the order of the frames, beginning with the first (so
// -0 alone stays -0); the sum is rounded once to the datatype. NaNs come out canonical: 0x7FFF in
// bf16 and fp16, 0x7FFFFFFF in fp32. Each step is an IEEE operation, so the bits are the same on
// every device.
//
// Bytes moved per bf16 value of n frames: 1.41 n read, 2 written. The next frame's tile is copied
// to shared memory while one is added. What limits it are instructions (docs/performance.md).

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "gpu/decode_tile.cuh"
#include "gpu/launch.hpp"
#include "gpu/reduce_tile.cuh"

namespace zipccl::gpu {
namespace {

using codec::kGroupTiles;

struct ReduceArguments {
  FrameView<const std::byte> offsets;  ///< of sections, from a static part at address 0
  std::byte* output;
  std::uint32_t* status;
  float factor;
  unsigned frameCount;
  OpaqueFactors factors;
  FrameParts frames[kMaxReduceFrames];
};
static_assert(sizeof(ReduceArguments) <= 32764, "what a kernel may take by value");

__device__ __forceinline__ FrameView<const std::byte> viewOf(const ReduceArguments& a, unsigned i) {
  const FrameParts& parts = a.frames[i];
  FrameView<const std::byte> f = a.offsets;
  const auto base = reinterpret_cast<std::uintptr_t>(parts.staticPart);
  const auto move = [&](const std::byte*& p) {
    p = reinterpret_cast<const std::byte*>(reinterpret_cast<std::uintptr_t>(p) + base);
  };
  move(f.header);
  move(f.descriptors);
  move(f.groups);
  move(f.tiles);
  move(f.tail);
  move(f.pool);
  f.dynamic = parts.dynamicPart;
  f.poolBytes = parts.poolBytes;
  f.extraLimit = f.poolBytes + parts.dynamicCapacity;
  return f;
}

/// fp32 values of a pair word and its low halves.
template <typename Element>
__device__ __forceinline__ float2 valuesOf(std::uint32_t words, std::uint32_t low) {
  if constexpr (Element::kHasLow) {
    return {__uint_as_float(__byte_perm(low, words, 0x5410)),
            __uint_as_float(__byte_perm(low, words, 0x7632))};
  } else if constexpr (Element::kExponentBits == 8) {
    return {__uint_as_float(words << 16), __uint_as_float(words & 0xFFFF0000U)};
  } else {
    const __half2_raw raw{static_cast<unsigned short>(words & 0xFFFFU),
                          static_cast<unsigned short>(words >> 16)};
    return __half22float2(__half2(raw));
  }
}

/// Both values rounded to the 16-bit datatype, as a pair word; NaNs come out as 0x7FFF.
template <typename Element>
__device__ __forceinline__ std::uint32_t roundedPair(float2 values) {
  if constexpr (Element::kExponentBits == 8) {
    const __nv_bfloat162 pair = __floats2bfloat162_rn(values.x, values.y);
    return static_cast<std::uint32_t>(__bfloat16_as_ushort(pair.x)) |
           static_cast<std::uint32_t>(__bfloat16_as_ushort(pair.y)) << 16;
  } else {
    const __half2 pair = __floats2half2_rn(values.x, values.y);
    return static_cast<std::uint32_t>(__half_as_ushort(pair.x)) |
           static_cast<std::uint32_t>(__half_as_ushort(pair.y)) << 16;
  }
}

template <typename Element>
__device__ __forceinline__ float2 scaled(float2 values, float factor) {
  values.x = __fmul_rn(values.x, factor);
  values.y = __fmul_rn(values.y, factor);
  if constexpr (Element::kHasLow) return values;
  return valuesOf<Element>(roundedPair<Element>(values), 0);
}

__device__ __forceinline__ std::uint32_t canonical(float value) {
  return isnan(value) ? 0x7FFFFFFFU : __float_as_uint(value);
}

/// Of a group's tiles a block takes so many, a warp each: small blocks leave less undone at the end
/// of a launch.
constexpr unsigned kWarps = 4;
constexpr unsigned kParts = kGroupTiles / kWarps;
/// Frames of which a block knows the places at once.
constexpr unsigned kTableFrames = 16;
/// Blocks that fit a multiprocessor, by their registers: more hide more of the latencies, until
/// values have to leave the registers.
template <typename Element>
constexpr unsigned kMinBlocks = Element::kHasLow ? 5 : 7;

/// Hides from the compiler how a value came about.
template <typename T>
__device__ __forceinline__ T hidden(T value) {
  asm volatile("" : "+r"(value));
  return value;
}

/// Adds a tile's pair words to its sums, as they come.
template <typename Element, bool kScale>
struct Adder {
  float2 (&sums)[codec::kPairWords];
  const PairWords& low;
  float factor;

  __device__ __forceinline__ void operator()(unsigned w, std::uint32_t word) const {
    float2 v = valuesOf<Element>(word, low[w]);
    if constexpr (kScale) v = scaled<Element>(v, factor);
    sums[w].x = __fadd_rn(sums[w].x, v.x);
    sums[w].y = __fadd_rn(sums[w].y, v.y);
  }
};

/// A tile that is being added: its frame, and where it stands in shared memory.
struct TileAtHand {
  unsigned lane;
  std::uint32_t descriptor;  ///< of its TileEntry
  SharedAddress entryAt;
  SharedAddress slot;

  [[nodiscard]] __device__ __forceinline__ codec::TileKind kind() const {
    return codec::kindOf(descriptor);
  }
  [[nodiscard]] __device__ __forceinline__ const std::byte* pointer(unsigned offset) const {
    return loadSharedPointer(entryAt + offset);
  }
  [[nodiscard]] __device__ __forceinline__ uint4 plane(unsigned k) const {
    return loadShared16(slot + 512 * k + 16 * lane);
  }
};

/// The low halves of a tile that has some.
template <typename Element>
__device__ __forceinline__ void readLow(const FrameView<const std::byte>& f, const TileAtHand& tile,
                                        PairWords& low) {
  const std::byte* const from =
      tile.pointer(Element::kNarrowLow ? offsetof(TileEntry, blocks) : offsetof(TileEntry, record));
  const std::uint32_t rest = tile.kind() == codec::TileKind::kRaw ? Element::kRawRestBytes : 0U;
  const std::uint32_t at = (Element::kNarrowLow ? rest : Element::kLowPlaneAt) + 16 * tile.lane;
#pragma unroll
  for (unsigned k = 0; k < 4; ++k) {
    const std::uint32_t offset = at + 512 * k;
    const uint4 v = __ldcs(reinterpret_cast<const uint4*>(
        Element::kNarrowLow ? inExtra(f, from, offset) : from + offset));
    low[4 * k] = v.x;
    low[4 * k + 1] = v.y;
    low[4 * k + 2] = v.z;
    low[4 * k + 3] = v.w;
  }
}

/// The lane's share of a record that has come.
template <typename Element>
__device__ __forceinline__ RecordReads loadRecord(const TileAtHand& tile) {
  RecordReads reads;
#pragma unroll
  for (unsigned k = 0; k < codec::kCodeWords; ++k) {
    reads.codeWords[k] = loadShared4(tile.slot + codec::codeWordAt(tile.lane, k));
    if constexpr (Element::kFineBits != 0) {
      reads.fineWords[k] =
          loadShared4(tile.slot + codec::threeBitWordAt(codec::kFinePlaneAt, tile.lane, k));
    }
  }
  return reads;
}

/// Adds a tile with codes; without effect but a report when its escapes are not as many as its
/// descriptor says. All lanes call it.
template <typename Element, typename Add>
__device__ __forceinline__ void addCoded(const TileAtHand& tile, const RecordReads& reads,
                                         const OpaqueFactors& factors, std::uint32_t* status,
                                         const Add& add) {
  const LaneCodes codes = takeApart(reads.codeWords);
  const std::uint32_t upTo = laneSums(__popc(codes.mask));
  if (__shfl_sync(kFullWarp, upTo, 31) != codec::escapesOf(tile.descriptor)) {
    if (tile.lane == 0) report(status, codec::DecodeStatus::kBadEscapeCount);
    return;
  }
  __syncwarp();  // all lanes have read their codes, so that fields may take their place
  const std::uint32_t base = codec::windowBaseOf(tile.descriptor);
  const SharedAddress escapesEnd =
      tile.slot + Slot<Element>::kEscapesAt + (tile.descriptor >> kFirstEscapeShift & 15U) + upTo;
  std::uint32_t fields[codec::kPairWords / 2];
  escapedFields(base, codes.mask,
                tile.slot + Slot<Element>::kFieldsAt + Slot<Element>::kLaneFieldBytes * tile.lane,
                escapesEnd, factors, fields);
  const uint4 plane0 = tile.plane(0);
  const uint4 plane1 = tile.plane(1);
  if (tile.kind() == codec::TileKind::kSeven) {
    joinWords<Element, false>(plane0, plane1, reads.fineWords, codes, fields, base, factors, add);
  } else {
    joinWords<Element, true>(plane0, plane1, reads.fineWords, codes, fields, base, factors, add);
  }
}

/// Adds a tile whose record and escapes have come. `view()`: its frame, for what is rare.
template <typename Element, bool kScale, typename View>
__device__ __forceinline__ void addTile(const ReduceArguments& a, const TileAtHand& tile,
                                        const View& view, float2 (&sums)[codec::kPairWords]) {
  PairWords low = {};
  if constexpr (Element::kHasLow) {
    if (codec::hasLow(tile.descriptor)) readLow<Element>(view(), tile, low);
  }
  const Adder<Element, kScale> add{sums, low, a.factor};
  RecordReads reads = loadRecord<Element>(tile);
  if (tile.kind() == codec::TileKind::kSeven || tile.kind() == codec::TileKind::kSixAndZero) {
    addCoded<Element>(tile, reads, a.factors, a.status, add);
    return;
  }
  // Zeros are added too: they make +0 of -0.
  PairWords words = {};
  if (tile.kind() == codec::TileKind::kRaw) {
    reads.plane0 = tile.plane(0);
    reads.plane1 = tile.plane(1);
    rawRecordWords<Element>(reads, words);
    const FrameView<const std::byte> f = view();
    const std::byte* const rest = tile.pointer(offsetof(TileEntry, blocks));
#pragma unroll
    for (unsigned k = 0; k < codec::kPairWords - Element::kRawRecordWords; ++k) {
      words[Element::kRawRecordWords + k] =
          __ldg(reinterpret_cast<const std::uint32_t*>(inExtra(f, rest, 128 * k + 4 * tile.lane)));
    }
  }
#pragma unroll
  for (unsigned w = 0; w < codec::kPairWords; ++w) add(w, words[w]);
}

template <typename Element, bool kAligned>
__device__ __forceinline__ void storeSums(std::byte* to, SharedAddress stage, unsigned lane,
                                          const float2 (&sums)[codec::kPairWords]) {
  PairWords words;
  PairWords low;
#pragma unroll
  for (unsigned w = 0; w < codec::kPairWords; ++w) {
    if constexpr (Element::kHasLow) {
      const std::uint32_t x = canonical(sums[w].x);
      const std::uint32_t y = canonical(sums[w].y);
      words[w] = __byte_perm(x, y, 0x7632);
      low[w] = __byte_perm(x, y, 0x5410);
    } else {
      words[w] = roundedPair<Element>(sums[w]);
      low[w] = 0;
    }
  }
  storeTile<Element, kAligned>(to, stage, lane, words, low);
}

/// The warp's tile in `count` frames, of which the block's table tells; the first one's record is
/// on its way into `slot`.
template <typename Element, bool kScale>
__device__ __forceinline__ void addFrames(const ReduceArguments& a, unsigned first, unsigned count,
                                          SharedAddress entryAt, unsigned rowBytes,
                                          SharedAddress slot, unsigned lane,
                                          float2 (&sums)[codec::kPairWords]) {
  SharedAddress laneSlot = slot + 16 * lane;
  const SharedAddress slotSum = 2 * laneSlot + Slot<Element>::kBytes;  // of the two that take turns
  std::uint32_t nextDescriptor;
  const auto startNextEscapes = [&](SharedAddress laneSlotOf, SharedAddress at) {
    const uint4 v = loadShared16(at);
    nextDescriptor = v.x;
    startEscapes<Element>(
        laneSlotOf, reinterpret_cast<const std::byte*>(v.z | std::uint64_t{v.w} << 32), v.y, lane);
    commitCopies();
  };
  startNextEscapes(laneSlot, entryAt);
  unsigned frame = first;
  unsigned left = count;
#pragma unroll 1
  while (true) {
    const TileAtHand tile{lane, nextDescriptor, entryAt, laneSlot - 16 * lane};
    left = hidden(left - 1);
    if (left != 0) {
      const SharedAddress other = slotSum - laneSlot;
      const SharedAddress next = entryAt + rowBytes;
      startRecord<Element>(other, loadSharedPointer(next + offsetof(TileEntry, record)), lane);
      startNextEscapes(other, next);
      waitCopies<1>();
    } else {
      waitCopies<0>();
    }
    // Hidden, since what few tiles need would be prepared for all.
    const auto view = [&] { return viewOf(a, hidden(frame)); };
    if ((tile.descriptor & kTornEscapes) != 0) {
      const FrameView<const std::byte> f = view();
      const std::byte* const from = tile.pointer(offsetof(TileEntry, escapes));
      copyTorn(from, static_cast<std::uint32_t>(f.pool + f.poolBytes - from), gapBytesOf(f),
               codec::escapesOf(tile.descriptor), lane, tile.slot + Slot<Element>::kEscapesAt);
    }
    __syncwarp();
    addTile<Element, kScale>(a, tile, view, sums);
    if (left == 0) return;
    ++frame;
    laneSlot = slotSum - laneSlot;
    entryAt += rowBytes;
    __syncwarp();  // before the slot is written again
  }
}

template <typename Element, bool kScale, bool kAligned>
__global__ __launch_bounds__(32 * kWarps, kMinBlocks<Element>) void decodeReduceKernel(
    const __grid_constant__ ReduceArguments a) {
  static_assert(2 * Slot<Element>::kBytes >= Element::kTileBytes);
  const unsigned lane = threadIdx.x;
  const unsigned warp = threadIdx.y;
  __shared__ TileEntry table[kTableFrames][kWarps];
  const SharedAddress slot =
      blockShared<kWarps * 2 * Slot<Element>::kBytes>() + warp * 2 * Slot<Element>::kBytes;
  const std::uint64_t stride = gridDim.x;
  for (std::uint64_t part = blockIdx.x; part < a.offsets.groupCount * kParts; part += stride) {
    const std::uint64_t tile = part * kWarps + warp;
    const bool present = tile < a.offsets.tileCount;
    float2 sums[codec::kPairWords];
#pragma unroll
    for (unsigned w = 0; w < codec::kPairWords; ++w) sums[w] = {-0.0F, -0.0F};  // adds nothing
    for (unsigned first = 0; first < a.frameCount; first += kTableFrames) {
      const unsigned count = min(kTableFrames, a.frameCount - first);
      if (first != 0 || part != blockIdx.x) __syncthreads();  // the table is used up
      if (present) {
        startRecord<Element>(slot + 16 * lane,
                             viewOf(a, first).tiles + tile * Element::kRecordBytes, lane);
      }
      constexpr unsigned kFramesPerWarp = 32 / kGroupTiles;
      for (unsigned some = kFramesPerWarp * warp; some < count; some += kFramesPerWarp * kWarps) {
        const unsigned i = some + lane / kGroupTiles;
        const bool listed = i < count;
        const TileEntry entry = placeTile<Element>(viewOf(a, listed ? first + i : 0), listed,
                                                   a.status, part / kParts, lane);
        const unsigned member = lane % kGroupTiles;
        if (member / kWarps == part % kParts) table[i][member % kWarps] = entry;
      }
      __syncthreads();
      if (present) {
        addFrames<Element, kScale>(a, first, count, sharedAddress(&table[0][warp]),
                                   sizeof(table[0]), slot, lane, sums);
      }
    }
    if (present) {
      storeSums<Element, kAligned>(a.output + tile * Element::kTileBytes, slot, lane, sums);
    }
  }

  // The tail, an element a thread, and the headers.
  if (blockIdx.x == gridDim.x - 1) {
    const unsigned thread = 32 * warp + lane;
    using Unit = typename Element::Unit;
    const std::uint64_t elements = a.offsets.tailBytes / sizeof(Unit);
    Unit* const to = reinterpret_cast<Unit*>(a.output + a.offsets.tileCount * Element::kTileBytes);
    for (unsigned e = thread; e < elements; e += 32 * kWarps) {
      float2 sum = {-0.0F, 0.0F};
      for (unsigned i = 0; i < a.frameCount; ++i) {
        const std::uint32_t bits = reinterpret_cast<const Unit*>(viewOf(a, i).tail)[e];
        float2 v = Element::kHasLow ? valuesOf<Element>(bits >> 16, bits & 0xFFFFU)
                                    : valuesOf<Element>(bits, 0);
        if constexpr (kScale) v = scaled<Element>(v, a.factor);
        sum.x = __fadd_rn(sum.x, v.x);
      }
      if constexpr (Element::kHasLow) {
        to[e] = canonical(sum.x);
      } else {
        to[e] = static_cast<Unit>(roundedPair<Element>(sum) & 0xFFFFU);
      }
    }
    for (unsigned i = thread; i < a.frameCount; i += 32 * kWarps) {
      const codec::DecodeStatus status = headerStatus<Element>(viewOf(a, i));
      if (status != codec::DecodeStatus::kOk) report(a.status, status);
    }
  }
}

template <typename Element, bool kScale>
cudaError_t launch(const ReduceArguments& a, unsigned maxBlocks, cudaStream_t stream) {
  const dim3 threads(32, kWarps);
  const std::uint64_t parts = a.offsets.groupCount == 0 ? 1 : a.offsets.groupCount * kParts;
  const auto grid = static_cast<unsigned>(maxBlocks != 0 && parts > maxBlocks ? maxBlocks : parts);
  if (reinterpret_cast<std::uintptr_t>(a.output) % 16 == 0) {
    decodeReduceKernel<Element, kScale, true><<<grid, threads, 0, stream>>>(a);
  } else {
    decodeReduceKernel<Element, kScale, false><<<grid, threads, 0, stream>>>(a);
  }
  return cudaGetLastError();
}

template <typename Element>
cudaError_t launchForFactor(const ReduceArguments& a, unsigned maxBlocks, cudaStream_t stream) {
  return a.factor == 1.0F ? launch<Element, false>(a, maxBlocks, stream)
                          : launch<Element, true>(a, maxBlocks, stream);
}

}  // namespace

cudaError_t launchDecodeReduce(const DecodeReduceLaunch& launch, cudaStream_t stream) {
  const codec::FrameSpec& spec = launch.spec;
  const codec::FrameLayout layout =
      codec::frameLayout(spec.datatype, spec.layout, spec.elementCount, spec.poolBytes);
  ReduceArguments a{};
  a.offsets = makeFrameView<const std::byte>(layout, nullptr, nullptr, 0);
  a.output = launch.output;
  a.status = launch.status;
  a.factor = launch.factor;
  a.frameCount = launch.frameCount;
  for (unsigned i = 0; i < launch.frameCount; ++i) {
    a.frames[i] = launch.frames[i];
    if (a.frames[i].poolBytes == kPoolOfSpec) a.frames[i].poolBytes = spec.poolBytes;
  }
  return forElement(spec.datatype, spec.layout, [&]<typename Element>(Element) {
    return launchForFactor<Element>(a, launch.maxBlocks, stream);
  });
}

}  // namespace zipccl::gpu
