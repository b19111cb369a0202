// SPDX-License-Identifier: Apache-2.0
//
// Decoding a tile by AVX2 (docs/format.md sections 4 to 6): escapes are counted first, so that no
// byte of them is read that is not there; then all elements are put together, escapes with exponent
// field 0, into which their own is written last.

#include <cstring>

#include "codec/bytes.hpp"
#include "codec/tile_window.hpp"
#include "codec/x86/avx2_tile.hpp"
#include "codec/x86/avx2_words.hpp"
#include "codec/x86/escape_places.hpp"

ZIPCCL_BEGIN_AVX2

namespace zipccl::codec::avx2 {
namespace {

/// Where rows of slots 8c to 8c + 7 of two lanes go.
struct Bfloat16Sink {
  static constexpr Datatype kDatatype = Datatype::kBfloat16;
  static constexpr std::size_t kRecordBytes = kUpperRecordBytes;

  std::byte* elements;

  void put(unsigned c, unsigned lane, Vec upper) const {
    store(elements + 2 * elementOfSlot(kDatatype, lane, 8 * c), upper);
  }
};

template <Layout kLayout>
struct Float32Sink {
  static constexpr Datatype kDatatype = Datatype::kFloat32;
  static constexpr std::size_t kRecordBytes =
      kLayout == Layout::kWide ? kWideRecordBytes : kUpperRecordBytes;

  std::byte* elements;
  const std::byte* lowPlane;  ///< null when all low halves are zero

  void put(unsigned c, unsigned lane, Vec upper) const {
    Vec low = _mm256_setzero_si256();
    if (lowPlane != nullptr) {
      low = load(lowPlane + lowHalfAt(lane, 8 * c));
      if (kLayout == Layout::kWide) {
        prefetchAhead(lowPlane + lowHalfAt(lane, 8 * c), kTilesAhead * kRecordBytes);
      }
    }
    store(elements + 4 * elementOfSlot(kDatatype, lane, 8 * c), _mm256_unpacklo_epi16(low, upper));
    store(elements + 4 * elementOfSlot(kDatatype, lane, 8 * c + 4),
          _mm256_unpackhi_epi16(low, upper));
  }
};

/// Code pair `w` of eight lanes, `kUp` bits higher than tile_bits.hpp has it.
template <unsigned w, int kUp>
inline Vec codePair(const Vec (&p)[kCodeWords]) {
  const Vec mask = words(0x00070007U << kUp);
  if constexpr (w < 15) {
    return _mm256_and_si256(shifted<kUp - 3 * static_cast<int>(w / 3)>(p[w % 3]), mask);
  } else {
    const Vec bit0 = _mm256_and_si256(shifted<kUp - 15>(p[0]), words(0x00010001U << kUp));
    const Vec bit1 = _mm256_and_si256(shifted<kUp - 14>(p[1]), words(0x00020002U << kUp));
    const Vec bit2 = _mm256_and_si256(shifted<kUp - 13>(p[2]), words(0x00040004U << kUp));
    return _mm256_or_si256(_mm256_or_si256(bit0, bit1), bit2);
  }
}

/// The codes of slots 4q to 4q + 3, as the bytes 4q, 4q + 2, 4q + 1, 4q + 3.
template <unsigned q>
inline Vec codesOfFourSlots(const Vec (&p)[kCodeWords]) {
  return _mm256_or_si256(codePair<2 * q, 0>(p), codePair<2 * q + 1, 8>(p));
}

/// Exponent fields by code, once in each half; 0 for an escape.
inline Vec exponentTable(std::uint32_t descriptor) {
  alignas(16) std::uint8_t fields[16] = {};
  for (std::uint32_t code = 0; code < kEscapeCode; ++code) {
    fields[code] = static_cast<std::uint8_t>(
        exponentOfCode(kindOf(descriptor), windowBaseOf(descriptor), code));
  }
  return _mm256_broadcastsi128_si256(_mm_load_si128(reinterpret_cast<const __m128i*>(fields)));
}

/// Elements of eight lanes' slots 16h to 16h + 15.
template <unsigned half, class Sink>
inline void putHalf(const Vec (&p)[kCodeWords], Vec table, const std::byte* record, unsigned lane,
                    const Sink& sink) {
  const Vec middleSwapped = _mm256_broadcastsi128_si256(
      _mm_setr_epi8(0, 2, 1, 3, 4, 6, 5, 7, 8, 10, 9, 11, 12, 14, 13, 15));
  Vec fields[kRows] = {codesOfFourSlots<4 * half>(p), codesOfFourSlots<4 * half + 1>(p),
                       codesOfFourSlots<4 * half + 2>(p), codesOfFourSlots<4 * half + 3>(p)};
  for (Vec& field : fields) {
    field = _mm256_shuffle_epi8(_mm256_shuffle_epi8(table, field), middleSwapped);
  }
  transpose(fields);
  for (unsigned row = 0; row < kRows; ++row) {
    const unsigned rowLane = lane + 2 * row;
    const Vec plane = load(record + signMantissaAt(rowLane, 16 * half));
    if (row % 2 == 0) {
      prefetchAhead(record + signMantissaAt(rowLane, 16 * half), kTilesAhead * Sink::kRecordBytes);
    }
    sink.put(2 * half, rowLane, rotatedLeft<31>(_mm256_unpacklo_epi8(plane, fields[row])));
    sink.put(2 * half + 1, rowLane, rotatedLeft<31>(_mm256_unpackhi_epi8(plane, fields[row])));
  }
}

inline void loadCodeWords(const std::byte* record, unsigned lane, Vec (&codeWords)[kCodeWords]) {
  for (unsigned k = 0; k < kCodeWords; ++k) codeWords[k] = load(record + codeWordAt(lane, k));
}

template <class Sink>
inline void readEscapeMasks(const std::byte* record, EscapeMasks& masks) {
  for (unsigned lane = 0; lane < kLanes; lane += kLanesAtOnce) {
    Vec codeWords[kCodeWords];
    loadCodeWords(record, lane, codeWords);
    if (lane % 16 == 0) {
      for (unsigned k = 0; k < kCodeWords; ++k) {
        prefetchAhead(record + codeWordAt(lane, k), kTilesAhead * Sink::kRecordBytes);
      }
    }
    store(reinterpret_cast<std::byte*>(&masks.words[lane / 2]), escapeMasks(codeWords));
  }
}

/// The exponent fields of escapes into elements that have 0 there.
template <Datatype kDatatype>
inline void putEscapes(const EscapeMasks& masks, std::uint32_t escapeCount,
                       const std::byte* escapes, std::byte* elements) {
  EscapePlaces places;
  listEscapes<kDatatype>(masks, places);
  for (std::uint32_t i = 0; i < escapeCount; ++i) {
    std::byte* const at = elements + places.at[i];
    const auto field = std::to_integer<std::uint32_t>(escapes[i]) << 7;
    storeWord(at, static_cast<std::uint16_t>(loadWord<std::uint16_t>(at) | field));
  }
}

template <class Sink>
inline bool decodeCoded(std::uint32_t descriptor, const TileSource& source, const Sink& sink) {
  EscapeMasks masks;
  readEscapeMasks<Sink>(source.record, masks);
  const std::uint32_t escapeCount = countEscapes(masks);
  if (escapeCount != escapesOf(descriptor)) return false;
  const Vec table = exponentTable(descriptor);
  for (unsigned lane = 0; lane < kLanes; lane += kLanesAtOnce) {
    Vec p[kCodeWords];
    loadCodeWords(source.record, lane, p);
    for (Vec& word : p) word = columnOf(word);
    putHalf<0>(p, table, source.record, lane, sink);
    putHalf<1>(p, table, source.record, lane, sink);
  }
  putEscapes<Sink::kDatatype>(masks, escapeCount, source.escapes, sink.elements);
  return true;
}

template <class Sink>
void decodeEmpty(const Sink& sink) {
  for (unsigned c = 0; c < 4; ++c) {
    for (unsigned lane = 0; lane < kLanes; lane += 2) sink.put(c, lane, _mm256_setzero_si256());
  }
}

template <class Sink>
void decodeRaw(const TileSource& source, const Sink& sink) {
  for (unsigned lane = 0; lane < kLanes; lane += kLanesAtOnce) {
    for (unsigned row = 0; row < kRows; ++row) {
      const unsigned rowLane = lane + 2 * row;
      sink.put(0, rowLane, load(source.record + rawWordAt(rowLane, 0)));
      sink.put(1, rowLane, load(source.record + rawWordAt(rowLane, 4)));
    }
    for (unsigned c = 2; c < 4; ++c) {
      Vec rows[kRows];
      for (unsigned i = 0; i < kRows; ++i) {
        const unsigned w = 4 * c + i;
        const std::byte* const piece =
            w < kPairWords - kRawRestWords ? source.record : source.block;
        rows[i] = columnOf(load(piece + rawWordAt(lane, w)));
      }
      transpose(rows);
      for (unsigned row = 0; row < kRows; ++row) sink.put(c, lane + 2 * row, rows[row]);
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

const std::byte* lowPlaneOf(TileFormat format, std::uint32_t descriptor, const TileSource& source) {
  if (!hasLow(descriptor)) return nullptr;
  if (!format.isNarrow()) return source.record + kLowPlaneAt;
  return source.block + (kindOf(descriptor) == TileKind::kRaw ? kRawRestBytes : 0U);
}

template <Layout kLayout>
bool decodeFloat32(TileFormat format, std::uint32_t descriptor, const TileSource& source,
                   std::byte* elements) {
  const Float32Sink<kLayout> sink = {elements, lowPlaneOf(format, descriptor, source)};
  return decodeUpperHalves(descriptor, source, sink);
}

}  // namespace

bool decodeTile(TileFormat format, std::uint32_t descriptor, const TileSource& source,
                std::byte* elements) noexcept {
  if (!format.hasLowHalves()) return decodeUpperHalves(descriptor, source, Bfloat16Sink{elements});
  return format.isNarrow() ? decodeFloat32<Layout::kNarrow>(format, descriptor, source, elements)
                           : decodeFloat32<Layout::kWide>(format, descriptor, source, elements);
}

}  // namespace zipccl::codec::avx2

ZIPCCL_END_TARGET
