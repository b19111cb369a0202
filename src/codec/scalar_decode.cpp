// SPDX-License-Identifier: Apache-2.0
//
// The scalar reference, decoding: read the planes of a tile, then put its elements together.

#include <bit>

#include "codec/bytes.hpp"
#include "codec/scalar_tile.hpp"
#include "codec/tile_window.hpp"

namespace zipccl::codec::scalar {
namespace {

void setPairWord(std::array<std::uint16_t, kSlots>& upper, std::uint32_t w,
                 std::uint32_t word) noexcept {
  upper[2 * w] = static_cast<std::uint16_t>(word);
  upper[2 * w + 1] = static_cast<std::uint16_t>(word >> 16);
}

void readRaw(const ElementFormat& element, const std::byte* record, const std::byte* rawRest,
             BySlot<std::uint16_t>& upper) noexcept {
  for (std::uint32_t lane = 0; lane < kLanes; ++lane) {
    for (std::uint32_t w = 0; w < kPairWords; ++w) {
      const std::byte* const piece = w < element.rawRecordWords() ? record : rawRest;
      setPairWord(upper[lane], w, loadWord<std::uint32_t>(piece + rawWordAt(element, lane, w)));
    }
  }
}

/// The code plane or the fine plane: three bits a slot, three words a lane.
BySlot<std::uint8_t> readThreeBitPlane(const std::byte* record, std::uint32_t planeAt) noexcept {
  BySlot<std::uint8_t> values;
  for (std::uint32_t lane = 0; lane < kLanes; ++lane) {
    std::array<std::uint32_t, kPairWords> c{};
    for (std::uint32_t k = 0; k < kCodeWords; ++k) {
      const auto packed = loadWord<std::uint32_t>(record + threeBitWordAt(planeAt, lane, k));
      for (std::uint32_t j = 0; j < 5; ++j) c[3 * j + k] = (packed >> (3 * j)) & 0x00070007U;
      c[15] |= ((packed >> 15) & 0x00010001U) << k;
    }
    for (std::uint32_t w = 0; w < kPairWords; ++w) {
      values[lane][2 * w] = static_cast<std::uint8_t>(c[w]);
      values[lane][2 * w + 1] = static_cast<std::uint8_t>(c[w] >> 16);
    }
  }
  return values;
}

std::uint32_t countEscapes(const BySlot<std::uint8_t>& codes) noexcept {
  std::uint32_t count = 0;
  for (const auto& lane : codes) {
    for (const std::uint8_t code : lane) count += code == kEscapeCode ? 1U : 0U;
  }
  return count;
}

/// The exponent fields that `codes` stand for; reads countEscapes(codes) bytes of `escapes`.
BySlot<std::uint8_t> exponentsOf(const ElementFormat& element, const BySlot<std::uint8_t>& codes,
                                 std::uint32_t descriptor, const std::byte* escapes) noexcept {
  BySlot<std::uint8_t> exponents;
  for (std::uint32_t lane = 0; lane < kLanes; ++lane) {
    for (std::uint32_t bit = 0; bit < kSlots; ++bit) {
      const std::uint32_t slot = slotOfMaskBit(bit);
      const std::uint32_t code = codes[lane][slot];
      exponents[lane][slot] = static_cast<std::uint8_t>(
          code == kEscapeCode ? std::to_integer<std::uint32_t>(*escapes++) & element.maxExponent()
                              : exponentOfCode(kindOf(descriptor), windowBaseOf(descriptor), code));
    }
  }
  return exponents;
}

bool readCoded(const ElementFormat& element, std::uint32_t descriptor, const std::byte* record,
               const std::byte* escapes, BySlot<std::uint16_t>& upper) noexcept {
  const BySlot<std::uint8_t> codes = readThreeBitPlane(record, kCodePlaneAt);
  if (countEscapes(codes) != escapesOf(descriptor)) return false;
  const BySlot<std::uint8_t> exponents = exponentsOf(element, codes, descriptor, escapes);
  const BySlot<std::uint8_t> fine =
      element.fineBits() != 0 ? readThreeBitPlane(record, kFinePlaneAt) : BySlot<std::uint8_t>{};
  for (std::uint32_t lane = 0; lane < kLanes; ++lane) {
    const auto rotatedHalf = [&](std::uint32_t slot) {
      const auto byte = std::to_integer<std::uint32_t>(record[signMantissaAt(lane, slot)]);
      return std::uint32_t{exponents[lane][slot]} << (16 - element.exponentBits) |
             byte << element.fineBits() | fine[lane][slot];
    };
    for (std::uint32_t w = 0; w < kPairWords; ++w) {
      const std::uint32_t rotated = rotatedHalf(2 * w) | rotatedHalf(2 * w + 1) << 16;
      setPairWord(upper[lane], w, std::rotr(rotated, 1));
    }
  }
  return true;
}

bool readUpperHalves(const ElementFormat& element, std::uint32_t descriptor,
                     const TileSource& source, BySlot<std::uint16_t>& upper) noexcept {
  switch (kindOf(descriptor)) {
    case TileKind::kSeven:
    case TileKind::kSixAndZero:
      return readCoded(element, descriptor, source.record, source.escapes, upper);
    case TileKind::kEmpty:
      upper = {};
      return true;
    case TileKind::kRaw:
      readRaw(element, source.record, source.block, upper);
      return true;
  }
  return false;
}

void readLowPlane(const std::byte* plane, BySlot<std::uint16_t>& low) noexcept {
  for (std::uint32_t lane = 0; lane < kLanes; ++lane) {
    for (std::uint32_t slot = 0; slot < kSlots; ++slot) {
      low[lane][slot] = loadWord<std::uint16_t>(plane + lowHalfAt(lane, slot));
    }
  }
}

const std::byte* lowPlaneOf(TileFormat format, std::uint32_t descriptor,
                            const TileSource& source) noexcept {
  const ElementFormat element = format.element();
  if (!format.isNarrow()) return source.record + element.lowPlaneAt();
  return source.block + (kindOf(descriptor) == TileKind::kRaw ? element.rawRestBytes() : 0);
}

void putTogether(Datatype datatype, const TileHalves& halves, std::byte* elements) noexcept {
  for (std::uint32_t lane = 0; lane < kLanes; ++lane) {
    for (std::uint32_t slot = 0; slot < kSlots; ++slot) {
      const std::uint32_t n = elementOfSlot(datatype, lane, slot);
      const std::uint16_t upper = halves.upper[lane][slot];
      if (elementFormat(datatype).hasLowHalves) {
        storeWord(elements + 4 * n, std::uint32_t{upper} << 16 | halves.low[lane][slot]);
      } else {
        storeWord(elements + 2 * n, upper);
      }
    }
  }
}

}  // namespace

bool decodeTile(TileFormat format, std::uint32_t descriptor, const TileSource& source,
                std::byte* elements) noexcept {
  TileHalves halves{};
  if (!readUpperHalves(format.element(), descriptor, source, halves.upper)) return false;
  if (hasLow(descriptor)) readLowPlane(lowPlaneOf(format, descriptor, source), halves.low);
  putTogether(format.datatype, halves, elements);
  return true;
}

}  // namespace zipccl::codec::scalar
