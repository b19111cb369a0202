// SPDX-License-Identifier: Apache-2.0
//
// Decoding a tile, as far as it is the same for all vector implementations: where elements go,
// empty and raw tiles, and which of them a tile is. Written in the words of avx2_words.hpp and its
// like, around the implementation's own decodeCoded(descriptor, source, sink).
//
// Included by each implementation's source, in its target region and namespace.

#pragma once

namespace {

/// Where rows of slots 8c to 8c + 7 of kRowLanes lanes go.
template <Datatype datatype>
struct HalfSink {
  static constexpr Datatype kDatatype = datatype;
  static constexpr ElementFormat kElement = elementFormat(datatype);
  static constexpr std::size_t kRecordBytes = kElement.recordBytes(Layout::kNarrow);

  std::byte* elements;

  void put(unsigned c, unsigned lane, Vec upper) const {
    store(elements + kElement.elementBytes * elementOfSlot(kDatatype, lane, 8 * c), upper);
  }
};

template <Layout kLayout>
struct Float32Sink {
  static constexpr Datatype kDatatype = Datatype::kFloat32;
  static constexpr ElementFormat kElement = elementFormat(kDatatype);
  static constexpr std::size_t kRecordBytes = kElement.recordBytes(kLayout);

  std::byte* elements;
  const std::byte* lowPlane;  ///< null when all low halves are zero

  void put(unsigned c, unsigned lane, Vec upper) const {
    Vec low = zeros();
    if (lowPlane != nullptr) {
      low = load(lowPlane + lowHalfAt(lane, 8 * c));
      if (kLayout == Layout::kWide) {
        prefetchAhead(lowPlane + lowHalfAt(lane, 8 * c), kTilesAhead * kRecordBytes);
      }
    }
    store(at(8 * c, lane), widenedFirst(low, upper));
    store(at(8 * c + 4, lane), widenedSecond(low, upper));
  }

 private:
  [[nodiscard]] std::byte* at(unsigned slot, unsigned lane) const {
    return elements + kElement.elementBytes * elementOfSlot(kDatatype, lane, slot);
  }
};

template <class Sink>
void decodeEmpty(const Sink& sink) {
  for (unsigned c = 0; c < 4; ++c) {
    for (unsigned lane = 0; lane < kLanes; lane += kRowLanes) sink.put(c, lane, zeros());
  }
}

template <class Sink>
void decodeRaw(const TileSource& source, const Sink& sink) {
  constexpr ElementFormat kElement = Sink::kElement;
  for (unsigned lane = 0; lane < kLanes; lane += kLanesAtOnce) {
    for (unsigned row = 0; row < kRows; ++row) {
      const unsigned rowLane = lane + kRowLanes * row;
      sink.put(0, rowLane, load(source.record + rawWordAt(kElement, rowLane, 0)));
      sink.put(1, rowLane, load(source.record + rawWordAt(kElement, rowLane, 4)));
    }
    for (unsigned c = 2; c < 4; ++c) {
      Vec rows[kRows];
      for (unsigned i = 0; i < kRows; ++i) {
        const unsigned w = 4 * c + i;
        const std::byte* const piece = w < kElement.rawRecordWords() ? source.record : source.block;
        rows[i] = columnOf(load(piece + rawWordAt(kElement, lane, w)));
      }
      transpose(rows);
      for (unsigned row = 0; row < kRows; ++row) sink.put(c, lane + kRowLanes * row, rows[row]);
    }
  }
}

template <class Sink>
bool decodeUpperHalves(std::uint32_t descriptor, const TileSource& source, const Sink& sink) {
  switch (kindOf(descriptor)) {
    case TileKind::kSeven:
    case TileKind::kSixAndZero:
      return decodeCoded(descriptor, source, sink);
    case TileKind::kEmpty:
      decodeEmpty(sink);
      return true;
    case TileKind::kRaw:
      decodeRaw(source, sink);
      return true;
  }
  return false;
}

template <Datatype kDatatype>
bool decodeHalves(std::uint32_t descriptor, const TileSource& source, std::byte* elements) {
  return decodeUpperHalves(descriptor, source, HalfSink<kDatatype>{elements});
}

template <Layout kLayout>
bool decodeFloat32(std::uint32_t descriptor, const TileSource& source, std::byte* elements) {
  constexpr ElementFormat kElement = elementFormat(Datatype::kFloat32);
  const std::byte* lowPlane = nullptr;
  if (hasLow(descriptor)) {
    lowPlane = kLayout == Layout::kWide
                   ? source.record + kElement.lowPlaneAt()
                   : source.block + blockBytesOf(descriptor, kElement, kLayout) - kLowPlaneBytes;
  }
  return decodeUpperHalves(descriptor, source, Float32Sink<kLayout>{elements, lowPlane});
}

}  // namespace

// One source of each implementation includes this.
// NOLINTNEXTLINE(misc-definitions-in-headers)
bool decodeTile(TileFormat format, std::uint32_t descriptor, const TileSource& source,
                std::byte* elements) noexcept {
  switch (format.datatype) {
    case Datatype::kBfloat16:
      return decodeHalves<Datatype::kBfloat16>(descriptor, source, elements);
    case Datatype::kFloat16:
      return decodeHalves<Datatype::kFloat16>(descriptor, source, elements);
    case Datatype::kFloat32:
      break;
  }
  return format.isNarrow() ? decodeFloat32<Layout::kNarrow>(descriptor, source, elements)
                           : decodeFloat32<Layout::kWide>(descriptor, source, elements);
}
