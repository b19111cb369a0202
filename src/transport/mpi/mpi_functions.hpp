// SPDX-License-Identifier: Apache-2.0
//
// What the MPI transport needs of MPI, as a table of C functions. libzipccl_mpi.so is the only
// thing that is built against an mpi.h and linked to a libmpi; it gives out this table and nothing
// else, so that the transport itself (mpi_transport.cpp) is the same for every MPI, no exception
// crosses the border, and tests can put a table of their own in its place.

#pragma once

#include <cstdint>

extern "C" {

/// An MPI_Comm or an MPI_Request, which are pointers in one MPI and integers in another. The plugin
/// keeps the handle itself in `storage`; a request of all zero bytes is none.
struct ZipcclMpiHandle {
  std::uint64_t storage[2];
};

/// Every function returns MPI_SUCCESS, which is 0, or MPI's error code, and never throws. Counts of
/// bytes may exceed 2^31. Functions that start something write its request, which testRequest()
/// ends.
struct ZipcclMpiFunctions {
  std::uint32_t version;      ///< kMpiPluginVersion
  std::uint32_t structBytes;  ///< sizeof(ZipcclMpiFunctions)

  /// Initialises MPI with a thread level of at least MPI_THREAD_SERIALIZED where the library has
  /// it, unless that was done before. `*wasFinalised`: MPI was finalised already, nothing can be
  /// done.
  int (*initialise)(int* didInitialise, int* wasFinalised);
  /// Whether the thread level allows the calling thread to use MPI: 0 or 1.
  int (*mayThisThreadCall)(int* answer);
  int (*isFinalised)(int* answer);
  int (*finalise)();

  /// The texts, with a closing zero, cut to `roomBytes`.
  void (*errorText)(int error, char* text, int roomBytes);
  void (*libraryVersion)(char* text, int roomBytes);
  /// Whether `error` says that a message was longer than the room for it.
  int (*isTruncation)(int error);

  /// A communicator with the ranks of `parent`, an MPI_Comm of so many bytes, or of MPI_COMM_WORLD
  /// where it is null; `comm` must stay in place until the request ends, then finishComm() makes it
  /// return its errors and gives rank and size.
  int (*startDuplicate)(const void* parent, std::uint64_t parentBytes, ZipcclMpiHandle* comm,
                        ZipcclMpiHandle* request);
  int (*finishComm)(ZipcclMpiHandle* comm, int* rank, int* rankCount);
  int (*freeComm)(ZipcclMpiHandle* comm);

  int (*startSend)(const ZipcclMpiHandle* comm, const void* data, std::uint64_t bytes, int peer,
                   int tag, ZipcclMpiHandle* request);
  /// The same, but not complete before the receiver has begun to receive.
  int (*startSynchronousSend)(const ZipcclMpiHandle* comm, const void* data, std::uint64_t bytes,
                              int peer, int tag, ZipcclMpiHandle* request);
  int (*startReceive)(const ZipcclMpiHandle* comm, void* data, std::uint64_t bytes, int peer,
                      int tag, ZipcclMpiHandle* request);

  /// A null `send` is MPI_IN_PLACE, on all ranks or on none.
  int (*startAllGather)(const ZipcclMpiHandle* comm, const void* send, void* receive,
                        std::uint64_t bytesPerRank, ZipcclMpiHandle* request);
  int (*allGather)(const ZipcclMpiHandle* comm, const void* send, void* receive,
                   std::uint64_t bytesPerRank);
  int (*startBroadcast)(const ZipcclMpiHandle* comm, void* buffer, std::uint64_t bytes, int root,
                        ZipcclMpiHandle* request);
  int (*startBarrier)(const ZipcclMpiHandle* comm, ZipcclMpiHandle* request);

  /// Makes progress; where the request is complete, or ended by the error returned, `*isDone` is 1
  /// and
  /// `*request` none. `*messageBytes` is then what a receive got, or would have got.
  int (*testRequest)(ZipcclMpiHandle* request, int* isDone, std::uint64_t* messageBytes);
  /// Asks for the end of a receive; testRequest() ends it.
  int (*cancelRequest)(ZipcclMpiHandle* request);

  /// Looks for a message of `tag` from anyone and receives it if there is one: `*source` is its
  /// rank, or -1. `*bytes` is the room and becomes the message's size.
  int (*receiveAny)(const ZipcclMpiHandle* comm, int tag, void* data, std::uint64_t* bytes,
                    int* source);
};

/// The one symbol of the plugin. Never null.
const ZipcclMpiFunctions* zipcclMpiFunctions();

}  // extern "C"

namespace zipccl::transport {

/// Raised with every change of ZipcclMpiFunctions.
inline constexpr std::uint32_t kMpiPluginVersion = 3;
inline constexpr const char* kMpiPluginSymbol = "zipcclMpiFunctions";
inline constexpr const char* kMpiPluginFile = "libzipccl_mpi.so";

}  // namespace zipccl::transport
