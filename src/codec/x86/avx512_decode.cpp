// SPDX-License-Identifier: Apache-2.0
//
// Decoding a tile by AVX-512 (docs/format.md sections 4 to 6). Codes are taken out of their words
// by a shift of its own for each byte, in the order of escapes, so that one expansion of bytes puts
// the escapes of two lanes in place. Escapes are counted first: no byte of them is read that is not
// there.

#include <array>
#include <cstring>

#include "codec/bytes.hpp"
#include "codec/tile_window.hpp"
#include "codec/x86/avx512_tile.hpp"
#include "codec/x86/avx512_words.hpp"
#include "codec/x86/escape_places.hpp"

ZIPCCL_BEGIN_AVX512

namespace zipccl::codec::avx512 {
namespace {

/// Exponent fields by code, once in each quarter; escapes get theirs later.
inline Vec exponentTable(std::uint32_t descriptor) {
  alignas(16) std::uint8_t fields[16] = {};
  for (std::uint32_t code = 0; code < kEscapeCode; ++code) {
    fields[code] = static_cast<std::uint8_t>(
        exponentOfCode(kindOf(descriptor), windowBaseOf(descriptor), code));
  }
  return inEveryQuarter(_mm_load_si128(reinterpret_cast<const __m128i*>(fields)));
}

using CodeWords = Vec[kCodeWords];

/// The three words of sixteen lanes in the plane of three bits a value at `planeAt`.
inline void loadCodeWords(const std::byte* record, std::uint32_t planeAt, unsigned lane,
                          CodeWords& p) {
  for (unsigned k = 0; k < kCodeWords; ++k) p[k] = load(record + threeBitWordAt(planeAt, lane, k));
}

/// The words of a plane of three bits a value, of sixteen lanes, joined two and two so that shifts
/// find every value in one of two 64-bit words: P[0] and P[1], and P[2] and the sixteenth pair.
/// Low: lanes 0 1 4 5 8 9 12 13; high: lanes 2 3 6 7 10 11 14 15.
struct JoinedCodeWords {
  Vec firstLow;
  Vec firstHigh;
  Vec secondLow;
  Vec secondHigh;
};

inline JoinedCodeWords joinedCodeWords(const std::byte* record, std::uint32_t planeAt,
                                       unsigned lane) {
  CodeWords p;
  loadCodeWords(record, planeAt, lane, p);
  // codePair() of tile_bits.hpp for w = 15.
  const Vec bit0 = _mm512_and_si512(shifted<-15>(p[0]), words(kPairOnes));
  const Vec bit01 = andThenOr(shifted<-14>(p[1]), words(kPairOnes << 1), bit0);
  const Vec lastPair = andThenOr(shifted<-13>(p[2]), words(kPairOnes << 2), bit01);
  return {_mm512_unpacklo_epi32(p[0], p[1]), _mm512_unpackhi_epi32(p[0], p[1]),
          _mm512_unpacklo_epi32(p[2], lastPair), _mm512_unpackhi_epi32(p[2], lastPair)};
}

/// For each byte of a lane in the order of escapes, 16h + w for slot 2w + h: which of the two
/// joined words holds its code, and where it begins.
struct CodePlaces {
  alignas(64) std::array<std::uint8_t, 64> shifts{};
  std::uint64_t inSecond = 0;
};

constexpr CodePlaces makeCodePlaces() {
  CodePlaces places;
  for (unsigned i = 0; i < 64; ++i) {
    const unsigned half = i / 16 % 2;
    const unsigned w = i % 16;
    const bool isHighWord = w == 15 || w % 3 == 1;
    const unsigned shift = (w == 15 ? 0 : 3 * (w / 3)) + 16 * half + (isHighWord ? 32 : 0);
    places.shifts[i] = static_cast<std::uint8_t>(shift);
    if (w == 15 || w % 3 == 2) places.inSecond |= std::uint64_t{1} << i;
  }
  return places;
}
constexpr CodePlaces kCodePlaces = makeCodePlaces();

/// The codes of lanes 2i and 2i + 1 of sixteen, in the order of escapes.
template <unsigned i>
inline Vec codesOfTwoLanes(const JoinedCodeWords& joined) {
  constexpr long long kLane = i / 2 * 2;
  const Vec toAllOfALane =
      _mm512_setr_epi64(kLane, kLane, kLane, kLane, kLane + 1, kLane + 1, kLane + 1, kLane + 1);
  const Vec first =
      _mm512_permutexvar_epi64(toAllOfALane, i % 2 == 0 ? joined.firstLow : joined.firstHigh);
  const Vec second =
      _mm512_permutexvar_epi64(toAllOfALane, i % 2 == 0 ? joined.secondLow : joined.secondHigh);
  const Vec shifts = load(reinterpret_cast<const std::byte*>(kCodePlaces.shifts.data()));
  const Vec codes =
      _mm512_mask_mov_epi8(_mm512_multishift_epi64_epi8(shifts, first), kCodePlaces.inSecond,
                           _mm512_multishift_epi64_epi8(shifts, second));
  return _mm512_and_si512(codes, bytes(kEscapeCode));
}

/// Exponent fields of codes, those of escapes from `escapes`, which moves on.
inline Vec exponentsOf(Vec codes, Vec table, std::uint64_t mask, const std::byte*& escapes) {
  const auto count = static_cast<std::uint64_t>(_mm_popcnt_u64(mask));
  const Vec fields = _mm512_maskz_loadu_epi8(lowestBits(count), escapes);
  escapes += count;
  return _mm512_mask_expand_epi8(_mm512_shuffle_epi8(table, codes), mask, fields);
}

/// What the rows of a tile are made from, and where the next escape stands.
struct CodedTile {
  const std::byte* record;
  const std::byte* escapes;
  Vec table;
  EscapeMasks masks;
};

/// Bytes of slots 0 to 15 and 16 to 31 of four lanes, from those of two and two lanes in the order
/// of escapes.
struct RowBytes {
  Vec halves[2];

  RowBytes(Vec firstTwo, Vec lastTwo) {
    const Vec even = _mm512_shuffle_i64x2(firstTwo, lastTwo, 0x88);
    const Vec odd = _mm512_shuffle_i64x2(firstTwo, lastTwo, 0xDD);
    halves[0] = _mm512_unpacklo_epi8(even, odd);
    halves[1] = _mm512_unpackhi_epi8(even, odd);
  }
};

/// Of sixteen lanes.
struct LaneWords {
  JoinedCodeWords codes;
  JoinedCodeWords fine;  ///< unused where there are no fine bits
};

/// Elements of four lanes, row `r` of the sixteen from `firstLane` on.
template <unsigned r, class Sink>
inline void putRow(CodedTile& tile, const LaneWords& laneWords, unsigned firstLane,
                   const Sink& sink) {
  constexpr bool kHasFine = Sink::kElement.fineBits() != 0;
  const unsigned lane = firstLane + kRowLanes * r;
  const Vec firstTwo = exponentsOf(codesOfTwoLanes<2 * r>(laneWords.codes), tile.table,
                                   tile.masks.words[lane / 2], tile.escapes);
  const Vec lastTwo = exponentsOf(codesOfTwoLanes<2 * r + 1>(laneWords.codes), tile.table,
                                  tile.masks.words[lane / 2 + 1], tile.escapes);
  const RowBytes exponents(firstTwo, lastTwo);
  for (unsigned half = 0; half < 2; ++half) {
    const std::byte* const at = tile.record + signMantissaAt(lane, 16 * half);
    const Vec plane = load(at);
    prefetchAhead(at, kTilesAhead * Sink::kRecordBytes);
    Vec first = _mm512_unpacklo_epi8(plane, exponents.halves[half]);
    Vec second = _mm512_unpackhi_epi8(plane, exponents.halves[half]);
    if constexpr (kHasFine) {
      const RowBytes fine(codesOfTwoLanes<2 * r>(laneWords.fine),
                          codesOfTwoLanes<2 * r + 1>(laneWords.fine));
      constexpr unsigned kFine = Sink::kElement.fineBits();
      const Vec zero = _mm512_setzero_si512();
      first = _mm512_or_si512(_mm512_slli_epi16(first, kFine),
                              _mm512_unpacklo_epi8(fine.halves[half], zero));
      second = _mm512_or_si512(_mm512_slli_epi16(second, kFine),
                               _mm512_unpackhi_epi8(fine.halves[half], zero));
    }
    sink.put(2 * half, lane, _mm512_ror_epi32(first, 1));
    sink.put(2 * half + 1, lane, _mm512_ror_epi32(second, 1));
  }
}

template <class Sink>
inline void readEscapeMasks(const std::byte* record, EscapeMasks& masks) {
  for (unsigned lane = 0; lane < kLanes; lane += kLanesAtOnce) {
    CodeWords p;
    loadCodeWords(record, kCodePlaneAt, lane, p);
    for (unsigned k = 0; k < kCodeWords; ++k) {
      prefetchAhead(record + codeWordAt(lane, k), kTilesAhead * Sink::kRecordBytes);
    }
    store(reinterpret_cast<std::byte*>(&masks.words[lane / 2]), escapeMasks(p));
  }
}

template <class Sink>
bool decodeCoded(std::uint32_t descriptor, const TileSource& source, const Sink& sink) {
  CodedTile tile = {source.record, source.escapes, exponentTable(descriptor), {}};
  readEscapeMasks<Sink>(source.record, tile.masks);
  if (countEscapes(tile.masks) != escapesOf(descriptor)) return false;
  for (unsigned lane = 0; lane < kLanes; lane += kLanesAtOnce) {
    LaneWords laneWords;
    laneWords.codes = joinedCodeWords(source.record, kCodePlaneAt, lane);
    if constexpr (Sink::kElement.fineBits() != 0) {
      laneWords.fine = joinedCodeWords(source.record, kFinePlaneAt, lane);
    }
    putRow<0>(tile, laneWords, lane, sink);
    putRow<1>(tile, laneWords, lane, sink);
    putRow<2>(tile, laneWords, lane, sink);
    putRow<3>(tile, laneWords, lane, sink);
  }
  return true;
}

}  // namespace

#include "codec/x86/tile_decode.hpp"

}  // namespace zipccl::codec::avx512

ZIPCCL_END_TARGET
