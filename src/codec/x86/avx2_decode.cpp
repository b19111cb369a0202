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

using CodeWords = Vec[kCodeWords];

/// The three words of eight lanes in the plane of three bits a value at `planeAt`, in order.
inline void loadCodeWords(const std::byte* record, std::uint32_t planeAt, unsigned lane,
                          CodeWords& p) {
  for (unsigned k = 0; k < kCodeWords; ++k) p[k] = load(record + threeBitWordAt(planeAt, lane, k));
}

inline void loadColumns(const std::byte* record, std::uint32_t planeAt, unsigned lane,
                        CodeWords& p) {
  loadCodeWords(record, planeAt, lane, p);
  for (Vec& word : p) word = columnOf(word);
}

/// Rows of what `table` makes of the values of slots 16h to 16h + 15, a byte each.
template <unsigned half>
inline void rowsOf(const CodeWords& p, Vec table, Vec (&rows)[kRows]) {
  const Vec middleSwapped = _mm256_broadcastsi128_si256(
      _mm_setr_epi8(0, 2, 1, 3, 4, 6, 5, 7, 8, 10, 9, 11, 12, 14, 13, 15));
  rows[0] = codesOfFourSlots<4 * half>(p);
  rows[1] = codesOfFourSlots<4 * half + 1>(p);
  rows[2] = codesOfFourSlots<4 * half + 2>(p);
  rows[3] = codesOfFourSlots<4 * half + 3>(p);
  for (Vec& row : rows) row = _mm256_shuffle_epi8(_mm256_shuffle_epi8(table, row), middleSwapped);
  transpose(rows);
}

/// The words of three planes that eight lanes are made from.
struct LaneWords {
  CodeWords codes;
  CodeWords fine;  ///< unused where there are no fine bits
};

/// Elements of eight lanes' slots 16h to 16h + 15.
template <unsigned half, class Sink>
inline void putHalf(const LaneWords& laneWords, Vec table, const std::byte* record, unsigned lane,
                    const Sink& sink) {
  constexpr bool kHasFine = Sink::kElement.fineBits() != 0;
  Vec fields[kRows];
  Vec fine[kRows];
  rowsOf<half>(laneWords.codes, table, fields);
  if constexpr (kHasFine) {
    const Vec identity =
        _mm256_broadcastsi128_si256(_mm_setr_epi8(0, 1, 2, 3, 4, 5, 6, 7, 0, 0, 0, 0, 0, 0, 0, 0));
    rowsOf<half>(laneWords.fine, identity, fine);
  }
  for (unsigned row = 0; row < kRows; ++row) {
    const unsigned rowLane = lane + 2 * row;
    const Vec plane = load(record + signMantissaAt(rowLane, 16 * half));
    if (row % 2 == 0) {
      prefetchAhead(record + signMantissaAt(rowLane, 16 * half), kTilesAhead * Sink::kRecordBytes);
    }
    Vec first = _mm256_unpacklo_epi8(plane, fields[row]);
    Vec second = _mm256_unpackhi_epi8(plane, fields[row]);
    if constexpr (kHasFine) {
      constexpr int kFine = static_cast<int>(Sink::kElement.fineBits());
      const Vec zero = _mm256_setzero_si256();
      first =
          _mm256_or_si256(_mm256_slli_epi16(first, kFine), _mm256_unpacklo_epi8(fine[row], zero));
      second =
          _mm256_or_si256(_mm256_slli_epi16(second, kFine), _mm256_unpackhi_epi8(fine[row], zero));
    }
    sink.put(2 * half, rowLane, rotatedLeft<31>(first));
    sink.put(2 * half + 1, rowLane, rotatedLeft<31>(second));
  }
}

template <class Sink>
inline void readEscapeMasks(const std::byte* record, EscapeMasks& masks) {
  for (unsigned lane = 0; lane < kLanes; lane += kLanesAtOnce) {
    CodeWords codeWords;
    loadCodeWords(record, kCodePlaneAt, lane, codeWords);
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
  constexpr ElementFormat kElement = elementFormat(kDatatype);
  EscapePlaces places;
  listEscapes<kDatatype>(masks, places);
  for (std::uint32_t i = 0; i < escapeCount; ++i) {
    std::byte* const at = elements + places.at[i];
    const auto field = (std::to_integer<std::uint32_t>(escapes[i]) & kElement.maxExponent())
                       << (15 - kElement.exponentBits);
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
    LaneWords laneWords;
    loadColumns(source.record, kCodePlaneAt, lane, laneWords.codes);
    if constexpr (Sink::kElement.fineBits() != 0) {
      loadColumns(source.record, kFinePlaneAt, lane, laneWords.fine);
    }
    putHalf<0>(laneWords, table, source.record, lane, sink);
    putHalf<1>(laneWords, table, source.record, lane, sink);
  }
  putEscapes<Sink::kDatatype>(masks, escapeCount, source.escapes, sink.elements);
  return true;
}

}  // namespace

#include "codec/x86/tile_decode.hpp"

}  // namespace zipccl::codec::avx2

ZIPCCL_END_TARGET
