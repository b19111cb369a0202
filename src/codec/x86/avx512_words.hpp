// SPDX-License-Identifier: Apache-2.0
//
// Vectors of sixteen 32-bit words for the AVX-512 implementation, and the three forms in which a
// tile is held in them (as in avx2_words.hpp, with other numbers):
//
//   rows      16 bytes of each of four neighbouring lanes: what a load of 64 bytes gives
//   columns   one word of sixteen lanes, in the order 0 4 8 12 1 5 9 13 2 6 10 14 3 7 11 15: four
//             rows, transposed within their quarters
//   in order  one word of sixteen lanes in ascending order: how words stand in the code plane
//
// Only for files whose code is in a region of target.hpp.

#pragma once

#include <cstddef>
#include <cstdint>

#include "codec/layout.hpp"
#include "codec/tile_bits.hpp"
#include "codec/x86/target.hpp"

ZIPCCL_BEGIN_AVX512

namespace zipccl::codec::avx512 {

using Vec = __m512i;

inline constexpr unsigned kLanesAtOnce = 16;  ///< lanes of a column
inline constexpr unsigned kRows = 4;          ///< rows that hold sixteen lanes
inline constexpr unsigned kRowLanes = 4;      ///< lanes of a row
inline constexpr unsigned kLaneSets = kLanes / kLanesAtOnce;

inline Vec load(const std::byte* at) { return _mm512_loadu_si512(at); }
inline void store(std::byte* at, Vec v) { _mm512_storeu_si512(at, v); }
inline Vec words(std::uint32_t word) { return _mm512_set1_epi32(static_cast<int>(word)); }
inline Vec bytes(std::uint32_t byte) { return _mm512_set1_epi8(static_cast<char>(byte)); }
inline Vec inEveryQuarter(__m128i v) { return _mm512_broadcast_i32x4(v); }

/// Every 32-bit word shifted: left by `kBits`, right by `-kBits`.
template <int kBits>
inline Vec shifted(Vec v) {
  if constexpr (kBits > 0) {
    return _mm512_slli_epi32(v, static_cast<unsigned>(kBits));
  } else if constexpr (kBits < 0) {
    return _mm512_srli_epi32(v, static_cast<unsigned>(-kBits));
  } else {
    return v;
  }
}

inline Vec zeros() { return _mm512_setzero_si512(); }
inline Vec both(Vec a, Vec b) { return _mm512_and_si512(a, b); }
inline bool haveCommonBit(Vec a, Vec b) { return _mm512_test_epi32_mask(a, b) != 0; }
inline bool hasZeroByte(Vec v) { return _mm512_cmpeq_epi8_mask(v, _mm512_setzero_si512()) != 0; }

// Of rows: 32-bit words to their low halves, and halves to 32-bit words.
inline Vec narrowed(Vec first, Vec second) { return _mm512_packus_epi32(first, second); }
inline Vec widenedFirst(Vec low, Vec high) { return _mm512_unpacklo_epi16(low, high); }
inline Vec widenedSecond(Vec low, Vec high) { return _mm512_unpackhi_epi16(low, high); }

template <int kBits>
inline Vec rotatedLeft(Vec v) {
  return _mm512_rol_epi32(v, kBits);
}

/// The bits of `a` where `mask` is set, else those of `b`.
inline Vec select(Vec mask, Vec a, Vec b) { return _mm512_ternarylogic_epi32(mask, a, b, 0xCA); }
inline Vec either(Vec a, Vec b, Vec c) { return _mm512_ternarylogic_epi32(a, b, c, 0xFE); }
inline Vec andOfThree(Vec a, Vec b, Vec c) { return _mm512_ternarylogic_epi32(a, b, c, 0x80); }
/// (a & b) | c
inline Vec andThenOr(Vec a, Vec b, Vec c) { return _mm512_ternarylogic_epi32(a, b, c, 0xEA); }

/// Four rows to four columns, or four columns to four rows.
inline void transpose(Vec (&v)[kRows]) {
  const Vec low01 = _mm512_unpacklo_epi32(v[0], v[1]);
  const Vec high01 = _mm512_unpackhi_epi32(v[0], v[1]);
  const Vec low23 = _mm512_unpacklo_epi32(v[2], v[3]);
  const Vec high23 = _mm512_unpackhi_epi32(v[2], v[3]);
  v[0] = _mm512_unpacklo_epi64(low01, low23);
  v[1] = _mm512_unpackhi_epi64(low01, low23);
  v[2] = _mm512_unpacklo_epi64(high01, high23);
  v[3] = _mm512_unpackhi_epi64(high01, high23);
}

inline Vec columnInOrder(Vec column) {
  const Vec order = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
  return _mm512_permutexvar_epi32(order, column);
}
/// The permutation is its own inverse.
inline Vec columnOf(Vec inOrder) { return columnInOrder(inOrder); }

/// The lowest bit of each whole code of a code word that is an escape.
inline Vec wholeEscapes(Vec p) {
  return _mm512_and_si512(andOfThree(p, shifted<-1>(p), shifted<-2>(p)), words(kCodeWordLowBits));
}

/// escapeMask() of tile_bits.hpp for sixteen lanes.
inline Vec escapeMasks(const Vec (&p)[kCodeWords]) {
  const Vec shares = _mm512_and_si512(andOfThree(p[0], p[1], p[2]), words(kCodeWordShareBits));
  return _mm512_or_si512(shares, either(wholeEscapes(p[0]), shifted<1>(wholeEscapes(p[1])),
                                        shifted<2>(wholeEscapes(p[2]))));
}

/// As many of the lowest bits as `count` tells, at most 64.
inline __mmask64 lowestBits(std::uint64_t count) {
  return count >= 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << count) - 1;
}

/// Has the cache fetch what lies `bytes` behind `at`, which need not exist. The planes of a tile
/// are too many streams for the machine's own prefetching.
inline void prefetchAhead(const std::byte* at, std::size_t bytes) {
  _mm_prefetch(reinterpret_cast<const char*>(at) + bytes, _MM_HINT_T0);
}

/// What is fetched ahead belongs to the tile after the next.
inline constexpr std::size_t kTilesAhead = 2;

}  // namespace zipccl::codec::avx512

ZIPCCL_END_TARGET
