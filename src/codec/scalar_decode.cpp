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

void readRaw(const std::byte* record, const std::byte* rawRest,
             BySlot<std::uint16_t>& upper) noexcept {
  for (std::uint32_t lane = 0; lane < kLanes; ++lane) {
    for (std::uint32_t w = 0; w < kPairWords; ++w) {
      const std::byte* const piece = w < kPairWords - kRawRestWords ? record : rawRest;
      setPairWord(upper[lane], w, loadWord<std::uint32_t>(piece + rawWordAt(lane, w)));
    }
  }
}

BySlot<std::uint8_t> readCodePlane(const std::byte* record) noexcept {
  BySlot<std::uint8_t> codes;
  for (std::uint32_t lane = 0; lane < kLanes; ++lane) {
    std::array<std::uint32_t, kPairWords> c{};
    for (std::uint32_t k = 0; k < kCodeWords; ++k) {
      const auto packed = loadWord<std::uint32_t>(record + codeWordAt(lane, k));
      for (std::uint32_t j = 0; j < 5; ++j) c[3 * j + k] = (packed >> (3 * j)) & 0x00070007U;
      c[15] |= ((packed >> 15) & 0x00010001U) << k;
    }
    for (std::uint32_t w = 0; w < kPairWords; ++w) {
      codes[lane][2 * w] = static_cast<std::uint8_t>(c[w]);
      codes[lane][2 * w + 1] = static_cast<std::uint8_t>(c[w] >> 16);
    }
  }
  return codes;
}

std::uint32_t countEscapes(const BySlot<std::uint8_t>& codes) noexcept {
  std::uint32_t count = 0;
  for (const auto& lane : codes) {
    for (const std::uint8_t code : lane) count += code == kEscapeCode ? 1U : 0U;
  }
  return count;
}

/// The exponent fields that `codes` stand for; reads countEscapes(codes) bytes of `escapes`.
BySlot<std::uint8_t> exponentsOf(const BySlot<std::uint8_t>& codes, std::uint32_t descriptor,
                                 const std::byte* escapes) noexcept {
  BySlot<std::uint8_t> exponents;
  for (std::uint32_t lane = 0; lane < kLanes; ++lane) {
    for (std::uint32_t bit = 0; bit < kSlots; ++bit) {
      const std::uint32_t slot = slotOfMaskBit(bit);
      const std::uint32_t code = codes[lane][slot];
      exponents[lane][slot] = code == kEscapeCode
                                  ? std::to_integer<std::uint8_t>(*escapes++)
                                  : static_cast<std::uint8_t>(exponentOfCode(
                                        kindOf(descriptor), windowBaseOf(descriptor), code));
    }
  }
  return exponents;
}

bool readCoded(std::uint32_t descriptor, const std::byte* record, const std::byte* escapes,
               BySlot<std::uint16_t>& upper) noexcept {
  const BySlot<std::uint8_t> codes = readCodePlane(record);
  if (countEscapes(codes) != escapesOf(descriptor)) return false;
  const BySlot<std::uint8_t> exponents = exponentsOf(codes, descriptor, escapes);
  for (std::uint32_t lane = 0; lane < kLanes; ++lane) {
    for (std::uint32_t w = 0; w < kPairWords; ++w) {
      const auto even = std::to_integer<std::uint32_t>(record[signMantissaAt(lane, 2 * w)]);
      const auto odd = std::to_integer<std::uint32_t>(record[signMantissaAt(lane, 2 * w + 1)]);
      const std::uint32_t rotated = even | std::uint32_t{exponents[lane][2 * w]} << 8 | odd << 16 |
                                    std::uint32_t{exponents[lane][2 * w + 1]} << 24;
      setPairWord(upper[lane], w, std::rotr(rotated, 1));
    }
  }
  return true;
}

bool readUpperHalves(std::uint32_t descriptor, const TileSource& source,
                     BySlot<std::uint16_t>& upper) noexcept {
  switch (kindOf(descriptor)) {
    case TileKind::kSeven:
    case TileKind::kSixAndZero:
      return readCoded(descriptor, source.record, source.escapes, upper);
    case TileKind::kEmpty:
      upper = {};
      return true;
    case TileKind::kRaw:
      readRaw(source.record, source.block, upper);
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
  if (!format.isNarrow()) return source.record + kLowPlaneAt;
  return source.block + (kindOf(descriptor) == TileKind::kRaw ? kRawRestBytes : 0);
}

void putTogether(Datatype datatype, const TileHalves& halves, std::byte* elements) noexcept {
  for (std::uint32_t lane = 0; lane < kLanes; ++lane) {
    for (std::uint32_t slot = 0; slot < kSlots; ++slot) {
      const std::uint32_t n = elementOfSlot(datatype, lane, slot);
      const std::uint16_t upper = halves.upper[lane][slot];
      if (datatype == Datatype::kFloat32) {
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
  if (!readUpperHalves(descriptor, source, halves.upper)) return false;
  if (hasLow(descriptor)) readLowPlane(lowPlaneOf(format, descriptor, source), halves.low);
  putTogether(format.datatype, halves, elements);
  return true;
}

}  // namespace zipccl::codec::scalar
