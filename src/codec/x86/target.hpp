// SPDX-License-Identifier: Apache-2.0
//
// Code for instruction sets that not every machine has. Functions between ZIPCCL_BEGIN_AVX2 or
// ZIPCCL_BEGIN_AVX512 and ZIPCCL_END_TARGET are compiled for what is named there, whatever the rest
// of the library is compiled for.
//
// Regions, and not -mavx2 for a file: an inline function of a header that such a file uses would be
// compiled for AVX2 too, and the linker may take that copy for the whole program. So headers that
// are not written for a region are included before it begins. In a region there are no lambdas
// without captures and no defaults of members: the functions that the compiler makes of them do not
// belong to it.
//
// With ZIPCCL_EMULATE_VECTORS there are no regions: for a test that compiles the code with
// intrinsics that are functions for any machine.

#pragma once

#include <immintrin.h>

// What a region assumes is what cpu.hpp asks the machine for.
#define ZIPCCL_FEATURES_AVX2 "avx2,bmi,bmi2,f16c,lzcnt,popcnt"
#define ZIPCCL_FEATURES_AVX512 \
  ZIPCCL_FEATURES_AVX2 ",avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi,avx512vbmi2"

#define ZIPCCL_PRAGMA(text) _Pragma(#text)
#if defined(ZIPCCL_EMULATE_VECTORS)
#define ZIPCCL_BEGIN_TARGET(features)
#define ZIPCCL_END_TARGET
#elif defined(__clang__)
#define ZIPCCL_BEGIN_TARGET(features) \
  ZIPCCL_PRAGMA(clang attribute push(__attribute__((target(features))), apply_to = function))
#define ZIPCCL_END_TARGET ZIPCCL_PRAGMA(clang attribute pop)
#else
#define ZIPCCL_BEGIN_TARGET(features) \
  ZIPCCL_PRAGMA(GCC push_options) ZIPCCL_PRAGMA(GCC target(features))
#define ZIPCCL_END_TARGET ZIPCCL_PRAGMA(GCC pop_options)
#endif

#define ZIPCCL_BEGIN_AVX2 ZIPCCL_BEGIN_TARGET(ZIPCCL_FEATURES_AVX2)
#define ZIPCCL_BEGIN_AVX512 ZIPCCL_BEGIN_TARGET(ZIPCCL_FEATURES_AVX512)
