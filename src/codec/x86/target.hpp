// SPDX-License-Identifier: Apache-2.0
//
// Code for instruction sets that not every machine has. Functions between ZIPCCL_BEGIN_AVX2 and
// ZIPCCL_END_TARGET are compiled for AVX2, whatever the rest of the library is compiled for.
//
// Regions, and not -mavx2 for a file: an inline function of a header that such a file uses would be
// compiled for AVX2 too, and the linker may take that copy for the whole program. So headers that
// are not written for a region are included before it begins.

#pragma once

// What a region assumes is what cpu.hpp asks the machine for.
#if defined(__clang__)
#define ZIPCCL_BEGIN_AVX2                                                              \
  _Pragma(                                                                             \
      "clang attribute push(__attribute__((target(\"avx2,bmi,bmi2,lzcnt,popcnt\"))), " \
      "apply_to=function)")
#define ZIPCCL_END_TARGET _Pragma("clang attribute pop")
#else
#define ZIPCCL_BEGIN_AVX2 \
  _Pragma("GCC push_options") _Pragma("GCC target(\"avx2,bmi,bmi2,lzcnt,popcnt\")")
#define ZIPCCL_END_TARGET _Pragma("GCC pop_options")
#endif
