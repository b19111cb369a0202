// SPDX-License-Identifier: Apache-2.0
//
// Scaled sums by AVX2, eight elements at a time; what is left over goes to the scalar reference.
// The region has no fused operations, so a product is rounded before it is added.

#include "codec/layout.hpp"
#include "codec/number.hpp"
#include "codec/scaled_sum.hpp"
#include "codec/x86/target.hpp"

ZIPCCL_BEGIN_AVX2

namespace zipccl::codec::avx2 {
namespace {

constexpr std::size_t kAtOnce = 8;

inline __m128i load8(const std::byte* at) {
  return _mm_loadu_si128(reinterpret_cast<const __m128i*>(at));
}
inline void store8(std::byte* at, __m128i v) {
  _mm_storeu_si128(reinterpret_cast<__m128i*>(at), v);
}
inline __m256i words(std::uint32_t word) { return _mm256_set1_epi32(static_cast<int>(word)); }
inline __m256i nansOf(__m256 v) { return _mm256_castps_si256(_mm256_cmp_ps(v, v, _CMP_UNORD_Q)); }

/// Eight elements of a datatype as fp32, what rounding makes of eight sums, and how they are
/// stored.
template <Datatype kDatatype>
struct Eight;

template <>
struct Eight<Datatype::kBfloat16> {
  static __m256 load(const std::byte* at) { return widen(_mm256_cvtepu16_epi32(load8(at))); }
  /// Rounded, in the low half of each word.
  static __m256i round(__m256 v) {
    const __m256i bits = _mm256_castps_si256(v);
    const __m256i isOdd = _mm256_and_si256(_mm256_srli_epi32(bits, 16), words(1));
    const __m256i moved = _mm256_add_epi32(_mm256_add_epi32(bits, words(0x7FFF)), isOdd);
    return _mm256_blendv_epi8(_mm256_srli_epi32(moved, 16), words(kCanonicalNan16), nansOf(v));
  }
  static __m256 widen(__m256i rounded) {
    return _mm256_castsi256_ps(_mm256_slli_epi32(rounded, 16));
  }
  static void store(std::byte* at, __m256i rounded) {
    const __m256i packed = _mm256_packus_epi32(rounded, rounded);
    store8(at, _mm256_castsi256_si128(_mm256_permute4x64_epi64(packed, 0x08)));
  }
};

template <>
struct Eight<Datatype::kFloat16> {
  static __m256 load(const std::byte* at) { return widen(load8(at)); }
  static __m128i round(__m256 v) {
    const __m128i rounded = _mm256_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT);
    const __m256i nans = nansOf(v);
    const __m128i narrowNans =
        _mm_packs_epi32(_mm256_castsi256_si128(nans), _mm256_extracti128_si256(nans, 1));
    return _mm_blendv_epi8(rounded, _mm_set1_epi16(static_cast<short>(kCanonicalNan16)),
                           narrowNans);
  }
  static __m256 widen(__m128i rounded) { return _mm256_cvtph_ps(rounded); }
  static void store(std::byte* at, __m128i rounded) { store8(at, rounded); }
};

template <>
struct Eight<Datatype::kFloat32> {
  static __m256 load(const std::byte* at) {
    return _mm256_loadu_ps(reinterpret_cast<const float*>(at));
  }
  static __m256i round(__m256 v) {
    return _mm256_blendv_epi8(_mm256_castps_si256(v), words(kCanonicalNan32), nansOf(v));
  }
  static __m256 widen(__m256i rounded) { return _mm256_castsi256_ps(rounded); }
  static void store(std::byte* at, __m256i rounded) {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(at), rounded);
  }
};

template <Datatype kDatatype, bool kScale>
void add(const ScaledAddend& addend, const std::byte* elements, std::span<float> sums) {
  using Element = Eight<kDatatype>;
  constexpr std::size_t kBytes = elementFormat(kDatatype).elementBytes;
  const __m256 factor = _mm256_set1_ps(addend.factor);
  std::size_t i = 0;
  for (; i + kAtOnce <= sums.size(); i += kAtOnce) {
    __m256 value = Element::load(elements + i * kBytes);
    if constexpr (kScale) value = Element::widen(Element::round(_mm256_mul_ps(value, factor)));
    if (!addend.isFirst) value = _mm256_add_ps(_mm256_loadu_ps(sums.data() + i), value);
    _mm256_storeu_ps(sums.data() + i, value);
  }
  scalar::addScaled(addend, elements + i * kBytes, sums.subspan(i));
}

template <Datatype kDatatype>
void add(const ScaledAddend& addend, const std::byte* elements, std::span<float> sums) {
  if (addend.factor == 1.0F) {
    add<kDatatype, false>(addend, elements, sums);
  } else {
    add<kDatatype, true>(addend, elements, sums);
  }
}

template <Datatype kDatatype>
void round(std::span<const float> sums, std::byte* elements) {
  using Element = Eight<kDatatype>;
  constexpr std::size_t kBytes = elementFormat(kDatatype).elementBytes;
  std::size_t i = 0;
  for (; i + kAtOnce <= sums.size(); i += kAtOnce) {
    Element::store(elements + i * kBytes, Element::round(_mm256_loadu_ps(sums.data() + i)));
  }
  scalar::roundSums(kDatatype, sums.subspan(i), elements + i * kBytes);
}

}  // namespace

void addScaled(const ScaledAddend& addend, const std::byte* elements,
               std::span<float> sums) noexcept {
  switch (addend.datatype) {
    case Datatype::kBfloat16:
      return add<Datatype::kBfloat16>(addend, elements, sums);
    case Datatype::kFloat16:
      return add<Datatype::kFloat16>(addend, elements, sums);
    case Datatype::kFloat32:
      return add<Datatype::kFloat32>(addend, elements, sums);
  }
}

void roundSums(Datatype datatype, std::span<const float> sums, std::byte* elements) noexcept {
  switch (datatype) {
    case Datatype::kBfloat16:
      return round<Datatype::kBfloat16>(sums, elements);
    case Datatype::kFloat16:
      return round<Datatype::kFloat16>(sums, elements);
    case Datatype::kFloat32:
      return round<Datatype::kFloat32>(sums, elements);
  }
}

}  // namespace zipccl::codec::avx2

ZIPCCL_END_TARGET
