// SPDX-License-Identifier: Apache-2.0
//
// The engine that compresses NCCL's collectives, as an interposer sees it: one table of functions,
// which libzipccl.so gives out through zipcclGetNcclEngine(). C99 and C++. No header of NCCL or
// CUDA is needed: communicators and streams are void*, results and enumerators are NCCL's as int.
//
// The interposer owns the calls of the program and the real library; the engine owns what it makes
// of them. Nothing here throws, prints, or ends the program.

#ifndef ZIPCCL_NCCL_ENGINE_H
#define ZIPCCL_NCCL_ENGINE_H

#include <stddef.h>
#include <stdint.h>

#if !defined(ZIPCCL_API) && defined(__GNUC__)
#define ZIPCCL_API __attribute__((visibility("default")))
#elif !defined(ZIPCCL_API)
#define ZIPCCL_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

/// What zipcclGetNcclEngine() is asked for: rises when anything below changes its meaning.
#define ZIPCCL_NCCL_ENGINE_VERSION 1U

/// The functions of the one NCCL image of this process: `pncclX` where the image has it, else
/// `ncclX`. Must stay as long as a communicator is attached.
typedef struct {
  size_t size;  ///< sizeof(zipcclNcclApi)
  int version;  ///< what ncclGetVersion gave, such as 22809
  void* image;  ///< handle of dlopen, not owned
  const char* (*getErrorString)(int result);
  const char* (*getLastError)(void* comm);
  int (*groupStart)(void);
  int (*groupEnd)(void);
  int (*commCount)(void* comm, int* count);
  int (*commUserRank)(void* comm, int* rank);
  int (*commCuDevice)(void* comm, int* device);
  int (*commGetAsyncError)(void* comm, int* asyncError);
  int (*commSplit)(void* comm, int color, int key, void** newcomm, void* config);
  int (*commDestroy)(void* comm);
  int (*commAbort)(void* comm);
  int (*allGather)(const void* sendbuff, void* recvbuff, size_t sendcount, int datatype, void* comm,
                   void* stream);
  int (*reduceScatter)(const void* sendbuff, void* recvbuff, size_t recvcount, int datatype, int op,
                       void* comm, void* stream);
  int (*allReduce)(const void* sendbuff, void* recvbuff, size_t count, int datatype, int op,
                   void* comm, void* stream);
  int (*broadcast)(const void* sendbuff, void* recvbuff, size_t count, int datatype, int root,
                   void* comm, void* stream);
  int (*reduce)(const void* sendbuff, void* recvbuff, size_t count, int datatype, int op, int root,
                void* comm, void* stream);
  /// NULL where the image lacks these three, which came with 2.28.
  int (*allToAll)(const void* sendbuff, void* recvbuff, size_t count, int datatype, void* comm,
                  void* stream);
  int (*gather)(const void* sendbuff, void* recvbuff, size_t count, int datatype, int root,
                void* comm, void* stream);
  int (*scatter)(const void* sendbuff, void* recvbuff, size_t count, int datatype, int root,
                 void* comm, void* stream);
  int (*send)(const void* sendbuff, size_t count, int datatype, int peer, void* comm, void* stream);
  int (*recv)(void* recvbuff, size_t count, int datatype, int peer, void* comm, void* stream);
} zipcclNcclApi;

typedef enum {
  zipcclNcclAllGather = 0,
  zipcclNcclReduceScatter = 1,
  zipcclNcclAllReduce = 2,
  zipcclNcclBroadcast = 3,  ///< ncclBcast too
  zipcclNcclReduce = 4,
  zipcclNcclAlltoAll = 5,
  zipcclNcclGather = 6,
  zipcclNcclScatter = 7,
  zipcclNcclSend = 8,
  zipcclNcclRecv = 9,
  zipcclNcclNumKinds = 10,
} zipcclNcclKind;

/// One call as the program made it.
typedef struct {
  zipcclNcclKind kind;
  int isGrouped;  ///< not 0: between GroupStart and GroupEnd; its peers may group otherwise
  const void* sendbuff;
  void* recvbuff;
  size_t count;  ///< NCCL's sendcount, recvcount or count
  int datatype;
  int op;          ///< of a reduction: one of NCCL's five, or an opaque one
  int peer;        ///< or root
  void* comm;      ///< ncclComm_t
  void* attached;  ///< what attach() gave for comm; NULL: the call goes as it is
  void* stream;    ///< cudaStream_t
} zipcclNcclCall;

/// Functions that return int return a ncclResult_t unless the text says otherwise.
typedef struct {
  size_t size;       ///< sizeof(zipcclNcclEngine)
  uint32_t version;  ///< ZIPCCL_NCCL_ENGINE_VERSION

  /// After the real init of `count` communicators by this thread (several: the inits of one group,
  /// at its end); all ranks of each do the same. Shakes hands with the other ranks, which moves
  /// data, and measures links where nothing is known of them. attached[i] is what the other
  /// functions take, or NULL where communicator i stays native; why stands in the log then. Waits
  /// for other ranks up to the time limit of the settings, after which the communicator is attached
  /// with a sticky error: a rank without ZipCCL cannot be told apart from a late one.
  void (*attach)(const zipcclNcclApi* api, void* const comms[], int count, void* attached[]);

  /// Before the real ncclCommFinalize or ncclCommDestroy, once. May wait for the engine's own work
  /// on that communicator.
  void (*detach)(void* attached);

  /// Before the real ncclCommAbort or ncclCommRevoke, by any thread at any time, more than once.
  /// Ends what the engine waits for on that communicator; does not wait itself, and calls neither
  /// NCCL nor CUDA. detach() is still needed, once no thread is inside run().
  void (*abort)(void* attached);

  /// Whether run() may make anything else of the call than the real one: 0 or 1. A few comparisons.
  /// A call outside a group for which it says 0 need not come to run().
  int (*wants)(const zipcclNcclCall* call);

  /// ncclInvalidArgument for a call that the real function would refuse at once, for calls that are
  /// kept until their group ends; words by lastError(). Else ncclSuccess.
  int (*check)(const zipcclNcclCall* call);

  /// Makes the calls of one outermost group, or one single call, with the real group not open.
  /// Calls that are not transformed are made as they are, in their order. Returns the first error,
  /// as the real GroupEnd does; ncclInProgress where that did.
  int (*run)(const zipcclNcclCall* calls, size_t count);

  /// What ncclCommGetAsyncError shall give where the real one gave `real`.
  int (*asyncError)(void* attached, int real);

  /// The last error of the engine on that communicator, in words, or NULL: the real ones count.
  /// Valid until the next call of this thread.
  const char* (*lastError)(void* attached);

  /// After a successful ncclRedOpCreatePreMulSum: `scalar` as it was passed; `residence` 0: device
  /// memory, 1: host memory.
  void (*redOpCreated)(void* attached, int op, const void* scalar, int datatype, int residence);
  void (*redOpDestroyed)(void* attached, int op);

  /// After a successful ncclCommWindowRegister, before ncclCommWindowDeregister. Calls on buffers
  /// in symmetric windows, which all ranks have, go as they are.
  void (*windowRegistered)(void* attached, void* buffer, size_t bytes, void* window);
  void (*windowDeregistered)(void* attached, void* window);
} zipcclNcclEngine;

/// The engine, static lifetime; NULL where this library has none of that `version`.
ZIPCCL_API const zipcclNcclEngine* zipcclGetNcclEngine(uint32_t version);

#ifdef __cplusplus
}
#endif

#endif
