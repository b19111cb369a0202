// SPDX-License-Identifier: Apache-2.0
//
// One warp adds one tile of a frame to sums that stand in its registers. decode_tile.cuh decodes
// for a store; here many frames are decoded for each byte that is written, so that instructions
// are what counts:
//
// - Where the tiles of a group have their escapes is worked out for many frames together, four
//   frames a warp, before the first is added (placeGroup).
// - A frame's record and escapes are copied to shared memory without passing registers, while the
//   frame before it is added: the sums leave few registers to read ahead with.
// - Sign, mantissa and the window base come together as a rotated pair word by one permutation; the
//   code is added where the exponent stands, by a multiplication, so that the pipe of the logical
//   instructions has less to do (joinWords).
// - The exponents of escapes replace the window base in shared memory, and their codes count 0.

#pragma once

#include "codec/tile_bits.hpp"
#include "gpu/decode_tile.cuh"

namespace zipccl::gpu {

// -------------------------------------------------------------------------------------------------
// Where the parts of a group's tiles stand

/// A tile in one frame, in shared memory. In `descriptor` stand, where the format has reserved
/// bits, the place of the first escape in its 16 bytes, and kTornEscapes.
struct TileEntry {
  std::uint32_t descriptor;    ///< kNothing when the frame is bad
  std::uint32_t escapeChunks;  ///< of 16 bytes that hold its escapes; 0 when they are torn
  const std::byte* escapes;    ///< the first of these chunks; when torn, the first escape
  const std::byte* record;
  const std::byte* blocks;  ///< raw rest, then narrow low plane: inExtra()
};
static_assert(sizeof(TileEntry) == 32);

/// The tile's escapes begin in the pool and end in the dynamic part, which stands elsewhere.
inline constexpr std::uint32_t kTornEscapes = 1U << 11;
inline constexpr unsigned kFirstEscapeShift = 12;
static_assert(((kTornEscapes | 15U << kFirstEscapeShift) & ~codec::kDescriptorReservedBits) == 0);

/// Bytes from the end of the frame's pool to its dynamic part.
__device__ __forceinline__ std::int64_t gapBytesOf(const FrameView<const std::byte>& f) {
  return static_cast<std::int64_t>(reinterpret_cast<std::uintptr_t>(f.dynamic) -
                                   (reinterpret_cast<std::uintptr_t>(f.pool) + f.poolBytes));
}

/// Reads what the frame `f` says of `group` and checks it: lane `lane % 8` for the tile of that
/// number. The 8 lanes of a frame stand together; all 32 call it, of absent frames without `f`.
template <typename Element>
__device__ __forceinline__ TileEntry placeTile(const FrameView<const std::byte>& f, bool present,
                                               std::uint32_t* status, std::uint64_t group,
                                               unsigned lane) {
  constexpr codec::ElementFormat element = codec::elementFormat(Element::kDatatype);
  constexpr codec::Layout layout =
      Element::kHasLow && !Element::kNarrowLow ? codec::Layout::kWide : codec::Layout::kNarrow;
  const unsigned member = lane % codec::kGroupTiles;
  const unsigned frameLanes = 0xFFU << (lane - member);
  const std::uint64_t tile = group * codec::kGroupTiles + member;
  std::uint32_t d = kNothing;
  std::uint64_t groupAt = 0;
  std::uint64_t extraLimit = 0;
  if (present) {
    if (tile < f.tileCount) d = __ldg(reinterpret_cast<const std::uint32_t*>(f.descriptors) + tile);
    groupAt = __ldg(reinterpret_cast<const std::uint64_t*>(f.groups) + group);
    // A good frame's is a multiple of 16, by which escapes are read.
    extraLimit = extraLimitOf(f) / 16 * 16;
  }
  // Blocks in the low half, escapes in the high one: neither overflows unless a descriptor is bad.
  const std::uint32_t escapes = codec::escapesOf(d);
  const std::uint32_t own = codec::blockBytesOf(d, element, layout) + (escapes << 16);
  std::uint32_t upTo = own;
#pragma unroll
  for (unsigned delta = 1; delta < codec::kGroupTiles; delta *= 2) {
    const std::uint32_t below = __shfl_up_sync(kFullWarp, upTo, delta, codec::kGroupTiles);
    if (member >= delta) upTo += below;
  }
  const std::uint32_t all =
      __shfl_sync(kFullWarp, upTo, codec::kGroupTiles - 1, codec::kGroupTiles);
  const std::uint32_t blocks = all & 0xFFFFU;
  const bool valid =
      (~__ballot_sync(kFullWarp, codec::isValidDescriptor(d, element)) & frameLanes) == 0;
  const bool inside = isRegionInside(groupAt, blocks + (all >> 16), extraLimit);
  const std::byte* const record = f.tiles + tile * Element::kRecordBytes;
  if (!valid || !inside) {
    if (member == 0) reportPlace(status, valid);
    return {kNothing, 0, nullptr, record, nullptr};
  }
  const std::uint32_t before = upTo - own;
  const std::uint64_t escapesAt = groupAt + (blocks + (before >> 16));
  const bool torn =
      escapesAt < f.poolBytes && f.poolBytes - escapesAt < escapes && gapBytesOf(f) != 0;
  // Regions begin at multiples of 16, and so do the parts of the frame.
  const std::uint32_t first = torn ? 0 : static_cast<std::uint32_t>(escapesAt % 16);
  return {d | first << kFirstEscapeShift | (torn ? kTornEscapes : 0U),
          torn ? 0 : (first + escapes + 15) / 16, f.extra(escapesAt - first), record,
          f.extra(groupAt + (before & 0xFFFFU))};
}

/// `at + offset` in the extra space of `f`, of which `at` is a place.
__device__ __forceinline__ const std::byte* inExtra(const FrameView<const std::byte>& f,
                                                    const std::byte* at, std::uint32_t offset) {
  const std::byte* const poolEnd = f.pool + f.poolBytes;
  const bool crosses = at >= f.pool && at < poolEnd && at + offset >= poolEnd;
  return at + offset + (crosses ? gapBytesOf(f) : 0);
}

// -------------------------------------------------------------------------------------------------
// Shared memory

/// A slot holds what a warp keeps of one frame's tile:
///
///     0               1024                                          kEscapesAt             kBytes
///     | sign-mantissa | code plane, and when that has been used in  | escapes, from their  |
///     | plane         | its place exponent fields, 32 lanes of 48   | first 16 bytes on    |
///
/// The fields of fp16 stand behind the fine plane. Of a lane's 48 bytes 32 are fields; the others
/// keep wide accesses of a quarter of the warp in different banks.
template <typename Element>
struct Slot {
  static constexpr unsigned kLaneFieldBytes = codec::kSlots + 16;
  static constexpr unsigned kFieldsAt =
      Element::kFineBits != 0 ? Element::kUpperRecordBytes : codec::kCodePlaneAt;
  static constexpr unsigned kEscapesAt = kFieldsAt + 32 * kLaneFieldBytes;
  static constexpr unsigned kBytes = kEscapesAt + Element::kMaxEscapes + 16;
  static_assert(kBytes % 16 == 0);
};

/// Starts copying the upper part of a record into a slot; `laneSlot`: slot + 16 * lane.
template <typename Element>
__device__ __forceinline__ void startRecord(SharedAddress laneSlot, const std::byte* record,
                                            unsigned lane) {
  constexpr unsigned kRestBytes = Element::kUpperRecordBytes - codec::kCodePlaneAt;
  const std::byte* const from = record + 16 * lane;
  copyAsync16(laneSlot, from);
  copyAsync16(laneSlot + 512, from + 512);
  if (lane < kRestBytes / 16) copyAsync16(laneSlot + 1024, from + 1024);
  if constexpr (kRestBytes > 512) {
    if (lane + 32 < kRestBytes / 16) copyAsync16(laneSlot + 1536, from + 1536);
  }
}

/// Starts copying a tile's escapes into a slot.
template <typename Element>
__device__ __forceinline__ void startEscapes(SharedAddress laneSlot, const std::byte* escapes,
                                             std::uint32_t chunks, unsigned lane) {
  const SharedAddress to = laneSlot + Slot<Element>::kEscapesAt;
  const std::byte* const from = escapes + 16 * lane;
  if (lane < chunks) copyAsync16(to, from);
  if constexpr (Element::kMaxEscapes + 15 > 512) {
    if (lane + 32 < chunks) copyAsync16(to + 512, from + 512);
  }
}

/// Copies torn escapes, byte by byte.
__device__ __noinline__ inline void copyTorn(const std::byte* from, std::uint32_t inPool,
                                             std::int64_t gapBytes, std::uint32_t count,
                                             unsigned lane, SharedAddress to) {
  for (std::uint32_t i = lane; i < count; i += 32) {
    const std::byte* const at = from + i + (i < inPool ? 0 : gapBytes);
    storeShared1(to + i, __ldg(reinterpret_cast<const unsigned char*>(at)));
  }
}

// -------------------------------------------------------------------------------------------------
// The codes of a lane

/// Factors that the compiler must not know: multiplications by powers of two that it knows it turns
/// into shifts, which wait for the same pipe as all the logical instructions here.
struct OpaqueFactors {
  std::uint32_t powers[11] = {1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024};
  std::uint32_t bytes[4] = {0x01010101U, 0x01010101U, 0x01010101U, 0x01010101U};
};

/// A lane's code words, taken apart.
struct LaneCodes {
  std::uint32_t words[codec::kCodeWords];  ///< those of escapes are 0, but for the 16th pair
  std::uint32_t pair15;  ///< the 16th pair's where exponents stand; escapes' are 0
  std::uint32_t mask;    ///< codec::escapeMask()
};

__device__ __forceinline__ LaneCodes
takeApart(const std::uint32_t (&codeWords)[codec::kCodeWords]) {
  LaneCodes codes;
  std::uint32_t escapes[codec::kCodeWords];
#pragma unroll
  for (unsigned k = 0; k < codec::kCodeWords; ++k) {
    const std::uint32_t p = codeWords[k];
    escapes[k] = p & (p >> 1) & (p >> 2) & codec::kCodeWordLowBits;
    codes.words[k] = p - codec::kEscapeCode * escapes[k];
  }
  const std::uint32_t share =
      codeWords[0] & codeWords[1] & codeWords[2] & codec::kCodeWordShareBits;
  codes.mask = escapes[0] + 2U * (escapes[1] + 2U * escapes[2]) + share;
  codes.pair15 = ((codeWords[0] >> 8) & (codec::kPairOnes << 7)) |
                 ((codeWords[1] >> 7) & (codec::kPairOnes << 8)) |
                 ((codeWords[2] >> 6) & (codec::kPairOnes << 9));
  codes.pair15 -= codec::kEscapeCode * (share >> 8);
  return codes;
}

/// Pair words of a lane, one after the other, from its planes, codes, and the exponent fields from
/// which codes count (four a word, in the order of slots): `emit(w, word)`.
template <typename Element, bool kSixAndZero, typename Emit>
__device__ __forceinline__ void joinWords(const uint4& plane0, const uint4& plane1,
                                          const std::uint32_t (&fineWords)[codec::kCodeWords],
                                          const LaneCodes& codes,
                                          const std::uint32_t (&fields)[codec::kPairWords / 2],
                                          std::uint32_t base, const OpaqueFactors& factors,
                                          Emit&& emit) {
  constexpr unsigned kExponentAt = 15 - Element::kExponentBits;  // in a half
  const std::uint32_t planes[8] = {plane0.x, plane0.y, plane0.z, plane0.w,
                                   plane1.x, plane1.y, plane1.z, plane1.w};
  std::uint32_t zeros[codec::kCodeWords];
  if constexpr (kSixAndZero) {
#pragma unroll
    for (unsigned k = 0; k < codec::kCodeWords; ++k) {
      const std::uint32_t p = codes.words[k];
      zeros[k] = ~p & (p >> 1) & (p >> 2) & codec::kCodeWordLowBits;
    }
  }
#pragma unroll
  for (unsigned w = 0; w < codec::kPairWords; ++w) {
    std::uint32_t word =
        rotateRight1(rotatedHalves<Element>(planes[w / 2], fields[w / 2], fineWords, w));
    const unsigned k = w % codec::kCodeWords;
    // Code j of a word comes to stand where the exponent does.
    const unsigned j = w / codec::kCodeWords;
    const unsigned at = j < 3 ? 3 * j : 3 * j - 5;  // beyond bit 7, moved down by 5 first
    if (w < 15) {
      const std::uint32_t source = j < 3 ? codes.words[k] : codes.words[k] >> 5;
      word += (source & (codec::kPairEscape << at)) * factors.powers[kExponentAt - at];
    } else {
      word += codes.pair15 << (kExponentAt - 7);
    }
    if constexpr (kSixAndZero) {
      // Code 6 stands for exponent 0: takes the base and itself off.
      const std::uint32_t less = base + codec::kZeroCode;
      if (w < 15) {
        const std::uint32_t source = j < 3 ? zeros[k] : zeros[k] >> 5;
        word -= (source & (codec::kPairOnes << at)) * (less << (kExponentAt - at));
      } else {
        const std::uint32_t zero =
            ~(codes.pair15 >> 7) & (codes.pair15 >> 8) & (codes.pair15 >> 9) & codec::kPairOnes;
        word -= zero * (less << kExponentAt);
      }
    }
    emit(w, word);
  }
}

// -------------------------------------------------------------------------------------------------
// Escapes

/// Inclusive sums over the lanes.
__device__ __forceinline__ std::uint32_t laneSums(std::uint32_t value) {
#pragma unroll
  for (unsigned delta = 1; delta < 32; delta *= 2) {
    asm volatile(
        "{ .reg .u32 below; .reg .pred inside;\n"
        "shfl.sync.up.b32 below|inside, %0, %1, 0, 0xffffffff;\n"
        "@inside add.u32 %0, %0, below; }"
        : "+r"(value)
        : "r"(delta));
  }
  return value;
}

/// Puts the lane's escapes, which end before `end`, into its fields.
__device__ __forceinline__ void placeEscapes(std::uint32_t mask, SharedAddress laneFields,
                                             SharedAddress end) {
  // The last escape comes first: the highest set bit is one instruction away, the lowest three.
  const auto placeLast = [&](unsigned fromEnd) {
    const std::uint32_t bit = 31U - static_cast<std::uint32_t>(__clz(static_cast<int>(mask)));
    // Bit 16h + w is slot 2w + h.
    if (mask != 0) storeShared1(laneFields + 2 * bit - 31 * (bit >> 4), loadShared1(end - fromEnd));
    mask &= ~(1U << bit);
  };
  // A lane has one on average, and the lane that has the most rarely more than four.
#pragma unroll
  for (unsigned i = 1; i <= 4; ++i) placeLast(i);
#pragma unroll 1
  for (unsigned i = 5; mask != 0; ++i) placeLast(i);
}

/// The exponent fields of a lane: the window base, but the escapes' own.
__device__ __forceinline__ void escapedFields(std::uint32_t base, std::uint32_t mask,
                                              SharedAddress laneFields, SharedAddress escapesEnd,
                                              const OpaqueFactors& factors,
                                              std::uint32_t (&fields)[codec::kPairWords / 2]) {
  const uint4 bases = make_uint4(base * factors.bytes[0], base * factors.bytes[1],
                                 base * factors.bytes[2], base * factors.bytes[3]);
  storeShared16(laneFields, bases);
  storeShared16(laneFields + 16, bases);
  placeEscapes(mask, laneFields, escapesEnd);
  const uint4 v0 = loadShared16(laneFields);
  const uint4 v1 = loadShared16(laneFields + 16);
  fields[0] = v0.x, fields[1] = v0.y, fields[2] = v0.z, fields[3] = v0.w;
  fields[4] = v1.x, fields[5] = v1.y, fields[6] = v1.z, fields[7] = v1.w;
}

}  // namespace zipccl::gpu
