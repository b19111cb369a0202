# SPDX-License-Identifier: Apache-2.0
#
# What every target of the project is compiled with: the language, the warnings, visibility, sanitizers.
# Targets take it by linking the interface target zipccl_build_options, which is never exported.

if(NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "Build type" FORCE)
endif()

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_CXX_VISIBILITY_PRESET hidden)
set(CMAKE_C_VISIBILITY_PRESET hidden)
set(CMAKE_VISIBILITY_INLINES_HIDDEN ON)

add_library(zipccl_build_options INTERFACE)

target_compile_options(
  zipccl_build_options
  INTERFACE $<$<COMPILE_LANGUAGE:C,CXX>:-Wall;-Wextra;-Wpedantic;-Wconversion;-Wshadow>
            # As g++ understands -Wconversion and -Wshadow.
            $<$<COMPILE_LANG_AND_ID:CXX,Clang>:-Wno-sign-conversion;-Wno-shadow>
            $<$<COMPILE_LANG_AND_ID:C,Clang>:-Wno-sign-conversion>
            # nvcc's own output breaks -Wpedantic, and -Wconversion flags the CUDA headers' inline code.
            $<$<COMPILE_LANGUAGE:CUDA>:-Xcompiler=-Wall,-Wextra,-Wshadow>)

# g++ 12 sees overlapping and endless copies in std::string's own code where there are none (GCC bugs 105329
# and 105651). clang-tidy and the sanitizers find the real ones.
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  target_compile_options(
    zipccl_build_options
    INTERFACE
      "$<$<COMPILE_LANGUAGE:CXX>:-Wno-restrict;-Wno-stringop-overflow;-Wno-stringop-overread;-Wno-array-bounds>")
endif()

# Sources that are compiled as one are included, and g++ takes each for a header, in which no public type may have a
# member of an unnamed namespace's.
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_UNITY_BUILD)
  target_compile_options(zipccl_build_options INTERFACE "$<$<COMPILE_LANGUAGE:CXX>:-Wno-subobject-linkage>")
endif()

if(ZIPCCL_WERROR)
  target_compile_options(
    zipccl_build_options
    INTERFACE $<$<COMPILE_LANGUAGE:C,CXX>:-Werror>
              "$<$<COMPILE_LANGUAGE:CUDA>:SHELL:-Werror all-warnings>")
endif()

# Debug builds, which the sanitizer presets are too, also check the standard library's preconditions.
target_compile_definitions(zipccl_build_options INTERFACE $<$<CONFIG:Debug>:_GLIBCXX_ASSERTIONS>)

if(ZIPCCL_SANITIZE)
  set(sanitizeFlags -fsanitize=${ZIPCCL_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer)
  # NCCL's functions are called by types of our own that have the same binary interface, and MPI's too.
  if(CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
    list(APPEND sanitizeFlags -fno-sanitize=function)
  endif()
  target_compile_options(zipccl_build_options INTERFACE "$<$<COMPILE_LANGUAGE:C,CXX>:${sanitizeFlags}>")
  target_link_options(zipccl_build_options INTERFACE -fsanitize=${ZIPCCL_SANITIZE})
  # One runtime for the program and what it loads, as with g++. A program with libFuzzer loads nothing, and its
  # runtime has to come before libFuzzer's libraries.
  if(CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
    execute_process(
      COMMAND "${CMAKE_CXX_COMPILER}" -print-file-name=libclang_rt.asan-x86_64.so
      OUTPUT_VARIABLE sanitizerRuntime
      OUTPUT_STRIP_TRAILING_WHITESPACE)
    cmake_path(GET sanitizerRuntime PARENT_PATH runtimeFolder)
    target_link_options(
      zipccl_build_options
      INTERFACE
        "$<$<NOT:$<BOOL:$<TARGET_PROPERTY:ZIPCCL_FUZZER>>>:-shared-libsan;LINKER:-rpath,${runtimeFolder}>")
  endif()
endif()

# For tests: what costs most in the code of GoogleTest, and what the address sanitizer mostly sees as well, is left
# out. The checks of arithmetic stay, for the inline functions that a test calls. Without optimisation, sanitized
# tests compile in half the time.
#
# In a release they need not be fast either: what they test is as it is installed.
set(ZIPCCL_TEST_COMPILE_OPTIONS "$<$<AND:$<CONFIG:Release>,$<COMPILE_LANGUAGE:C,CXX>>:-O1>")
if(ZIPCCL_SANITIZE)
  list(APPEND ZIPCCL_TEST_COMPILE_OPTIONS "$<$<COMPILE_LANGUAGE:C,CXX>:-O0>")
endif()
if(ZIPCCL_SANITIZE MATCHES "fuzzer")
  list(APPEND ZIPCCL_TEST_COMPILE_OPTIONS "$<$<COMPILE_LANGUAGE:C,CXX>:-fno-sanitize=fuzzer-no-link>")
endif()
if(ZIPCCL_SANITIZE MATCHES "undefined")
  list(APPEND ZIPCCL_TEST_COMPILE_OPTIONS
       "$<$<COMPILE_LANGUAGE:C,CXX>:-fno-sanitize=null,object-size,vptr>")
endif()

# For what touches every value, which is optimised whatever the rest is. Sanitized code without optimisation would take
# minutes in sweeps, and compiles hardly faster.
set(ZIPCCL_SWEPT_COMPILE_OPTIONS "" CACHE STRING "Options for the code that touches every value")
mark_as_advanced(ZIPCCL_SWEPT_COMPILE_OPTIONS)
if(ZIPCCL_SANITIZE)
  set(ZIPCCL_SWEPT_COMPILE_OPTIONS "$<$<COMPILE_LANGUAGE:C,CXX>:-O2>")
endif()

# For floors alone: nobody asks which lines of a test run.
add_library(zipccl_coverage_options INTERFACE)
if(ZIPCCL_COVERAGE)
  # Atomic counters: ranks are threads.
  target_compile_options(
    zipccl_coverage_options INTERFACE "$<$<COMPILE_LANGUAGE:C,CXX>:--coverage;-fprofile-update=atomic>")
  # Whatever links a floor needs the counters' library.
  target_link_options(zipccl_build_options INTERFACE --coverage)
endif()
