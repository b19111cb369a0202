// SPDX-License-Identifier: Apache-2.0
//
// Where every byte of a frame stands: the constants and offset arithmetic of docs/format.md,
// sections 2 to 7, shared by the host codecs and the GPU kernels. No other file computes an offset.

#pragma once

#include <cstddef>
#include <cstdint>

#include "base/host_device.hpp"
#include "zipccl/codec.hpp"

namespace zipccl::codec {

inline constexpr std::uint32_t kTileLog2 = 10;
inline constexpr std::uint32_t kTileElements = 1U << kTileLog2;
inline constexpr std::uint32_t kGroupLog2 = 3;
inline constexpr std::uint32_t kGroupTiles = 1U << kGroupLog2;
inline constexpr std::uint32_t kLanes = 32;
inline constexpr std::uint32_t kSlots = 32;
inline constexpr std::uint32_t kPairWords = 16;
inline constexpr std::uint32_t kCodeWords = 3;

inline constexpr std::uint64_t kMaxElementCount = 1ULL << 40;
inline constexpr std::uint64_t kHeaderBytes = 128;
inline constexpr std::uint64_t kSectionAlignment = 128;
inline constexpr std::uint64_t kExtraAlignment = 16;

inline constexpr std::uint64_t kDefaultPoolBytesPerTile = 36;

// Tile record: sign-mantissa plane, code plane, fine plane (fp16), low plane (fp32, wide layout).
inline constexpr std::uint32_t kSignMantissaBytes = kTileElements;
inline constexpr std::uint32_t kCodePlaneAt = kSignMantissaBytes;
inline constexpr std::uint32_t kCodePlaneBytes = kTileElements * 3 / 8;
inline constexpr std::uint32_t kFinePlaneAt = kCodePlaneAt + kCodePlaneBytes;
inline constexpr std::uint32_t kFinePlaneBytes = kCodePlaneBytes;
inline constexpr std::uint32_t kLowPlaneBytes = kTileElements * 2;
inline constexpr std::uint32_t kUpperBytes = kTileElements * 2;  ///< all upper halves of a tile

/// What the format fixes for a datatype (docs/format.md sections 1, 2, 5 and 6): the one place that
/// tells the datatypes apart, apart from the order of slots. Plain numbers, so that kernels and
/// vector code can take them as constants.
struct ElementFormat {
  std::uint32_t elementBytes;
  std::uint32_t exponentBits;  ///< of an exponent field: 8 or 5
  bool hasLowHalves;           ///< whether an element is more than its upper half

  /// Bits of a rotated upper half below the byte of the sign-mantissa plane: 0 or 3.
  [[nodiscard]] ZIPCCL_HOST_DEVICE constexpr std::uint32_t fineBits() const {
    return 8 - exponentBits;
  }
  /// The record without its low plane.
  [[nodiscard]] ZIPCCL_HOST_DEVICE constexpr std::uint32_t upperRecordBytes() const {
    return kSignMantissaBytes + kCodePlaneBytes + (fineBits() != 0 ? kFinePlaneBytes : 0);
  }
  /// In records of the wide layout.
  [[nodiscard]] ZIPCCL_HOST_DEVICE constexpr std::uint32_t lowPlaneAt() const {
    return upperRecordBytes();
  }
  [[nodiscard]] ZIPCCL_HOST_DEVICE constexpr std::uint32_t recordBytes(Layout layout) const {
    return upperRecordBytes() + (layout == Layout::kWide ? kLowPlaneBytes : 0);
  }
  /// What a raw tile does not find room for in its record.
  [[nodiscard]] ZIPCCL_HOST_DEVICE constexpr std::uint32_t rawRestBytes() const {
    return kUpperBytes - upperRecordBytes();
  }
  /// Pair words of a lane that a raw tile's record holds; the others are in the raw rest.
  [[nodiscard]] ZIPCCL_HOST_DEVICE constexpr std::uint32_t rawRecordWords() const {
    return upperRecordBytes() / (4 * kLanes);
  }
  /// With more escapes than this a coded tile would be larger than a raw one.
  [[nodiscard]] ZIPCCL_HOST_DEVICE constexpr std::uint32_t maxEscapes() const {
    return rawRestBytes();
  }
  /// The largest exponent field: that of infinities and NaNs.
  [[nodiscard]] ZIPCCL_HOST_DEVICE constexpr std::uint32_t maxExponent() const {
    return (1U << exponentBits) - 1;
  }
  [[nodiscard]] ZIPCCL_HOST_DEVICE constexpr std::uint32_t maxWindowBase() const {
    return maxExponent() - 6;
  }
};

/// All datatypes, in the order of their values.
inline constexpr Datatype kDatatypes[] = {Datatype::kBfloat16, Datatype::kFloat16,
                                          Datatype::kFloat32};

/// Whether the format has a datatype of this value.
ZIPCCL_HOST_DEVICE constexpr bool isDatatype(Datatype datatype) {
  return datatype == Datatype::kBfloat16 || datatype == Datatype::kFloat16 ||
         datatype == Datatype::kFloat32;
}

ZIPCCL_HOST_DEVICE constexpr ElementFormat elementFormat(Datatype datatype) {
  switch (datatype) {
    case Datatype::kBfloat16:
      return {2, 8, false};
    case Datatype::kFloat16:
      return {2, 5, false};
    case Datatype::kFloat32:
      return {4, 8, true};
  }
  return {2, 8, false};  // not reached with a datatype of the format
}

static_assert(elementFormat(Datatype::kBfloat16).upperRecordBytes() == 1408);
static_assert(elementFormat(Datatype::kBfloat16).maxEscapes() == 640);
static_assert(elementFormat(Datatype::kBfloat16).rawRecordWords() == 11);
static_assert(elementFormat(Datatype::kBfloat16).maxWindowBase() == 249);
static_assert(elementFormat(Datatype::kFloat16).upperRecordBytes() == 1792);
static_assert(elementFormat(Datatype::kFloat16).maxEscapes() == 256);
static_assert(elementFormat(Datatype::kFloat16).rawRecordWords() == 14);
static_assert(elementFormat(Datatype::kFloat16).maxWindowBase() == 25);
static_assert(elementFormat(Datatype::kFloat32).recordBytes(Layout::kNarrow) == 1408);
static_assert(elementFormat(Datatype::kFloat32).recordBytes(Layout::kWide) == 3456);

/// What a 3-bit code means in a tile; bits 9..8 of its descriptor.
enum class TileKind : std::uint32_t { kSeven = 0, kSixAndZero = 1, kEmpty = 2, kRaw = 3 };

inline constexpr std::uint32_t kEscapeCode = 7;
inline constexpr std::uint32_t kZeroCode = 6;  ///< in kSixAndZero

inline constexpr std::uint32_t kDescriptorKindShift = 8;
inline constexpr std::uint32_t kDescriptorLowBit = 1U << 10;
inline constexpr std::uint32_t kDescriptorReservedBits = 0x0000F800U;
inline constexpr std::uint32_t kDescriptorEscapesShift = 16;

ZIPCCL_HOST_DEVICE constexpr std::uint32_t makeDescriptor(TileKind kind, std::uint32_t windowBase,
                                                          std::uint32_t escapes, bool hasLow) {
  return windowBase | (static_cast<std::uint32_t>(kind) << kDescriptorKindShift) |
         (hasLow ? kDescriptorLowBit : 0U) | (escapes << kDescriptorEscapesShift);
}
ZIPCCL_HOST_DEVICE constexpr std::uint32_t windowBaseOf(std::uint32_t descriptor) {
  return descriptor & 0xFFU;
}
ZIPCCL_HOST_DEVICE constexpr TileKind kindOf(std::uint32_t descriptor) {
  return static_cast<TileKind>((descriptor >> kDescriptorKindShift) & 3U);
}
ZIPCCL_HOST_DEVICE constexpr std::uint32_t escapesOf(std::uint32_t descriptor) {
  return descriptor >> kDescriptorEscapesShift;
}
ZIPCCL_HOST_DEVICE constexpr bool hasLow(std::uint32_t descriptor) {
  return (descriptor & kDescriptorLowBit) != 0;
}

/// Whether a decoder may trust the word: docs/format.md section 5.
ZIPCCL_HOST_DEVICE constexpr bool isValidDescriptor(std::uint32_t descriptor,
                                                    const ElementFormat& element) {
  const bool coded = (descriptor & (2U << kDescriptorKindShift)) == 0;
  return (descriptor & kDescriptorReservedBits) == 0 &&
         (element.hasLowHalves || !hasLow(descriptor)) &&
         (coded ? windowBaseOf(descriptor) <= element.maxWindowBase() &&
                      escapesOf(descriptor) <= element.maxEscapes()
                : windowBaseOf(descriptor) == 0 && escapesOf(descriptor) == 0);
}

/// Extra space that a tile takes before the group's escapes: its raw rest and narrow low plane.
ZIPCCL_HOST_DEVICE constexpr std::uint32_t blockBytesOf(std::uint32_t descriptor,
                                                        const ElementFormat& element,
                                                        Layout layout) {
  return (kindOf(descriptor) == TileKind::kRaw ? element.rawRestBytes() : 0U) +
         (layout == Layout::kNarrow && hasLow(descriptor) ? kLowPlaneBytes : 0U);
}

// The header's fields (docs/format.md section 3).
inline constexpr std::uint32_t kMagic = 0x4C43435AU;  ///< the bytes "ZCCL"
inline constexpr std::uint8_t kFormatVersion = 1;
inline constexpr std::uint8_t kCodecSevenWindow = 1;
inline constexpr std::uint16_t kFlagChecksum = 1;

/// The first 128 bytes of a frame.
struct HeaderBytes {
  std::uint32_t magic;
  std::uint8_t version;
  std::uint8_t codec;
  std::uint8_t datatype;
  std::uint8_t layout;
  std::uint8_t tileLog2;
  std::uint8_t groupLog2;
  std::uint16_t flags;
  std::uint32_t reserved12;
  std::uint64_t elementCount;
  std::uint64_t poolBytes;
  std::uint64_t extraBytes;
  std::uint64_t checksum;
  std::uint64_t application[4];
  std::uint64_t reserved80[6];
};
static_assert(sizeof(HeaderBytes) == kHeaderBytes);
static_assert(offsetof(HeaderBytes, flags) == 10 && offsetof(HeaderBytes, elementCount) == 16);
static_assert(offsetof(HeaderBytes, extraBytes) == 32 && offsetof(HeaderBytes, checksum) == 40);
static_assert(offsetof(HeaderBytes, application) == 48 && offsetof(HeaderBytes, reserved80) == 80);

ZIPCCL_HOST_DEVICE constexpr std::uint64_t alignUp(std::uint64_t value, std::uint64_t alignment) {
  return (value + alignment - 1) / alignment * alignment;
}

/// Offsets and sizes of one frame's sections, from what both sides agreed on.
struct FrameLayout {
  std::uint64_t tileCount;
  std::uint64_t groupCount;
  std::uint64_t tailElements;
  std::uint64_t tailBytes;
  std::uint64_t recordBytes;
  std::uint64_t descriptorsAt;
  std::uint64_t groupsAt;
  std::uint64_t tilesAt;
  std::uint64_t tailAt;
  std::uint64_t poolAt;
  std::uint64_t poolBytes;
  std::uint64_t staticBytes;
  std::uint64_t maxExtraBytes;
};

ZIPCCL_HOST_DEVICE constexpr std::uint64_t bytesPerElement(Datatype datatype) {
  return elementFormat(datatype).elementBytes;
}

/// The layout of a frame. `elementCount` must not exceed kMaxElementCount.
ZIPCCL_HOST_DEVICE constexpr FrameLayout frameLayout(Datatype datatype, Layout layout,
                                                     std::uint64_t elementCount,
                                                     std::uint64_t poolBytes) {
  const ElementFormat element = elementFormat(datatype);
  FrameLayout f{};
  f.tileCount = elementCount / kTileElements;
  f.groupCount = (f.tileCount + kGroupTiles - 1) / kGroupTiles;
  f.tailElements = elementCount % kTileElements;
  f.tailBytes = f.tailElements * element.elementBytes;
  f.recordBytes = element.recordBytes(layout);
  f.descriptorsAt = kHeaderBytes;
  f.groupsAt = alignUp(f.descriptorsAt + 4 * f.tileCount, 8);
  f.tilesAt = alignUp(f.groupsAt + 8 * f.groupCount, kSectionAlignment);
  f.tailAt = f.tilesAt + f.recordBytes * f.tileCount;
  f.poolAt = alignUp(f.tailAt + f.tailBytes, kSectionAlignment);
  f.poolBytes = poolBytes;
  f.staticBytes = f.poolAt + poolBytes;
  const bool narrowLow = element.hasLowHalves && layout == Layout::kNarrow;
  f.maxExtraBytes = f.tileCount * (element.rawRestBytes() + (narrowLow ? kLowPlaneBytes : 0));
  return f;
}

/// Bytes of the dynamic part: of the extra space, those behind the pool.
ZIPCCL_HOST_DEVICE constexpr std::uint64_t dynamicBytesOf(std::uint64_t poolBytes,
                                                          std::uint64_t extraBytes) {
  return extraBytes > poolBytes ? extraBytes - poolBytes : 0;
}

/// Element of a tile that stands in `lane`, `slot` (docs/format.md section 4).
ZIPCCL_HOST_DEVICE constexpr std::uint32_t elementOfSlot(Datatype datatype, std::uint32_t lane,
                                                         std::uint32_t slot) {
  const std::uint32_t run = 16 / elementFormat(datatype).elementBytes;  // of a 16-byte load
  return kLanes * run * (slot / run) + run * lane + slot % run;
}

// Offsets inside a record or an extra block, by lane and word or slot.
ZIPCCL_HOST_DEVICE constexpr std::uint32_t signMantissaAt(std::uint32_t lane, std::uint32_t slot) {
  return 512 * (slot / 16) + 16 * lane + slot % 16;
}
/// Word `k` of a lane in the plane of three bits a value, code or fine plane, at `planeAt`.
ZIPCCL_HOST_DEVICE constexpr std::uint32_t threeBitWordAt(std::uint32_t planeAt, std::uint32_t lane,
                                                          std::uint32_t k) {
  return planeAt + 128 * k + 4 * lane;
}
ZIPCCL_HOST_DEVICE constexpr std::uint32_t codeWordAt(std::uint32_t lane, std::uint32_t k) {
  return threeBitWordAt(kCodePlaneAt, lane, k);
}
ZIPCCL_HOST_DEVICE constexpr std::uint32_t lowHalfAt(std::uint32_t lane, std::uint32_t slot) {
  return 512 * (slot / 8) + 16 * lane + 2 * (slot % 8);
}
/// Pair word `word` of a raw tile: in the record, or from rawRecordWords() on in the raw rest.
ZIPCCL_HOST_DEVICE constexpr std::uint32_t rawWordAt(const ElementFormat& element,
                                                     std::uint32_t lane, std::uint32_t word) {
  if (word < 8) return 512 * (word / 4) + 16 * lane + 4 * (word % 4);
  if (word < element.rawRecordWords()) return codeWordAt(lane, word - 8);
  return 128 * (word - element.rawRecordWords()) + 4 * lane;
}
/// The slot of bit `bit` of a lane's escape mask (docs/format.md section 6).
ZIPCCL_HOST_DEVICE constexpr std::uint32_t slotOfMaskBit(std::uint32_t bit) {
  return 2 * (bit & 15U) + (bit >> 4);
}

}  // namespace zipccl::codec
