// SPDX-License-Identifier: Apache-2.0
//
// The intrinsics of the vector implementations as functions for any machine: those of SIMDe, and
// the few that Debian's version of it lacks, written from Intel's description of them. Code that is
// compiled with this folder first among its include folders runs where the instructions do not
// exist, slowly.

#pragma once

#define SIMDE_ENABLE_NATIVE_ALIASES
#include <simde/x86/avx512.h>

#include <bit>
#include <cstdint>
#include <cstring>

using __mmask16 = std::uint16_t;
using __mmask64 = std::uint64_t;

inline long long _mm_popcnt_u64(std::uint64_t a) { return std::popcount(a); }
inline std::uint64_t _tzcnt_u64(std::uint64_t a) {
  return static_cast<std::uint64_t>(std::countr_zero(a));
}
inline std::uint64_t _blsr_u64(std::uint64_t a) { return a & (a - 1); }

namespace zipccl::testing::emulated {

struct Bytes {
  alignas(64) std::uint8_t at[64];
};
inline Bytes bytesOf(simde__m512i a) { return std::bit_cast<Bytes>(a); }
inline simde__m512i vectorOf(const Bytes& bytes) { return std::bit_cast<simde__m512i>(bytes); }
inline bool isSet(std::uint64_t mask, unsigned i) { return (mask >> i & 1) != 0; }

}  // namespace zipccl::testing::emulated

inline simde__m512i _mm512_maskz_loadu_epi8(__mmask64 k, const void* from) {
  zipccl::testing::emulated::Bytes result{};
  for (unsigned i = 0; i < 64; ++i) {
    // Byte by byte, so that what the mask leaves out is not read.
    if (zipccl::testing::emulated::isSet(k, i)) {
      result.at[i] = static_cast<const std::uint8_t*>(from)[i];
    }
  }
  return zipccl::testing::emulated::vectorOf(result);
}

inline void _mm512_mask_storeu_epi8(void* to, __mmask64 k, simde__m512i a) {
  const auto bytes = zipccl::testing::emulated::bytesOf(a);
  for (unsigned i = 0; i < 64; ++i) {
    if (zipccl::testing::emulated::isSet(k, i)) static_cast<std::uint8_t*>(to)[i] = bytes.at[i];
  }
}

inline simde__m512i _mm512_mask_expand_epi8(simde__m512i src, __mmask64 k, simde__m512i a) {
  auto result = zipccl::testing::emulated::bytesOf(src);
  const auto bytes = zipccl::testing::emulated::bytesOf(a);
  unsigned from = 0;
  for (unsigned i = 0; i < 64; ++i) {
    if (zipccl::testing::emulated::isSet(k, i)) result.at[i] = bytes.at[from++];
  }
  return zipccl::testing::emulated::vectorOf(result);
}

inline simde__m512i _mm512_maskz_compress_epi8(__mmask64 k, simde__m512i a) {
  zipccl::testing::emulated::Bytes result{};
  const auto bytes = zipccl::testing::emulated::bytesOf(a);
  unsigned to = 0;
  for (unsigned i = 0; i < 64; ++i) {
    if (zipccl::testing::emulated::isSet(k, i)) result.at[to++] = bytes.at[i];
  }
  return zipccl::testing::emulated::vectorOf(result);
}

inline simde__m512i _mm512_shuffle_i64x2(simde__m512i a, simde__m512i b, int imm8) {
  zipccl::testing::emulated::Bytes result;
  const auto fromA = zipccl::testing::emulated::bytesOf(a);
  const auto fromB = zipccl::testing::emulated::bytesOf(b);
  for (unsigned i = 0; i < 4; ++i) {
    const auto quarter = static_cast<unsigned>(imm8) >> (2 * i) & 3;
    std::memcpy(result.at + 16 * i, (i < 2 ? fromA : fromB).at + 16 * quarter, 16);
  }
  return zipccl::testing::emulated::vectorOf(result);
}

inline long long _mm512_reduce_add_epi64(simde__m512i a) {
  long long parts[8];
  std::memcpy(parts, &a, sizeof parts);
  long long sum = 0;
  for (const long long part : parts) sum += part;
  return sum;
}
