// SPDX-License-Identifier: Apache-2.0
//
// Encoding a tile by AVX2 (docs/format.md sections 4 to 6): one pass over the elements that writes
// the sign-mantissa plane, adds up the lanes' magnitudes in the scalar rule's order and keeps the
// exponents; then one over the exponents that makes codes, once the window is known.

#include <cstring>

#include "codec/bytes.hpp"
#include "codec/tile_window.hpp"
#include "codec/x86/avx2_tile.hpp"
#include "codec/x86/avx2_words.hpp"
#include "codec/x86/escape_places.hpp"

ZIPCCL_BEGIN_AVX2

namespace zipccl::codec::avx2 {
namespace {

/// A tile's pair words by sets of eight lanes, and their exponent fields.
///
/// The exponent fields of pair words a and b of a lane stand together as the bytes even a, even b,
/// odd a, odd b, so that one multiplication joins their codes: a and b are three apart and belong
/// to one code word, but for the pairs that are left over, 6 with 7 and 8 with 15.
struct Columns {
  static constexpr unsigned kJoined = kPairWords / 2;
  static constexpr unsigned kFirst[kJoined] = {0, 1, 2, 6, 9, 10, 11, 8};
  static constexpr unsigned kSecond[kJoined] = {3, 4, 5, 7, 12, 13, 14, 15};

  alignas(32) Vec pairWords[kLaneSets][kPairWords];
  alignas(32) Vec exponents[kLaneSets][kJoined];
};

/// The fields of `kBits` bits that begin at bit `kAt` of both halves of pair words a and b, joined
/// as above.
template <int kAt, int kBits>
inline Vec joinedFields(Vec a, Vec b) {
  constexpr std::uint32_t kField = ((1U << kBits) - 1) * 0x00010001U;
  const Vec first = _mm256_and_si256(shifted<-kAt>(a), words(kField));
  const Vec second = _mm256_and_si256(shifted<8 - kAt>(b), words(kField << 8));
  return _mm256_or_si256(first, second);
}

/// The magnitudes of both halves of a column's pair words added to `sum`: magnitudeBits() of
/// tile_window.hpp, which differs for infinities and NaNs of fp16 alone.
template <ElementFormat kElement, bool kAnyInfinite>
inline __m256 plusMagnitudes(__m256 sum, Vec column) {
  constexpr int kUp = 8 + static_cast<int>(kElement.exponentBits);
  const Vec mask = words(0x7FFFU << kUp);
  Vec even = _mm256_and_si256(shifted<kUp>(column), mask);
  Vec odd = _mm256_and_si256(shifted<kUp - 16>(column), mask);
  if constexpr (kAnyInfinite) {
    const Vec mostFinite = words((kElement.maxExponent() << 23) - 1);
    const Vec infinity = words(0x7F800000U);
    const Vec infiniteEven = _mm256_and_si256(_mm256_cmpgt_epi32(even, mostFinite), infinity);
    const Vec infiniteOdd = _mm256_and_si256(_mm256_cmpgt_epi32(odd, mostFinite), infinity);
    even = _mm256_or_si256(even, infiniteEven);
    odd = _mm256_or_si256(odd, infiniteOdd);
  }
  sum = _mm256_add_ps(sum, _mm256_castsi256_ps(even));
  return _mm256_add_ps(sum, _mm256_castsi256_ps(odd));
}

/// The sign-mantissa bytes of 16 slots of two lanes, from the rows of both halves.
template <ElementFormat kElement>
inline Vec signMantissa(Vec first, Vec second) {
  const Vec mask = words(0x00FF00FFU);
  constexpr int kFine = static_cast<int>(kElement.fineBits());
  const Vec firstBytes = _mm256_srli_epi16(rotatedLeft<1>(first), kFine);
  const Vec secondBytes = _mm256_srli_epi16(rotatedLeft<1>(second), kFine);
  return _mm256_packus_epi16(_mm256_and_si256(firstBytes, mask),
                             _mm256_and_si256(secondBytes, mask));
}

/// The least and greatest exponent fields, in 32 parts.
struct Range {
  Vec least;
  Vec greatest;
};

/// Takes 16 slots of eight lanes apart: sign-mantissa plane, columns, exponents.
template <unsigned half, class Source>
inline void takeApart(Source& source, unsigned set, std::byte* record, Columns& columns,
                      Range& range) {
  constexpr ElementFormat kElement = Source::kElement;
  Vec first[kRows];
  Vec second[kRows];
  for (unsigned row = 0; row < kRows; ++row) {
    const unsigned lane = kLanesAtOnce * set + 2 * row;
    first[row] = source.upper(2 * half, lane);
    second[row] = source.upper(2 * half + 1, lane);
    if (row % 2 == 0) {
      source.prefetch(2 * half, lane);
      source.prefetch(2 * half + 1, lane);
    }
    store(record + signMantissaAt(lane, 16 * half),
          signMantissa<kElement>(first[row], second[row]));
  }
  transpose(first);
  transpose(second);
  const Vec w[2 * kRows] = {first[0],  first[1],  first[2],  first[3],
                            second[0], second[1], second[2], second[3]};
  for (unsigned i = 0; i < 2 * kRows; ++i) columns.pairWords[set][8 * half + i] = w[i];
  for (unsigned i = 4 * half; i < 4 * half + 4; ++i) {
    const Vec joined = joinedFields<15 - kElement.exponentBits, kElement.exponentBits>(
        w[Columns::kFirst[i] % 8], w[Columns::kSecond[i] % 8]);
    columns.exponents[set][i] = joined;
    range.least = _mm256_min_epu8(range.least, joined);
    if constexpr (kElement.exponentBits != 8) {
      range.greatest = _mm256_max_epu8(range.greatest, joined);
    }
  }
}

template <class Source>
inline Range takeApart(Source& source, std::byte* record, Columns& columns) {
  Range range = {bytes(0xFF), bytes(0)};
  for (unsigned set = 0; set < kLaneSets; ++set) {
    takeApart<0>(source, set, record, columns, range);
    takeApart<1>(source, set, record, columns, range);
  }
  return range;
}

/// What the rule of tile_window.hpp starts from. The lanes of all sets are added up side by side,
/// since each addition to a lane waits for the one before.
template <ElementFormat kElement, bool kAnyInfinite>
inline LaneSums measureLanes(const Columns& columns) {
  __m256 sums[kLaneSets];
  for (__m256& sum : sums) sum = _mm256_setzero_ps();
  for (unsigned w = 0; w < kPairWords; ++w) {
    for (unsigned set = 0; set < kLaneSets; ++set) {
      sums[set] = plusMagnitudes<kElement, kAnyInfinite>(sums[set], columns.pairWords[set][w]);
    }
  }
  // isMeasurableLane() for eight lanes; a sum of magnitudes is not negative.
  const Vec zero = _mm256_setzero_si256();
  Vec sumOfBits = zero;
  Vec minusLanes = zero;
  for (const __m256& sum : sums) {
    const Vec laneBits = _mm256_castps_si256(sum);
    const Vec measurable = _mm256_and_si256(_mm256_cmpgt_epi32(laneBits, zero),
                                            _mm256_cmpgt_epi32(words(0x7F800000U), laneBits));
    const Vec counted = _mm256_and_si256(laneBits, measurable);
    minusLanes = _mm256_add_epi32(minusLanes, measurable);
    sumOfBits = _mm256_add_epi64(sumOfBits, _mm256_srli_epi64(counted, 32));
    sumOfBits =
        _mm256_add_epi64(sumOfBits, _mm256_and_si256(counted, _mm256_set1_epi64x(0xFFFFFFFF)));
  }
  const Vec lanesInParts = _mm256_sad_epu8(_mm256_sub_epi32(zero, minusLanes), zero);
  const auto lanes = static_cast<std::uint32_t>(sumOfParts(lanesInParts));
  return {lanes == 0 ? 0 : static_cast<std::uint32_t>(sumOfParts(sumOfBits) / lanes), lanes};
}

template <ElementFormat kElement>
inline LaneSums measureLanes(const Columns& columns, const Range& range) {
  if constexpr (kElement.exponentBits != 8) {
    const Vec infinite = _mm256_cmpeq_epi8(range.greatest, bytes(kElement.maxExponent()));
    if (_mm256_movemask_epi8(infinite) != 0) return measureLanes<kElement, true>(columns);
  }
  return measureLanes<kElement, false>(columns);
}

inline bool isEmpty(const Columns& columns) {
  Vec seen = _mm256_setzero_si256();
  for (const auto& set : columns.pairWords) {
    for (const Vec& column : set) seen = _mm256_or_si256(seen, column);
  }
  return _mm256_testz_si256(seen, seen) != 0;
}

/// A window in every byte, and the codes of exponent fields in it.
struct SevenCoder {
  Vec base;

  explicit SevenCoder(std::uint32_t windowBase) : base(bytes(windowBase)) {}
  [[nodiscard]] Vec operator()(Vec exponents) const {
    return _mm256_min_epu8(_mm256_sub_epi8(exponents, base), bytes(kEscapeCode));
  }
};

struct SixAndZeroCoder {
  Vec base;

  explicit SixAndZeroCoder(std::uint32_t windowBase) : base(bytes(windowBase)) {}
  [[nodiscard]] Vec operator()(Vec exponents) const {
    // The base is above 0, so a zero field lies outside the window.
    const Vec six = bytes(kZeroCode);
    const Vec capped = _mm256_min_epu8(_mm256_sub_epi8(exponents, base), six);
    const Vec outside = _mm256_cmpeq_epi8(capped, six);
    const Vec isZero = _mm256_cmpeq_epi8(exponents, _mm256_setzero_si256());
    return _mm256_add_epi8(_mm256_sub_epi8(capped, outside), isZero);
  }
};

// Predicates of exponents: 0xFF where they hold.

struct IsZero {
  [[nodiscard]] Vec operator()(Vec exponents) const {
    return _mm256_cmpeq_epi8(exponents, _mm256_setzero_si256());
  }
};

template <class Coder>
struct IsEscape {
  Coder coder;

  [[nodiscard]] Vec operator()(Vec exponents) const {
    return _mm256_cmpeq_epi8(coder(exponents), bytes(kEscapeCode));
  }
};

/// Of how many of the tile's exponents a predicate holds.
template <class Predicate>
inline std::uint32_t countExponents(const Columns& columns, const Predicate& predicate) {
  Vec total = _mm256_setzero_si256();
  for (const auto& set : columns.exponents) {
    Vec counts = _mm256_setzero_si256();
    for (const Vec& exponents : set) counts = _mm256_sub_epi8(counts, predicate(exponents));
    total = _mm256_add_epi64(total, _mm256_sad_epu8(counts, _mm256_setzero_si256()));
  }
  return static_cast<std::uint32_t>(sumOfParts(total));
}

inline std::uint32_t countZeros(const Columns& columns) {
  return countExponents(columns, IsZero());
}

template <class Coder>
inline std::uint32_t countEscapesOf(const Columns& columns, const Coder& coder) {
  return countExponents(columns, IsEscape<Coder>{coder});
}

/// The code words of eight lanes, in order, from the codes of joined pair words.
inline void packCodes(const Vec (&codes)[Columns::kJoined], Vec (&codeWords)[kCodeWords]) {
  const Vec firstPlusEightSecond = _mm256_set1_epi16(0x0801);
  const Vec middleCode = words(0x01C001C0U);
  const Vec middle[kCodeWords] = {_mm256_slli_epi16(codes[3], 6), _mm256_srli_epi16(codes[3], 2),
                                  _mm256_slli_epi16(codes[7], 6)};
  const Vec share[kCodeWords] = {_mm256_slli_epi16(codes[7], 7), middle[2],
                                 _mm256_slli_epi16(codes[7], 5)};
  for (unsigned k = 0; k < kCodeWords; ++k) {
    const Vec low = _mm256_maddubs_epi16(codes[k], firstPlusEightSecond);
    const Vec high = _mm256_slli_epi16(_mm256_maddubs_epi16(codes[4 + k], firstPlusEightSecond), 9);
    const Vec rest = _mm256_or_si256(_mm256_and_si256(middle[k], middleCode),
                                     _mm256_and_si256(share[k], words(kCodeWordShareBits)));
    codeWords[k] = columnInOrder(_mm256_or_si256(_mm256_or_si256(low, high), rest));
  }
}

template <class Source>
inline void writeEscapes(const Source& source, const Columns& /*columns*/, const EscapeMasks& masks,
                         std::uint32_t escapeCount, std::byte* escapes) {
  EscapePlaces places;
  listEscapes<Source::kDatatype>(masks, places);
  for (std::uint32_t i = 0; i < escapeCount; ++i) {
    const auto upperHalf = loadWord<std::uint16_t>(source.elements + places.at[i]);
    escapes[i] = static_cast<std::byte>(exponentOf(Source::kElement, upperHalf));
  }
}

}  // namespace

#include "codec/x86/tile_encode.hpp"

}  // namespace zipccl::codec::avx2

ZIPCCL_END_TARGET
