// SPDX-License-Identifier: Apache-2.0
//
// The scalar reference, encoding: choose what a tile becomes, then write its planes.

#include <bit>
#include <cstring>

#include "codec/bytes.hpp"
#include "codec/scalar_tile.hpp"
#include "codec/tile_window.hpp"

namespace zipccl::codec::scalar {
namespace {

struct Coding {
  TileKind kind;
  std::uint32_t windowBase;
  std::uint32_t escapes;
};

TileHalves takeApart(Datatype datatype, const std::byte* elements) noexcept {
  TileHalves halves{};
  for (std::uint32_t lane = 0; lane < kLanes; ++lane) {
    for (std::uint32_t slot = 0; slot < kSlots; ++slot) {
      const std::uint32_t n = elementOfSlot(datatype, lane, slot);
      if (elementFormat(datatype).hasLowHalves) {
        const auto word = loadWord<std::uint32_t>(elements + 4 * n);
        halves.upper[lane][slot] = static_cast<std::uint16_t>(word >> 16);
        halves.low[lane][slot] = static_cast<std::uint16_t>(word);
      } else {
        halves.upper[lane][slot] = loadWord<std::uint16_t>(elements + 2 * n);
      }
    }
  }
  return halves;
}

template <typename Predicate>
std::uint32_t countHalves(const BySlot<std::uint16_t>& halves, Predicate predicate) noexcept {
  std::uint32_t count = 0;
  for (const auto& lane : halves) {
    for (const std::uint16_t half : lane) count += predicate(half) ? 1U : 0U;
  }
  return count;
}

bool anyNonZero(const BySlot<std::uint16_t>& halves) noexcept {
  return countHalves(halves, [](std::uint16_t half) { return half != 0; }) != 0;
}

/// Bits of the sum of a lane's magnitudes, added in the order of its slots.
std::uint32_t laneBits(const ElementFormat& element,
                       const std::array<std::uint16_t, kSlots>& upper) noexcept {
  float sum = 0;
  for (const std::uint16_t half : upper) sum += std::bit_cast<float>(magnitudeBits(element, half));
  return std::bit_cast<std::uint32_t>(sum);
}

LaneSums measureLanes(const ElementFormat& element, const BySlot<std::uint16_t>& upper) noexcept {
  std::uint64_t sumOfBits = 0;
  std::uint32_t lanes = 0;
  for (const auto& lane : upper) {
    const std::uint32_t bits = laneBits(element, lane);
    if (!isMeasurableLane(bits)) continue;
    sumOfBits += bits;
    ++lanes;
  }
  return {lanes == 0 ? 0 : static_cast<std::uint32_t>(sumOfBits / lanes), lanes};
}

Coding codingOf(const ElementFormat& element, const BySlot<std::uint16_t>& upper, TileKind kind,
                std::uint32_t windowBase) noexcept {
  const std::uint32_t escapes = countHalves(upper, [&](std::uint16_t half) {
    return codeOfExponent(kind, windowBase, exponentOf(element, half)) == kEscapeCode;
  });
  return {kind, windowBase, escapes};
}

Coding chooseCoding(const ElementFormat& element, const BySlot<std::uint16_t>& upper) noexcept {
  if (!anyNonZero(upper)) return {TileKind::kEmpty, 0, 0};
  const LaneSums sums = measureLanes(element, upper);
  Coding best =
      codingOf(element, upper, TileKind::kSeven, sevenWindowBase(element, wholeLanes(), sums));
  const std::uint32_t zeros =
      countHalves(upper, [&](std::uint16_t half) { return exponentOf(element, half) == 0; });
  if (zeros != 0) {
    const Coding six = codingOf(element, upper, TileKind::kSixAndZero,
                                sixWindowBase(element, wholeLanes(), sums, zeros));
    if (six.escapes < best.escapes) best = six;
  }
  if (best.escapes > element.maxEscapes()) return {TileKind::kRaw, 0, 0};
  return best;
}

std::uint32_t pairWord(const std::array<std::uint16_t, kSlots>& upper, std::uint32_t w) noexcept {
  return upper[2 * w] | static_cast<std::uint32_t>(upper[2 * w + 1]) << 16;
}

void writeRaw(const ElementFormat& element, const BySlot<std::uint16_t>& upper, std::byte* record,
              std::byte* rawRest) noexcept {
  for (std::uint32_t lane = 0; lane < kLanes; ++lane) {
    for (std::uint32_t w = 0; w < kPairWords; ++w) {
      std::byte* const piece = w < element.rawRecordWords() ? record : rawRest;
      storeWord(piece + rawWordAt(element, lane, w), pairWord(upper[lane], w));
    }
  }
}

/// The halves of all rotated pair words, by slot.
BySlot<std::uint16_t> rotate(const BySlot<std::uint16_t>& upper) noexcept {
  BySlot<std::uint16_t> rotated;
  for (std::uint32_t lane = 0; lane < kLanes; ++lane) {
    for (std::uint32_t w = 0; w < kPairWords; ++w) {
      const std::uint32_t word = std::rotl(pairWord(upper[lane], w), 1);
      rotated[lane][2 * w] = static_cast<std::uint16_t>(word);
      rotated[lane][2 * w + 1] = static_cast<std::uint16_t>(word >> 16);
    }
  }
  return rotated;
}

void writeSignMantissaPlane(const ElementFormat& element, const BySlot<std::uint16_t>& rotated,
                            std::byte* record) noexcept {
  for (std::uint32_t lane = 0; lane < kLanes; ++lane) {
    for (std::uint32_t slot = 0; slot < kSlots; ++slot) {
      record[signMantissaAt(lane, slot)] =
          static_cast<std::byte>(rotated[lane][slot] >> element.fineBits());
    }
  }
}

/// The code plane or the fine plane: three bits a slot, three words a lane.
void writeThreeBitPlane(const BySlot<std::uint8_t>& values, std::uint32_t planeAt,
                        std::byte* record) noexcept {
  for (std::uint32_t lane = 0; lane < kLanes; ++lane) {
    std::array<std::uint32_t, kPairWords> c{};
    for (std::uint32_t w = 0; w < kPairWords; ++w) {
      c[w] = values[lane][2 * w] + 65536U * values[lane][2 * w + 1];
    }
    for (std::uint32_t k = 0; k < kCodeWords; ++k) {
      std::uint32_t packed = ((c[15] >> k) & 0x00010001U) << 15;
      for (std::uint32_t j = 0; j < 5; ++j) packed += c[3 * j + k] << (3 * j);
      storeWord(record + threeBitWordAt(planeAt, lane, k), packed);
    }
  }
}

void writeFinePlane(const BySlot<std::uint16_t>& rotated, std::byte* record) noexcept {
  BySlot<std::uint8_t> fine;
  for (std::uint32_t lane = 0; lane < kLanes; ++lane) {
    for (std::uint32_t slot = 0; slot < kSlots; ++slot) fine[lane][slot] = rotated[lane][slot] & 7U;
  }
  writeThreeBitPlane(fine, kFinePlaneAt, record);
}

void writeEscapes(const ElementFormat& element, const BySlot<std::uint16_t>& upper,
                  const BySlot<std::uint8_t>& codes, std::byte* escapes) noexcept {
  for (std::uint32_t lane = 0; lane < kLanes; ++lane) {
    for (std::uint32_t bit = 0; bit < kSlots; ++bit) {
      const std::uint32_t slot = slotOfMaskBit(bit);
      if (codes[lane][slot] != kEscapeCode) continue;
      *escapes++ = static_cast<std::byte>(exponentOf(element, upper[lane][slot]));
    }
  }
}

void writeCoded(const ElementFormat& element, const BySlot<std::uint16_t>& upper,
                const Coding& coding, const TileSink& sink) noexcept {
  BySlot<std::uint8_t> codes;
  for (std::uint32_t lane = 0; lane < kLanes; ++lane) {
    for (std::uint32_t slot = 0; slot < kSlots; ++slot) {
      codes[lane][slot] = static_cast<std::uint8_t>(
          codeOfExponent(coding.kind, coding.windowBase, exponentOf(element, upper[lane][slot])));
    }
  }
  const BySlot<std::uint16_t> rotated = rotate(upper);
  writeSignMantissaPlane(element, rotated, sink.record);
  writeThreeBitPlane(codes, kCodePlaneAt, sink.record);
  if (element.fineBits() != 0) writeFinePlane(rotated, sink.record);
  writeEscapes(element, upper, codes, sink.escapes);
}

void writeUpperHalves(const ElementFormat& element, const BySlot<std::uint16_t>& upper,
                      const Coding& coding, const TileSink& sink) noexcept {
  switch (coding.kind) {
    case TileKind::kSeven:
    case TileKind::kSixAndZero:
      return writeCoded(element, upper, coding, sink);
    case TileKind::kEmpty:
      std::memset(sink.record, 0, element.upperRecordBytes());
      return;
    case TileKind::kRaw:
      return writeRaw(element, upper, sink.record, sink.block);
  }
}

void writeLowPlane(const BySlot<std::uint16_t>& low, std::byte* plane) noexcept {
  for (std::uint32_t lane = 0; lane < kLanes; ++lane) {
    for (std::uint32_t slot = 0; slot < kSlots; ++slot) {
      storeWord(plane + lowHalfAt(lane, slot), low[lane][slot]);
    }
  }
}

}  // namespace

std::uint32_t encodeTile(TileFormat format, const std::byte* elements,
                         const TileSink& sink) noexcept {
  const ElementFormat element = format.element();
  const TileHalves halves = takeApart(format.datatype, elements);
  const Coding coding = chooseCoding(element, halves.upper);
  writeUpperHalves(element, halves.upper, coding, sink);
  const bool storesLow = anyNonZero(halves.low);
  if (!format.isNarrow()) {
    writeLowPlane(halves.low, sink.record + element.lowPlaneAt());
  } else if (storesLow) {
    writeLowPlane(halves.low,
                  sink.block + (coding.kind == TileKind::kRaw ? element.rawRestBytes() : 0));
  }
  return makeDescriptor(coding.kind, coding.windowBase, coding.escapes, storesLow);
}

}  // namespace zipccl::codec::scalar
