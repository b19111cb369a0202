# SPDX-License-Identifier: Apache-2.0
#
# Looks for what is optional. Sets ZIPCCL_HAS_CUDA, ZIPCCL_HAS_MPI and ZIPCCL_HAS_ZSTD, with one status line for each; only
# a user who said ON gets an error where something is missing.

# zipccl_missing(<option> <what>): an error when the option is ON, else a status line.
function(zipccl_missing option what)
  if(${option} STREQUAL "AUTO")
    message(STATUS "zipccl: ${what}")
  else()
    message(FATAL_ERROR "${option}=${${option}}, but: ${what}")
  endif()
endfunction()

set(ZIPCCL_HAS_CUDA OFF)
if(ZIPCCL_CUDA)
  if(NOT CMAKE_CUDA_ARCHITECTURES)
    # One cubin for each generation, and PTX of the last one for those to come.
    set(CMAKE_CUDA_ARCHITECTURES
        80-real 86-real 89-real 90-real 100-real 120
        CACHE STRING "CUDA architectures")
  endif()
  include(CheckLanguage)
  check_language(CUDA)
  if(NOT CMAKE_CUDA_COMPILER)
    zipccl_missing(ZIPCCL_CUDA "no working nvcc, the GPU code is left out")
  else()
    enable_language(CUDA)
    # Only now: CMake's own check of the compiler fails on a standard that it has not yet looked for.
    if(NOT CMAKE_CUDA20_STANDARD_COMPILE_OPTION)
      # CMake 3.25 is older than nvcc's C++20.
      set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION "-std=c++20")
      set(CMAKE_CUDA20_EXTENSION_COMPILE_OPTION "-std=c++20")
    endif()
    set(CMAKE_CUDA_STANDARD 20)
    set(CMAKE_CUDA_STANDARD_REQUIRED ON)
    set(CMAKE_CUDA_EXTENSIONS OFF)
    set(CMAKE_CUDA_VISIBILITY_PRESET hidden)
    find_package(CUDAToolkit 12.0 QUIET)
    if(CUDAToolkit_FOUND)
      set(ZIPCCL_HAS_CUDA ON)
      message(STATUS "zipccl: CUDA ${CUDAToolkit_VERSION} for ${CMAKE_CUDA_ARCHITECTURES}")
    else()
      zipccl_missing(ZIPCCL_CUDA "no CUDA toolkit of version 12 or newer, the GPU code is left out")
    endif()
  endif()
else()
  message(STATUS "zipccl: the GPU code is switched off")
endif()

# Part of the toolkit, and of use without the rest of it.
find_path(ZIPCCL_NVTX_FOLDER nvtx3/nvToolsExt.h HINTS ${CUDAToolkit_INCLUDE_DIRS} PATHS /usr/local/cuda/include)
mark_as_advanced(ZIPCCL_NVTX_FOLDER)
if(ZIPCCL_NVTX_FOLDER)
  message(STATUS "zipccl: NVTX in ${ZIPCCL_NVTX_FOLDER}")
else()
  message(STATUS "zipccl: no NVTX, profilers see no ranges of calls")
endif()

set(ZIPCCL_HAS_MPI OFF)
if(ZIPCCL_MPI)
  set(MPI_CXX_SKIP_MPICXX ON)
  find_package(MPI QUIET COMPONENTS CXX)
  if(MPI_CXX_FOUND)
    set(ZIPCCL_HAS_MPI ON)
    message(STATUS "zipccl: MPI ${MPI_CXX_VERSION} (${MPIEXEC_EXECUTABLE})")
  else()
    zipccl_missing(ZIPCCL_MPI "no MPI, its transport is left out")
  endif()
else()
  message(STATUS "zipccl: the MPI transport is switched off")
endif()

# Only for the command to compare with; as a static library, so that the command starts where there is none.
set(ZIPCCL_HAS_ZSTD OFF)
find_library(ZIPCCL_ZSTD_LIBRARY NAMES libzstd.a zstd)
find_path(ZIPCCL_ZSTD_FOLDER zstd.h)
mark_as_advanced(ZIPCCL_ZSTD_LIBRARY ZIPCCL_ZSTD_FOLDER)
if(ZIPCCL_ZSTD_LIBRARY AND ZIPCCL_ZSTD_FOLDER)
  set(ZIPCCL_HAS_ZSTD ON)
else()
  message(STATUS "zipccl: no zstd (Debian: libzstd-dev), nothing is compared with it")
endif()

find_package(Threads REQUIRED)
