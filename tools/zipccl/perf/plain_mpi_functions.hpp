// SPDX-License-Identifier: Apache-2.0
//
// The collectives of MPI itself, as a table of C functions, to be measured beside those of ZipCCL.
// libzipccl_perf_mpi.so gives it out; it is loaded at run time, so that the command starts where
// there is no MPI.

#pragma once

#include <cstdint>

extern "C" {

/// One call. Buffers are those of the C API's function of the same name, out of place.
struct ZipcclPlainMpiCall {
  int collective;  ///< a CollectiveName
  int datatype;    ///< a zipcclDataType_t
  int operation;   ///< a ReduceOperation
  int root;
  const void* send;
  void* receive;
  std::uint64_t count;         ///< the argument of the C API's function
  const std::uint64_t* parts;  ///< all-to-all: elements for each rank, the same lists on all ranks;
                               ///< null where all are `count`
};

/// Functions return MPI_SUCCESS, which is 0, or MPI's error code.
struct ZipcclPlainMpiFunctions {
  std::uint32_t version;      ///< kPlainMpiVersion
  std::uint32_t structBytes;  ///< sizeof(ZipcclPlainMpiFunctions)

  /// Collective, after MPI was initialised; close() before it is finalised.
  int (*open)();
  int (*close)();
  /// Why MPI cannot make this call; null where it can. Buffers do not matter.
  const char* (*refusal)(const ZipcclPlainMpiCall* call);
  int (*call)(const ZipcclPlainMpiCall* call);
  /// Texts with a closing zero, cut to `roomBytes`.
  void (*errorText)(int error, char* text, int roomBytes);
  void (*libraryVersion)(char* text, int roomBytes);
};

/// The one symbol of the plugin. Never null.
const ZipcclPlainMpiFunctions* zipcclPlainMpiFunctions();

}  // extern "C"

namespace zipccl::tools::perf {

/// Raised with every change above.
inline constexpr std::uint32_t kPlainMpiVersion = 1;
inline constexpr const char* kPlainMpiSymbol = "zipcclPlainMpiFunctions";
inline constexpr const char* kPlainMpiFile = "libzipccl_perf_mpi.so";

}  // namespace zipccl::tools::perf
