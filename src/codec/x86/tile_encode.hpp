// SPDX-License-Identifier: Apache-2.0
//
// Encoding a tile, as far as it is the same for all vector implementations: where elements come
// from, the choice of kind and window, the planes of three bits a value, raw tiles. Written in the
// words of avx2_words.hpp and its like, around what an implementation does its own way: Columns and
// takeApart(), measureLanes(), the coders, packCodes(), joinedFields(), counts and writeEscapes().
//
// Included by each implementation's source, in its target region and namespace.

#pragma once

namespace {

/// Where the upper halves of a tile come from: rows of slots 8c to 8c + 7 of kRowLanes lanes.
template <Datatype datatype>
struct HalfSource {
  static constexpr Datatype kDatatype = datatype;
  static constexpr ElementFormat kElement = elementFormat(datatype);

  const std::byte* elements;

  [[nodiscard]] Vec upper(unsigned c, unsigned lane) {
    return load(elements + kElement.elementBytes * elementOfSlot(kDatatype, lane, 8 * c));
  }
  /// Of the tile after the next, the cache line that begins where upper() reads here.
  void prefetch(unsigned c, unsigned lane) const {
    prefetchAhead(elements + kElement.elementBytes * elementOfSlot(kDatatype, lane, 8 * c),
                  kTilesAhead * kElement.elementBytes * kTileElements);
  }
};

struct Float32Source {
  static constexpr Datatype kDatatype = Datatype::kFloat32;
  static constexpr ElementFormat kElement = elementFormat(kDatatype);

  const std::byte* elements;
  Vec seen;  ///< every bit that an element had; zero at first

  [[nodiscard]] Vec upper(unsigned c, unsigned lane) {
    const Vec first = slots(8 * c, lane);
    const Vec second = slots(8 * c + 4, lane);
    seen = either(seen, first, second);
    return narrowed(shifted<-16>(first), shifted<-16>(second));
  }
  void prefetch(unsigned c, unsigned lane) const {
    for (unsigned slot = 8 * c; slot < 8 * c + 8; slot += 4) {
      prefetchAhead(at(slot, lane), kTilesAhead * kElement.elementBytes * kTileElements);
    }
  }
  [[nodiscard]] Vec low(unsigned c, unsigned lane) const {
    const Vec mask = words(0x0000FFFFU);
    return narrowed(both(slots(8 * c, lane), mask), both(slots(8 * c + 4, lane), mask));
  }
  [[nodiscard]] bool anyLow() const { return haveCommonBit(seen, words(0x0000FFFFU)); }

 private:
  [[nodiscard]] const std::byte* at(unsigned slot, unsigned lane) const {
    return elements + kElement.elementBytes * elementOfSlot(kDatatype, lane, slot);
  }
  [[nodiscard]] Vec slots(unsigned slot, unsigned lane) const { return load(at(slot, lane)); }
};

template <class Coder>
inline void writeCodePlane(const Columns& columns, const Coder& coder, std::byte* record,
                           EscapeMasks& masks) {
  for (unsigned set = 0; set < kLaneSets; ++set) {
    const unsigned lane = kLanesAtOnce * set;
    Vec codes[Columns::kJoined];
    for (unsigned i = 0; i < Columns::kJoined; ++i) codes[i] = coder(columns.exponents[set][i]);
    Vec codeWords[kCodeWords];
    packCodes(codes, codeWords);
    for (unsigned k = 0; k < kCodeWords; ++k) {
      store(record + codeWordAt(lane, k), codeWords[k]);
    }
    store(reinterpret_cast<std::byte*>(&masks.words[lane / 2]), escapeMasks(codeWords));
  }
}

/// The lowest bits of rotated halves, which the sign-mantissa plane has no room for.
template <ElementFormat kElement>
inline void writeFinePlane(const Columns& columns, std::byte* record) {
  constexpr int kFine = static_cast<int>(kElement.fineBits());
  for (unsigned set = 0; set < kLaneSets; ++set) {
    const unsigned lane = kLanesAtOnce * set;
    Vec fine[Columns::kJoined];
    for (unsigned i = 0; i < Columns::kJoined; ++i) {
      fine[i] = joinedFields<0, kFine>(rotatedLeft<1>(columns.pairWords[set][Columns::kFirst[i]]),
                                       rotatedLeft<1>(columns.pairWords[set][Columns::kSecond[i]]));
    }
    Vec packed[kCodeWords];
    packCodes(fine, packed);
    for (unsigned k = 0; k < kCodeWords; ++k) {
      store(record + threeBitWordAt(kFinePlaneAt, lane, k), packed[k]);
    }
  }
}

template <class Source>
void writeRaw(Source& source, const TileSink& sink) {
  constexpr ElementFormat kElement = Source::kElement;
  for (unsigned lane = 0; lane < kLanes; lane += kLanesAtOnce) {
    for (unsigned row = 0; row < kRows; ++row) {
      const unsigned rowLane = lane + kRowLanes * row;
      store(sink.record + rawWordAt(kElement, rowLane, 0), source.upper(0, rowLane));
      store(sink.record + rawWordAt(kElement, rowLane, 4), source.upper(1, rowLane));
    }
    for (unsigned c = 2; c < 4; ++c) {
      Vec columns[kRows];
      for (unsigned row = 0; row < kRows; ++row)
        columns[row] = source.upper(c, lane + kRowLanes * row);
      transpose(columns);
      for (unsigned i = 0; i < kRows; ++i) {
        const unsigned w = 4 * c + i;
        std::byte* const piece = w < kElement.rawRecordWords() ? sink.record : sink.block;
        store(piece + rawWordAt(kElement, lane, w), columnInOrder(columns[i]));
      }
    }
  }
}

struct Coding {
  TileKind kind;
  std::uint32_t windowBase;
};

/// The kind of a tile that is not empty, if it does not turn out raw, by the rule of the scalar
/// reference.
template <ElementFormat kElement>
inline Coding chooseCoding(const Columns& columns, const LaneSums& sums, const Range& range) {
  const std::uint32_t sevenBase = sevenWindowBase(kElement, wholeLanes(), sums);
  if (!hasZeroByte(range.least)) return {TileKind::kSeven, sevenBase};
  const std::uint32_t zeroCount = countZeros(columns);
  const std::uint32_t sixBase = sixWindowBase(kElement, wholeLanes(), sums, zeroCount);
  const bool sixIsSmaller = countEscapesOf(columns, SixAndZeroCoder(sixBase)) <
                            countEscapesOf(columns, SevenCoder(sevenBase));
  return sixIsSmaller ? Coding{TileKind::kSixAndZero, sixBase}
                      : Coding{TileKind::kSeven, sevenBase};
}

/// Writes the upper halves and returns the descriptor without its low bit.
template <class Source>
std::uint32_t encodeUpperHalves(Source& source, const TileSink& sink) {
  constexpr ElementFormat kElement = Source::kElement;
  Columns columns;
  const Range range = takeApart(source, sink.record, columns);
  const LaneSums sums = measureLanes<kElement>(columns, range);
  if (sums.lanes == 0 && isEmpty(columns)) {
    std::memset(sink.record, 0, kElement.upperRecordBytes());
    return makeDescriptor(TileKind::kEmpty, 0, 0, false);
  }
  const Coding coding = chooseCoding<kElement>(columns, sums, range);
  EscapeMasks masks;
  if (coding.kind == TileKind::kSeven) {
    writeCodePlane(columns, SevenCoder(coding.windowBase), sink.record, masks);
  } else {
    writeCodePlane(columns, SixAndZeroCoder(coding.windowBase), sink.record, masks);
  }
  const std::uint32_t escapeCount = countEscapes(masks);
  if (escapeCount > kElement.maxEscapes()) {
    writeRaw(source, sink);
    return makeDescriptor(TileKind::kRaw, 0, 0, false);
  }
  if constexpr (kElement.fineBits() != 0) writeFinePlane<kElement>(columns, sink.record);
  writeEscapes(source, columns, masks, escapeCount, sink.escapes);
  return makeDescriptor(coding.kind, coding.windowBase, escapeCount, false);
}

inline void writeLowPlane(const Float32Source& source, std::byte* plane) {
  for (unsigned c = 0; c < 4; ++c) {
    for (unsigned lane = 0; lane < kLanes; lane += kRowLanes) {
      store(plane + lowHalfAt(lane, 8 * c), source.low(c, lane));
    }
  }
}

template <Datatype kDatatype>
std::uint32_t encodeHalves(const std::byte* elements, const TileSink& sink) {
  HalfSource<kDatatype> source{elements};
  return encodeUpperHalves(source, sink);
}

inline std::uint32_t encodeFloat32(Layout layout, const std::byte* elements, const TileSink& sink) {
  constexpr ElementFormat kElement = Float32Source::kElement;
  Float32Source source{elements, zeros()};
  const std::uint32_t descriptor = encodeUpperHalves(source, sink);
  const bool storesLow = source.anyLow();
  if (layout == Layout::kWide) {
    writeLowPlane(source, sink.record + kElement.lowPlaneAt());
  } else if (storesLow) {
    writeLowPlane(source, sink.block + blockBytesOf(descriptor, kElement, layout));
  }
  return descriptor | (storesLow ? kDescriptorLowBit : 0U);
}

}  // namespace

// One source of each implementation includes this.
// NOLINTNEXTLINE(misc-definitions-in-headers)
std::uint32_t encodeTile(TileFormat format, const std::byte* elements,
                         const TileSink& sink) noexcept {
  switch (format.datatype) {
    case Datatype::kBfloat16:
      return encodeHalves<Datatype::kBfloat16>(elements, sink);
    case Datatype::kFloat16:
      return encodeHalves<Datatype::kFloat16>(elements, sink);
    case Datatype::kFloat32:
      break;
  }
  return encodeFloat32(format.layout, elements, sink);
}
