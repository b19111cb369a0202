// SPDX-License-Identifier: Apache-2.0
//
// Encoding a tile by AVX-512 (docs/format.md sections 4 to 6): as by AVX2, one pass over the
// elements and one over their exponents; but the exponents are also kept in the order of escapes,
// so that one compression of bytes gives the escapes of two lanes.

#include <cstring>

#include "codec/bytes.hpp"
#include "codec/tile_window.hpp"
#include "codec/x86/avx512_tile.hpp"
#include "codec/x86/avx512_words.hpp"
#include "codec/x86/escape_places.hpp"

ZIPCCL_BEGIN_AVX512

namespace zipccl::codec::avx512 {
namespace {

/// A tile's pair words by sets of sixteen lanes, and their exponent fields, which stand together as
/// in the AVX2 implementation: those of pair words a and b of a lane as the bytes even a, even b,
/// odd a, odd b. And once more, those of each lane in the order of escapes.
struct Columns {
  static constexpr unsigned kJoined = kPairWords / 2;
  static constexpr unsigned kFirst[kJoined] = {0, 1, 2, 6, 9, 10, 11, 8};
  static constexpr unsigned kSecond[kJoined] = {3, 4, 5, 7, 12, 13, 14, 15};

  alignas(64) Vec pairWords[kLaneSets][kPairWords];
  alignas(64) Vec exponents[kLaneSets][kJoined];
  alignas(64) std::byte inEscapeOrder[kTileElements];
};

inline __m128i bytesOf(std::uint32_t a, std::uint32_t b, std::uint32_t c, std::uint32_t d) {
  return _mm_setr_epi32(static_cast<int>(a), static_cast<int>(b), static_cast<int>(c),
                        static_cast<int>(d));
}

/// What 16 slots of four lanes give besides columns.
struct HalfRow {
  Vec signMantissa;
  Vec exponents;  ///< of each lane those of the eight even slots, then those of the odd ones
};

template <ElementFormat kElement>
inline HalfRow halfRow(Vec first, Vec second) {
  const Vec mask = words(0x00FF00FFU);
  // Of each rotated half the byte that the plane takes and the field of the exponent, those of
  // `first` in the low byte of 16 bits and those of `second` in the high byte.
  Vec planeBytes;
  Vec exponentBytes;
  if constexpr (kElement.fineBits() == 0) {
    planeBytes = select(mask, _mm512_rol_epi32(first, 1), _mm512_rol_epi32(second, 9));
    exponentBytes = select(mask, _mm512_rol_epi32(first, 25), _mm512_rol_epi32(second, 1));
  } else {
    constexpr unsigned kFine = kElement.fineBits();
    const Vec a = _mm512_rol_epi32(first, 1);
    const Vec b = _mm512_rol_epi32(second, 1);
    planeBytes = select(mask, _mm512_srli_epi16(a, kFine), _mm512_slli_epi16(b, 8 - kFine));
    exponentBytes = select(mask, _mm512_srli_epi16(a, 8 + kFine), _mm512_srli_epi16(b, kFine));
  }
  const Vec apart = inEveryQuarter(bytesOf(0x06040200, 0x0E0C0A08, 0x07050301, 0x0F0D0B09));
  const Vec byParity = inEveryQuarter(bytesOf(0x0C080400, 0x0D090501, 0x0E0A0602, 0x0F0B0703));
  return {_mm512_shuffle_epi8(planeBytes, apart), _mm512_shuffle_epi8(exponentBytes, byParity)};
}

/// The 32 exponents of each of four lanes, in the order of escapes.
inline void storeInEscapeOrder(Vec firstHalf, Vec secondHalf, std::byte* to) {
  const Vec even = _mm512_unpacklo_epi64(firstHalf, secondHalf);
  const Vec odd = _mm512_unpackhi_epi64(firstHalf, secondHalf);
  const Vec firstLanes = _mm512_setr_epi64(0, 1, 8, 9, 2, 3, 10, 11);
  const Vec lastLanes = _mm512_setr_epi64(4, 5, 12, 13, 6, 7, 14, 15);
  store(to, _mm512_permutex2var_epi64(even, firstLanes, odd));
  store(to + 64, _mm512_permutex2var_epi64(even, lastLanes, odd));
}

/// The fields of `kBits` bits that begin at bit `kAt` of both halves of pair words a and b, joined
/// as in Columns.
template <int kAt, int kBits>
inline Vec joinedFields(Vec a, Vec b) {
  const Vec both = select(words(0x00FF00FFU), shifted<-kAt>(a), shifted<8 - kAt>(b));
  if constexpr (kBits == 8) return both;
  return _mm512_and_si512(both, words(((1U << kBits) - 1) * 0x01010101U));
}

/// The least and greatest exponent fields, in 64 parts.
struct Range {
  Vec least;
  Vec greatest;
};

/// Takes sixteen lanes apart: sign-mantissa plane, columns, exponents.
template <class Source>
inline void takeApart(Source& source, unsigned set, std::byte* record, Columns& columns,
                      Range& range) {
  constexpr ElementFormat kElement = Source::kElement;
  Vec w[4][kRows];
  for (unsigned row = 0; row < kRows; ++row) {
    const unsigned lane = kLanesAtOnce * set + kRowLanes * row;
    for (unsigned c = 0; c < 4; ++c) {
      w[c][row] = source.upper(c, lane);
      source.prefetch(c, lane);
    }
    const HalfRow first = halfRow<kElement>(w[0][row], w[1][row]);
    const HalfRow second = halfRow<kElement>(w[2][row], w[3][row]);
    store(record + signMantissaAt(lane, 0), first.signMantissa);
    store(record + signMantissaAt(lane, 16), second.signMantissa);
    storeInEscapeOrder(first.exponents, second.exponents, columns.inEscapeOrder + kSlots * lane);
  }
  for (auto& block : w) transpose(block);
  for (unsigned i = 0; i < kPairWords; ++i) columns.pairWords[set][i] = w[i / 4][i % 4];
  for (unsigned i = 0; i < Columns::kJoined; ++i) {
    const unsigned a = Columns::kFirst[i];
    const unsigned b = Columns::kSecond[i];
    const Vec joined = joinedFields<15 - kElement.exponentBits, kElement.exponentBits>(
        w[a / 4][a % 4], w[b / 4][b % 4]);
    columns.exponents[set][i] = joined;
    range.least = _mm512_min_epu8(range.least, joined);
    if constexpr (kElement.exponentBits != 8) {
      range.greatest = _mm512_max_epu8(range.greatest, joined);
    }
  }
}

template <class Source>
inline Range takeApart(Source& source, std::byte* record, Columns& columns) {
  Range range = {bytes(0xFF), bytes(0)};
  for (unsigned set = 0; set < kLaneSets; ++set) takeApart(source, set, record, columns, range);
  return range;
}

/// The magnitudes of both halves of a column's pair words added to `sum`: magnitudeBits() of
/// tile_window.hpp, which differs for infinities and NaNs of fp16 alone.
template <ElementFormat kElement, bool kAnyInfinite>
inline __m512 plusMagnitudes(__m512 sum, Vec column) {
  constexpr int kUp = 8 + static_cast<int>(kElement.exponentBits);
  const Vec mask = words(0x7FFFU << kUp);
  Vec even = _mm512_and_si512(shifted<kUp>(column), mask);
  Vec odd = _mm512_and_si512(shifted<kUp - 16>(column), mask);
  if constexpr (kAnyInfinite) {
    const Vec leastInfinite = words(kElement.maxExponent() << 23);
    const Vec infinity = words(0x7F800000U);
    even = _mm512_mask_mov_epi32(even, _mm512_cmple_epu32_mask(leastInfinite, even), infinity);
    odd = _mm512_mask_mov_epi32(odd, _mm512_cmple_epu32_mask(leastInfinite, odd), infinity);
  }
  sum = _mm512_add_ps(sum, _mm512_castsi512_ps(even));
  return _mm512_add_ps(sum, _mm512_castsi512_ps(odd));
}

/// What the rule of tile_window.hpp starts from.
template <ElementFormat kElement, bool kAnyInfinite>
inline LaneSums measureLanes(const Columns& columns) {
  __m512 sums[kLaneSets];
  for (__m512& sum : sums) sum = _mm512_setzero_ps();
  for (unsigned i = 0; i < kPairWords; ++i) {
    for (unsigned set = 0; set < kLaneSets; ++set) {
      sums[set] = plusMagnitudes<kElement, kAnyInfinite>(sums[set], columns.pairWords[set][i]);
    }
  }
  std::uint64_t sumOfBits = 0;
  std::uint32_t lanes = 0;
  for (const __m512& sum : sums) {
    // isMeasurableLane() for sixteen lanes.
    const Vec laneBits = _mm512_castps_si512(sum);
    const __mmask16 measurable =
        static_cast<__mmask16>(_mm512_test_epi32_mask(laneBits, laneBits) &
                               _mm512_cmple_epu32_mask(laneBits, words(0x7F7FFFFFU)));
    const Vec counted = _mm512_maskz_mov_epi32(measurable, laneBits);
    const Vec parts = _mm512_add_epi64(_mm512_srli_epi64(counted, 32),
                                       _mm512_and_si512(counted, _mm512_set1_epi64(0xFFFFFFFF)));
    sumOfBits += static_cast<std::uint64_t>(_mm512_reduce_add_epi64(parts));
    lanes += static_cast<std::uint32_t>(_mm_popcnt_u64(measurable));
  }
  return {lanes == 0 ? 0 : static_cast<std::uint32_t>(sumOfBits / lanes), lanes};
}

template <ElementFormat kElement>
inline LaneSums measureLanes(const Columns& columns, const Range& range) {
  if constexpr (kElement.exponentBits != 8) {
    if (_mm512_cmpeq_epi8_mask(range.greatest, bytes(kElement.maxExponent())) != 0) {
      return measureLanes<kElement, true>(columns);
    }
  }
  return measureLanes<kElement, false>(columns);
}

inline bool isEmpty(const Columns& columns) {
  Vec seen = _mm512_setzero_si512();
  for (const auto& set : columns.pairWords) {
    for (const Vec& column : set) seen = _mm512_or_si512(seen, column);
  }
  return _mm512_test_epi32_mask(seen, seen) == 0;
}

/// A window in every byte, and the codes of exponent fields in it.
struct SevenCoder {
  Vec base;

  explicit SevenCoder(std::uint32_t windowBase) : base(bytes(windowBase)) {}
  [[nodiscard]] Vec operator()(Vec exponents) const {
    return _mm512_min_epu8(_mm512_sub_epi8(exponents, base), bytes(kEscapeCode));
  }
};

struct SixAndZeroCoder {
  Vec base;

  explicit SixAndZeroCoder(std::uint32_t windowBase) : base(bytes(windowBase)) {}
  [[nodiscard]] Vec operator()(Vec exponents) const {
    const Vec distance = _mm512_sub_epi8(exponents, base);
    const __mmask64 outside = _mm512_cmpge_epu8_mask(distance, bytes(kZeroCode));
    const Vec codes = _mm512_mask_mov_epi8(distance, outside, bytes(kEscapeCode));
    const __mmask64 isZero = _mm512_cmpeq_epi8_mask(exponents, _mm512_setzero_si512());
    return _mm512_mask_mov_epi8(codes, isZero, bytes(kZeroCode));
  }
};

inline std::uint32_t countZeros(const Columns& columns) {
  std::uint64_t count = 0;
  for (const auto& set : columns.exponents) {
    for (const Vec& joined : set) {
      const __mmask64 zeros = _mm512_cmpeq_epi8_mask(joined, _mm512_setzero_si512());
      count += static_cast<std::uint64_t>(_mm_popcnt_u64(zeros));
    }
  }
  return static_cast<std::uint32_t>(count);
}

template <class Coder>
inline std::uint32_t countEscapesOf(const Columns& columns, const Coder& coder) {
  std::uint64_t count = 0;
  for (const auto& set : columns.exponents) {
    for (const Vec& joined : set) {
      const __mmask64 escapes = _mm512_cmpeq_epi8_mask(coder(joined), bytes(kEscapeCode));
      count += static_cast<std::uint64_t>(_mm_popcnt_u64(escapes));
    }
  }
  return static_cast<std::uint32_t>(count);
}

/// The code words of sixteen lanes, in order, from the codes of joined pair words.
inline void packCodes(const Vec (&codes)[Columns::kJoined], Vec (&codeWords)[kCodeWords]) {
  const Vec firstPlusEightSecond = _mm512_set1_epi16(0x0801);
  const Vec middleCode = words(0x01C001C0U);
  const Vec middle[kCodeWords] = {_mm512_slli_epi16(codes[3], 6), _mm512_srli_epi16(codes[3], 2),
                                  _mm512_slli_epi16(codes[7], 6)};
  const Vec share[kCodeWords] = {_mm512_slli_epi16(codes[7], 7), middle[2],
                                 _mm512_slli_epi16(codes[7], 5)};
  for (unsigned k = 0; k < kCodeWords; ++k) {
    const Vec low = _mm512_maddubs_epi16(codes[k], firstPlusEightSecond);
    const Vec high = _mm512_slli_epi16(_mm512_maddubs_epi16(codes[4 + k], firstPlusEightSecond), 9);
    const Vec rest =
        andThenOr(share[k], words(kCodeWordShareBits), _mm512_and_si512(middle[k], middleCode));
    codeWords[k] = columnInOrder(either(low, high, rest));
  }
}

template <class Source>
inline void writeEscapes(const Source& /*source*/, const Columns& columns, const EscapeMasks& masks,
                         std::uint32_t /*escapeCount*/, std::byte* escapes) {
  for (unsigned i = 0; i < kMaskWords; ++i) {
    const Vec fields = load(columns.inEscapeOrder + 2 * kSlots * i);
    const auto count = static_cast<std::uint64_t>(_mm_popcnt_u64(masks.words[i]));
    _mm512_mask_storeu_epi8(escapes, lowestBits(count),
                            _mm512_maskz_compress_epi8(masks.words[i], fields));
    escapes += count;
  }
}

}  // namespace

#include "codec/x86/tile_encode.hpp"

}  // namespace zipccl::codec::avx512

ZIPCCL_END_TARGET
