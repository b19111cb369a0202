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

/// Where the upper halves of a tile come from: rows of slots 8c to 8c + 7 of four lanes.
struct Bfloat16Source {
  static constexpr Datatype kDatatype = Datatype::kBfloat16;

  const std::byte* elements;

  [[nodiscard]] Vec upper(unsigned c, unsigned lane) {
    return load(elements + 2 * elementOfSlot(kDatatype, lane, 8 * c));
  }
  /// Of the tile after the next, what upper() reads here.
  void prefetch(unsigned c, unsigned lane) const {
    prefetchAhead(elements + 2 * elementOfSlot(kDatatype, lane, 8 * c),
                  kTilesAhead * 2 * kTileElements);
  }
};

struct Float32Source {
  static constexpr Datatype kDatatype = Datatype::kFloat32;

  const std::byte* elements;
  Vec seen;  ///< every bit that an element had; zero at first

  [[nodiscard]] Vec upper(unsigned c, unsigned lane) {
    const Vec first = slots(8 * c, lane);
    const Vec second = slots(8 * c + 4, lane);
    seen = orOfThree(seen, first, second);
    return _mm512_packus_epi32(shifted<-16>(first), shifted<-16>(second));
  }
  void prefetch(unsigned c, unsigned lane) const {
    for (unsigned slot = 8 * c; slot < 8 * c + 8; slot += 4) {
      prefetchAhead(elements + 4 * elementOfSlot(kDatatype, lane, slot),
                    kTilesAhead * 4 * kTileElements);
    }
  }
  [[nodiscard]] Vec low(unsigned c, unsigned lane) const {
    const Vec mask = words(0x0000FFFFU);
    return _mm512_packus_epi32(_mm512_and_si512(slots(8 * c, lane), mask),
                               _mm512_and_si512(slots(8 * c + 4, lane), mask));
  }
  [[nodiscard]] bool anyLow() const {
    return _mm512_test_epi32_mask(seen, words(0x0000FFFFU)) != 0;
  }

 private:
  [[nodiscard]] Vec slots(unsigned slot, unsigned lane) const {
    return load(elements + 4 * elementOfSlot(kDatatype, lane, slot));
  }
};

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

inline HalfRow halfRow(Vec first, Vec second) {
  const Vec mask = words(0x00FF00FFU);
  // Rotated by one, sign-mantissa bytes are the first and third of a word, exponents the others.
  const Vec planeBytes = select(mask, _mm512_rol_epi32(first, 1), _mm512_rol_epi32(second, 9));
  const Vec exponentBytes = select(mask, _mm512_rol_epi32(first, 25), _mm512_rol_epi32(second, 1));
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

inline Vec joinedExponents(Vec a, Vec b) {
  return select(words(0x00FF00FFU), shifted<-7>(a), shifted<1>(b));
}

/// Takes sixteen lanes apart; the least exponent fields go into `least`.
template <class Source>
inline void takeApart(Source& source, unsigned set, std::byte* record, Columns& columns,
                      Vec& least) {
  Vec w[4][kRows];
  for (unsigned row = 0; row < kRows; ++row) {
    const unsigned lane = kLanesAtOnce * set + kRowLanes * row;
    for (unsigned c = 0; c < 4; ++c) {
      w[c][row] = source.upper(c, lane);
      source.prefetch(c, lane);
    }
    const HalfRow first = halfRow(w[0][row], w[1][row]);
    const HalfRow second = halfRow(w[2][row], w[3][row]);
    store(record + signMantissaAt(lane, 0), first.signMantissa);
    store(record + signMantissaAt(lane, 16), second.signMantissa);
    storeInEscapeOrder(first.exponents, second.exponents, columns.inEscapeOrder + kSlots * lane);
  }
  for (auto& block : w) transpose(block);
  for (unsigned i = 0; i < kPairWords; ++i) columns.pairWords[set][i] = w[i / 4][i % 4];
  for (unsigned i = 0; i < Columns::kJoined; ++i) {
    const unsigned a = Columns::kFirst[i];
    const unsigned b = Columns::kSecond[i];
    const Vec joined = joinedExponents(w[a / 4][a % 4], w[b / 4][b % 4]);
    columns.exponents[set][i] = joined;
    least = _mm512_min_epu8(least, joined);
  }
}

struct LaneSums {
  std::uint64_t sumOfBits;
  std::uint32_t lanes;
};

inline __m512 plusMagnitudes(__m512 sum, Vec column) {
  const Vec magnitudes = words(0x7FFF0000U);
  const Vec even = _mm512_and_si512(shifted<16>(column), magnitudes);
  const Vec odd = _mm512_and_si512(column, magnitudes);
  sum = _mm512_add_ps(sum, _mm512_castsi512_ps(even));
  return _mm512_add_ps(sum, _mm512_castsi512_ps(odd));
}

/// What the rule of tile_window.hpp starts from.
inline LaneSums measureLanes(const Columns& columns) {
  __m512 sums[kLaneSets];
  for (__m512& sum : sums) sum = _mm512_setzero_ps();
  for (unsigned i = 0; i < kPairWords; ++i) {
    for (unsigned set = 0; set < kLaneSets; ++set) {
      sums[set] = plusMagnitudes(sums[set], columns.pairWords[set][i]);
    }
  }
  LaneSums result = {0, 0};
  for (const __m512& sum : sums) {
    // isMeasurableLane() for sixteen lanes.
    const Vec laneBits = _mm512_castps_si512(sum);
    const __mmask16 measurable =
        static_cast<__mmask16>(_mm512_test_epi32_mask(laneBits, laneBits) &
                               _mm512_cmple_epu32_mask(laneBits, words(0x7F7FFFFFU)));
    const Vec counted = _mm512_maskz_mov_epi32(measurable, laneBits);
    const Vec parts = _mm512_add_epi64(_mm512_srli_epi64(counted, 32),
                                       _mm512_and_si512(counted, _mm512_set1_epi64(0xFFFFFFFF)));
    result.sumOfBits += static_cast<std::uint64_t>(_mm512_reduce_add_epi64(parts));
    result.lanes += static_cast<std::uint32_t>(_mm_popcnt_u64(measurable));
  }
  return result;
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
    codeWords[k] = reordered(orOfThree(low, high, rest));
  }
}

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

inline void writeEscapes(const Columns& columns, const EscapeMasks& masks, std::byte* escapes) {
  for (unsigned i = 0; i < kMaskWords; ++i) {
    const Vec fields = load(columns.inEscapeOrder + 2 * kSlots * i);
    const auto count = static_cast<std::uint64_t>(_mm_popcnt_u64(masks.words[i]));
    _mm512_mask_storeu_epi8(escapes, lowestBits(count),
                            _mm512_maskz_compress_epi8(masks.words[i], fields));
    escapes += count;
  }
}

template <class Source>
void writeRaw(Source& source, const TileSink& sink) {
  for (unsigned lane = 0; lane < kLanes; lane += kLanesAtOnce) {
    for (unsigned row = 0; row < kRows; ++row) {
      const unsigned rowLane = lane + kRowLanes * row;
      store(sink.record + rawWordAt(rowLane, 0), source.upper(0, rowLane));
      store(sink.record + rawWordAt(rowLane, 4), source.upper(1, rowLane));
    }
    for (unsigned c = 2; c < 4; ++c) {
      Vec columns[kRows];
      for (unsigned row = 0; row < kRows; ++row) {
        columns[row] = source.upper(c, lane + kRowLanes * row);
      }
      transpose(columns);
      for (unsigned i = 0; i < kRows; ++i) {
        const unsigned w = 4 * c + i;
        std::byte* const piece = w < kPairWords - kRawRestWords ? sink.record : sink.block;
        store(piece + rawWordAt(lane, w), reordered(columns[i]));
      }
    }
  }
}

/// Writes the upper halves and returns the descriptor without its low bit.
template <class Source>
std::uint32_t encodeUpperHalves(Source& source, const TileSink& sink) {
  Columns columns;
  Vec least = bytes(0xFF);
  for (unsigned set = 0; set < kLaneSets; ++set) {
    takeApart(source, set, sink.record, columns, least);
  }
  const LaneSums sums = measureLanes(columns);
  if (sums.lanes == 0 && isEmpty(columns)) {
    std::memset(sink.record, 0, kUpperRecordBytes);
    return makeDescriptor(TileKind::kEmpty, 0, 0, false);
  }
  TileKind kind = TileKind::kSeven;
  std::uint32_t windowBase = sevenWindowBase(sums.sumOfBits, sums.lanes);
  if (_mm512_cmpeq_epi8_mask(least, _mm512_setzero_si512()) != 0) {
    const std::uint32_t sixBase = sixWindowBase(sums.sumOfBits, sums.lanes, countZeros(columns));
    if (countEscapesOf(columns, SixAndZeroCoder(sixBase)) <
        countEscapesOf(columns, SevenCoder(windowBase))) {
      kind = TileKind::kSixAndZero;
      windowBase = sixBase;
    }
  }

  EscapeMasks masks;
  if (kind == TileKind::kSeven) {
    writeCodePlane(columns, SevenCoder(windowBase), sink.record, masks);
  } else {
    writeCodePlane(columns, SixAndZeroCoder(windowBase), sink.record, masks);
  }
  const std::uint32_t escapeCount = countEscapes(masks);
  if (escapeCount > kMaxEscapes) {
    writeRaw(source, sink);
    return makeDescriptor(TileKind::kRaw, 0, 0, false);
  }
  writeEscapes(columns, masks, sink.escapes);
  return makeDescriptor(kind, windowBase, escapeCount, false);
}

void writeLowPlane(const Float32Source& source, std::byte* plane) {
  for (unsigned c = 0; c < 4; ++c) {
    for (unsigned lane = 0; lane < kLanes; lane += kRowLanes) {
      store(plane + lowHalfAt(lane, 8 * c), source.low(c, lane));
    }
  }
}

std::uint32_t encodeFloat32(TileFormat format, const std::byte* elements, const TileSink& sink) {
  Float32Source source{elements, _mm512_setzero_si512()};
  const std::uint32_t descriptor = encodeUpperHalves(source, sink);
  const bool storesLow = source.anyLow();
  if (!format.isNarrow()) {
    writeLowPlane(source, sink.record + kLowPlaneAt);
  } else if (storesLow) {
    writeLowPlane(source, sink.block + blockBytesOf(descriptor, true));
  }
  return descriptor | (storesLow ? kDescriptorLowBit : 0U);
}

}  // namespace

std::uint32_t encodeTile(TileFormat format, const std::byte* elements,
                         const TileSink& sink) noexcept {
  if (format.hasLowHalves()) return encodeFloat32(format, elements, sink);
  Bfloat16Source source{elements};
  return encodeUpperHalves(source, sink);
}

}  // namespace zipccl::codec::avx512

ZIPCCL_END_TARGET
