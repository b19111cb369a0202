// SPDX-License-Identifier: Apache-2.0
//
// Vectors of eight 32-bit words for the AVX2 implementation, and the three forms in which a tile is
// held in them:
//
//   rows      16 bytes of lane 2p in the low half, the same of lane 2p + 1 in the high half: what a
//             load of 32 bytes of a tile or of a plane gives
//   columns   one word of eight lanes, in the order 0 2 4 6 1 3 5 7: four rows, transposed within
//             their halves
//   in order  one word of eight lanes in ascending order: how words stand in the code plane
//
// Only for files whose code is in a region of target.hpp.

#pragma once

#include <cstddef>
#include <cstdint>

#include "codec/layout.hpp"
#include "codec/tile_bits.hpp"
#include "codec/x86/target.hpp"

ZIPCCL_BEGIN_AVX2

namespace zipccl::codec::avx2 {

using Vec = __m256i;

inline constexpr unsigned kLanesAtOnce = 8;  ///< lanes of a column
inline constexpr unsigned kRows = 4;         ///< rows that hold eight lanes
inline constexpr unsigned kRowLanes = 2;     ///< lanes of a row
inline constexpr unsigned kLaneSets = kLanes / kLanesAtOnce;

inline Vec load(const std::byte* at) {
  return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(at));
}
inline void store(std::byte* at, Vec v) { _mm256_storeu_si256(reinterpret_cast<__m256i*>(at), v); }
inline Vec words(std::uint32_t word) { return _mm256_set1_epi32(static_cast<int>(word)); }
inline Vec bytes(std::uint32_t byte) { return _mm256_set1_epi8(static_cast<char>(byte)); }
inline Vec zeros() { return _mm256_setzero_si256(); }
inline Vec both(Vec a, Vec b) { return _mm256_and_si256(a, b); }
inline Vec either(Vec a, Vec b, Vec c) { return _mm256_or_si256(a, _mm256_or_si256(b, c)); }
inline bool haveCommonBit(Vec a, Vec b) { return _mm256_testz_si256(a, b) == 0; }
inline bool hasZeroByte(Vec v) {
  return _mm256_movemask_epi8(_mm256_cmpeq_epi8(v, _mm256_setzero_si256())) != 0;
}

// Of rows: 32-bit words to their low halves, and halves to 32-bit words.
inline Vec narrowed(Vec first, Vec second) { return _mm256_packus_epi32(first, second); }
inline Vec widenedFirst(Vec low, Vec high) { return _mm256_unpacklo_epi16(low, high); }
inline Vec widenedSecond(Vec low, Vec high) { return _mm256_unpackhi_epi16(low, high); }

/// The sum of four 64-bit words.
inline std::uint64_t sumOfParts(Vec v) {
  const __m128i two = _mm_add_epi64(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1));
  return static_cast<std::uint64_t>(_mm_cvtsi128_si64(two)) +
         static_cast<std::uint64_t>(_mm_extract_epi64(two, 1));
}

/// Has the cache fetch what lies `bytes` behind `at`, which need not exist. The planes of a tile
/// are too many streams for the machine's own prefetching.
inline void prefetchAhead(const std::byte* at, std::size_t bytes) {
  _mm_prefetch(reinterpret_cast<const char*>(at) + bytes, _MM_HINT_T0);
}

/// What is fetched ahead belongs to the tile after the next.
inline constexpr std::size_t kTilesAhead = 2;

/// Every 32-bit word shifted: left by `kBits`, right by `-kBits`.
template <int kBits>
inline Vec shifted(Vec v) {
  if constexpr (kBits > 0) {
    return _mm256_slli_epi32(v, kBits);
  } else if constexpr (kBits < 0) {
    return _mm256_srli_epi32(v, -kBits);
  } else {
    return v;
  }
}

template <int kBits>
inline Vec rotatedLeft(Vec v) {
  return _mm256_or_si256(shifted<kBits>(v), shifted<kBits - 32>(v));
}

/// Four rows to four columns, or four columns to four rows.
inline void transpose(Vec (&v)[kRows]) {
  const Vec low01 = _mm256_unpacklo_epi32(v[0], v[1]);
  const Vec high01 = _mm256_unpackhi_epi32(v[0], v[1]);
  const Vec low23 = _mm256_unpacklo_epi32(v[2], v[3]);
  const Vec high23 = _mm256_unpackhi_epi32(v[2], v[3]);
  v[0] = _mm256_unpacklo_epi64(low01, low23);
  v[1] = _mm256_unpackhi_epi64(low01, low23);
  v[2] = _mm256_unpacklo_epi64(high01, high23);
  v[3] = _mm256_unpackhi_epi64(high01, high23);
}

inline Vec columnInOrder(Vec column) {
  return _mm256_permutevar8x32_epi32(column, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
}
inline Vec columnOf(Vec inOrder) {
  return _mm256_permutevar8x32_epi32(inOrder, _mm256_setr_epi32(0, 2, 4, 6, 1, 3, 5, 7));
}

/// The lowest bit of each whole code of a code word that is an escape.
inline Vec wholeEscapes(Vec p) {
  const Vec all = _mm256_and_si256(_mm256_and_si256(p, shifted<-1>(p)), shifted<-2>(p));
  return _mm256_and_si256(all, words(kCodeWordLowBits));
}

/// escapeMask() of tile_bits.hpp for eight lanes.
inline Vec escapeMasks(const Vec (&p)[kCodeWords]) {
  const Vec shares = _mm256_and_si256(_mm256_and_si256(p[0], p[1]),
                                      _mm256_and_si256(p[2], words(kCodeWordShareBits)));
  return _mm256_or_si256(
      _mm256_or_si256(shares, wholeEscapes(p[0])),
      _mm256_or_si256(shifted<1>(wholeEscapes(p[1])), shifted<2>(wholeEscapes(p[2]))));
}

}  // namespace zipccl::codec::avx2

ZIPCCL_END_TARGET
