// SPDX-License-Identifier: Apache-2.0
//
// The C API of ZipCCL: collectives that move fewer bytes and deliver the same bits, in NCCL's
// manner. C99 and C++. Nothing here needs MPI, CUDA or NCCL to compile or to link.
//
// Communicators on GPU memory are made over NCCL's (zipccl/zipccl_nccl.h, which says what is
// different there); those of this file work on host memory.
//
// A communicator holds one rank of a group of ranks. On host communicators (threads of one process,
// MPI processes) a collective returns when its result stands in `recvbuff`, and `stream` is NULL.
// Every rank of the communicator makes the same collective calls in the same order with the same
// count and datatype. One thread at a time makes a collective call on one communicator (a second
// one gets zipcclInvalidUsage); zipcclCommAbort, zipcclCommGetAsyncError, zipcclCommGetStats and
// the two queries may be called by any thread at any time until the communicator is destroyed.
//
// Functions return a zipcclResult_t; no other state tells of success. After a failure
// zipcclGetLastError says what happened in words.

#ifndef ZIPCCL_ZIPCCL_H
#define ZIPCCL_ZIPCCL_H

#include <limits.h>
#include <stddef.h>
#include <stdint.h>
#include <zipccl/version.h>

#if !defined(ZIPCCL_API) && defined(__GNUC__)
#define ZIPCCL_API __attribute__((visibility("default")))
#elif !defined(ZIPCCL_API)
#define ZIPCCL_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

/// What a function returns: names and values of ncclResult_t.
typedef enum {
  zipcclSuccess = 0,
  zipcclUnhandledCudaError = 1,  ///< a call to CUDA failed
  zipcclSystemError = 2,      ///< a call to the system, to MPI or to NCCL failed, or memory ran out
  zipcclInternalError = 3,    ///< a fault of ZipCCL
  zipcclInvalidArgument = 4,  ///< an argument is wrong by itself; nothing was started
  zipcclInvalidUsage = 5,     ///< calls that do not fit each other, on one rank or between ranks
  zipcclRemoteError = 6,      ///< another rank failed, left, never came or sent damaged bytes
  zipcclInProgress = 7,       ///< no error: not complete yet; never returned by host communicators
  zipcclNumResults = 8
} zipcclResult_t;

/// Datatypes: names and values of ncclDataType_t. bfloat16, float16 and float32 are compressed;
/// all others travel as they are.
typedef enum {
  zipcclInt8 = 0,
  zipcclChar = 0,
  zipcclUint8 = 1,
  zipcclInt32 = 2,
  zipcclInt = 2,
  zipcclUint32 = 3,
  zipcclInt64 = 4,
  zipcclUint64 = 5,
  zipcclFloat16 = 6,
  zipcclHalf = 6,
  zipcclFloat32 = 7,
  zipcclFloat = 7,
  zipcclFloat64 = 8,
  zipcclDouble = 8,
  zipcclBfloat16 = 9,
  zipcclFloat8e4m3 = 10,
  zipcclFloat8e5m2 = 11,
  zipcclNumTypes = 12
} zipcclDataType_t;

/// Operations of reductions: names and values of ncclRedOp_t. zipcclRedOpCreatePreMulSum makes
/// more.
///
/// What is computed, in this order, whether a call is compressed or not: of Sum, Avg and PreMulSum
/// of floating-point elements each addend is multiplied by the factor and rounded to the datatype,
/// unless the factor is 1; addends are added in fp32 (float64: in fp64) in the order of the ranks;
/// the sum is rounded once. The factor of Avg is 1 / ranks rounded to the datatype. Prod, Max and
/// Min take the same order and rounding. NaNs come out canonical (0x7FFF, 0x7FFFFFFF). Integers
/// wrap around, and their Avg divides the sum, towards zero. So a reduction gives the same bits on
/// every run. Only Sum, Avg and PreMulSum are compressed.
typedef enum {
  zipcclSum = 0,
  zipcclProd = 1,
  zipcclMax = 2,
  zipcclMin = 3,
  zipcclAvg = 4,
  zipcclNumOps = 5,
  zipcclMaxRedOp = 0x7fffffff
} zipcclRedOp_t;

/// Where the scalar of zipcclRedOpCreatePreMulSum is: values of ncclScalarResidence_t.
typedef enum {
  zipcclScalarDevice =
      0,  ///< in device memory, read when a call uses it; not on host communicators
  zipcclScalarHostImmediate = 1  ///< in host memory, read before the function returns
} zipcclScalarResidence_t;

/// How a collective moves its data.
typedef enum {
  zipcclStrategyAuto = 0,    ///< the policy chooses for each call
  zipcclStrategyNative = 1,  ///< the transport's own collective, bytes untouched
  zipcclStrategyStaged = 2,  ///< encode, exchange, decode
  zipcclNumStrategies = 3
} zipcclStrategy_t;

/// One rank of a communicator.
typedef struct zipcclComm* zipcclComm_t;

/// What calls are ordered by: a cudaStream_t on GPU communicators, NULL on host communicators.
typedef void* zipcclStream_t;

/// A field of zipcclConfig_t that holds this is taken from the environment, else from the default.
#define ZIPCCL_CONFIG_UNDEF_INT INT_MIN
#define ZIPCCL_CONFIG_UNDEF_INT64 INT64_MIN

/// Settings of one communicator. Start from ZIPCCL_CONFIG_INITIALIZER and set what matters: a field
/// that is set wins over its environment variable, an unset one takes the variable and then the
/// default. ZIPCCL_DISABLE=1 in the environment makes every call native whatever stands here.
///
/// All settings up to maxScratchBytes must be equal on all ranks. Where they are not, compression
/// is off for that communicator on all its ranks, and rank 0 logs one warning that names ranks and
/// values.
typedef struct {
  size_t size;              ///< set by the initializer; tells the library which fields there are
  unsigned int magic;       ///< set by the initializer
  unsigned int version;     ///< set by the initializer, the ZIPCCL_VERSION_CODE compiled against;
                            ///< reserved, ignored by this library
  int strategy;             ///< a zipcclStrategy_t. ZIPCCL_STRATEGY; auto
  int checksum;             ///< 1: frames carry a checksum of the content; 0
  int64_t minBytes;         ///< fewer bytes a rank than this go native. ZIPCCL_MIN_BYTES; 0
  int64_t maxScratchBytes;  ///< bound of this communicator's scratch memory on each rank.
                            ///< ZIPCCL_MAX_SCRATCH; 256 MiB
  int64_t timeoutMs;        ///< longest wait for a rank, up to a year; 0: forever.
                            ///< ZIPCCL_TIMEOUT (in seconds); 30 min. With MPI, once every rank has
                            ///< come to a message of 1 MiB a rank or more, MPI_Allgather moves it,
                            ///< which no time limit ends

  /// For measurements on local communicators: bytes a second of an emulated link of each rank, in
  /// each direction; 0: as fast as memory is. Rank 0's counts.
  int64_t emulatedLinkBytesPerSecond;
} zipcclConfig_t;

#define ZIPCCL_CONFIG_MAGIC 0x7A63636CU

#define ZIPCCL_CONFIG_INITIALIZER                                                              \
  {                                                                                            \
    sizeof(zipcclConfig_t), ZIPCCL_CONFIG_MAGIC, ZIPCCL_VERSION_CODE, ZIPCCL_CONFIG_UNDEF_INT, \
        ZIPCCL_CONFIG_UNDEF_INT, ZIPCCL_CONFIG_UNDEF_INT64, ZIPCCL_CONFIG_UNDEF_INT64,         \
        ZIPCCL_CONFIG_UNDEF_INT64, ZIPCCL_CONFIG_UNDEF_INT64                                   \
  }

#define ZIPCCL_REASON_CHARS 192

/// What one rank of a communicator has done since it was created. Only calls that succeeded count.
/// "Sent" bytes are what leaves this rank when every rank's part reaches every other rank:
/// (ranks - 1) times the part, paddings and headers included.
typedef struct {
  size_t size;                ///< set by the initializer; tells the library which fields there are
  uint64_t calls;             ///< collective calls; nativeCalls + stagedCalls
  uint64_t nativeCalls;       ///< among them, those whose bytes travelled untouched
  uint64_t stagedCalls;       ///< among them, those that were compressed
  uint64_t dynamicCalls;      ///< staged calls in which some rank had a dynamic part
  uint64_t inputBytes;        ///< uncompressed bytes of this rank's own contributions
  uint64_t stagedInputBytes;  ///< the part of inputBytes that was compressed
  uint64_t encodedBytes;      ///< frames made of stagedInputBytes: static and dynamic parts
  uint64_t wireBytesSent;     ///< bytes sent to other ranks by all calls, native ones too
  uint64_t chunks;            ///< chunks that the staged calls were cut into
  uint64_t scratchBytes;      ///< scratch memory held now; it never shrinks
  int compressionAgreed;      ///< 0: a mismatch between ranks switched compression off
  int lastStrategy;           ///< a zipcclStrategy_t: how the last call went
  char lastReason[ZIPCCL_REASON_CHARS];  ///< why, in words; empty before the first call
} zipcclCommStats_t;

#define ZIPCCL_COMM_STATS_INITIALIZER                                       \
  {                                                                         \
    sizeof(zipcclCommStats_t), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, { '\0' } \
  }

/// Writes the library's version, counted as ZIPCCL_VERSION_CODE, to `version`.
/// zipcclInvalidArgument when it is NULL.
ZIPCCL_API zipcclResult_t zipcclGetVersion(int* version);

/// NCCL's words for `result`; never NULL, static lifetime.
ZIPCCL_API const char* zipcclGetErrorString(zipcclResult_t result);

/// `auto`, `native` or `staged`, `unknown` for another value; static lifetime.
ZIPCCL_API const char* zipcclGetStrategyName(zipcclStrategy_t strategy);

/// What went wrong last, in words: on `comm` (whichever thread called), or with `comm` NULL in the
/// calling thread (on whichever communicator). Never NULL, empty when nothing did; valid until the
/// calling thread's next call of this function. Success does not clear it. Of a handle that is no
/// communicator, or no longer one as far as can be told, it says just that.
ZIPCCL_API const char* zipcclGetLastError(zipcclComm_t comm);

/// Creates the `nranks` (1 to 1024) communicators of one group inside this process, rank i in
/// comms[i], for as many threads. The ranks exchange data through shared memory. `config` may be
/// NULL.
///
/// On failure no communicator exists and comms[] is all NULL.
ZIPCCL_API zipcclResult_t zipcclCommInitAllLocal(zipcclComm_t* comms, int nranks,
                                                 const zipcclConfig_t* config);

/// As zipcclCommInitAllLocal, with the settings of each rank in configs[rank], all of one `size`.
ZIPCCL_API zipcclResult_t zipcclCommInitAllLocalConfigs(zipcclComm_t* comms, int nranks,
                                                        const zipcclConfig_t* configs);

/// Creates this process's communicator over MPI_COMM_WORLD (over other MPI communicators: see
/// zipccl/mpi.h). Collective: every process of the world
/// calls it. Loads libmpi through the plugin libzipccl_mpi.so on first use: zipcclSystemError names
/// what is missing. MPI is initialised if the caller has not done so, and then finalised at exit.
/// Where the caller did, MPI_COMM_WORLD's error handler, which ends the program unless the caller
/// chose another, gets the errors of MPI that concern no communicator of ZipCCL.
///
/// MPI is used with MPI_THREAD_SERIALIZED: while one thread is inside a call on an MPI
/// communicator, no other may use MPI or another MPI communicator. zipcclCommAbort is free of this,
/// but other ranks notice it in their next call, once this rank makes a call or destroys the
/// communicator. Messages of 1 MiB a rank and more are moved by MPI_Allgather as soon as every rank
/// has come: while it runs, neither zipcclCommAbort nor timeoutMs ends it. After a failure MPI may
/// still touch the buffers of the call that failed: end the program or keep them.
///
/// zipcclRemoteError when a rank has not come within the time limit; *comm is NULL on failure.
/// `config` may be NULL.
ZIPCCL_API zipcclResult_t zipcclCommInitMpi(zipcclComm_t* comm, const zipcclConfig_t* config);

/// What zipcclCommInitMpiComm() of zipccl/mpi.h calls: zipcclCommInitMpi over the ranks of another
/// communicator. `parent` points to an MPI_Comm of `parentBytes` bytes, `mpiLibrary` is what
/// MPI_Get_library_version() tells the caller.
ZIPCCL_API zipcclResult_t zipcclCommInitMpiHandle(zipcclComm_t* comm, const void* parent,
                                                  size_t parentBytes, const char* mpiLibrary,
                                                  const zipcclConfig_t* config);

/// Frees a communicator. No other thread may be inside a call on it, and none may use it
/// afterwards. Ranks may be destroyed in any order; with MPI before MPI_Finalize. NULL is accepted.
ZIPCCL_API zipcclResult_t zipcclCommDestroy(zipcclComm_t comm);

/// Ends what any thread of any rank is waiting for on this communicator: those calls, and all later
/// ones, fail with zipcclRemoteError or zipcclInvalidUsage, and the message names the rank that
/// aborted. May be called by any thread at any time before zipcclCommDestroy, which is still needed
/// (unlike ncclCommAbort, this frees nothing: a thread may be inside a call that blocks).
ZIPCCL_API zipcclResult_t zipcclCommAbort(zipcclComm_t comm);

/// Writes the number of ranks to `count`.
ZIPCCL_API zipcclResult_t zipcclCommCount(const zipcclComm_t comm, int* count);

/// Writes this communicator's rank to `rank`.
ZIPCCL_API zipcclResult_t zipcclCommUserRank(const zipcclComm_t comm, int* rank);

/// Writes to `asyncError` what every further collective call on `comm` would return: zipcclSuccess,
/// or the error that ended the communicator, here or on another rank. Such an error is sticky:
/// destroy the communicator. Over MPI a rank learns of another's failure only inside its own
/// collective calls: this function does not look, and says zipcclSuccess until then.
ZIPCCL_API zipcclResult_t zipcclCommGetAsyncError(zipcclComm_t comm, zipcclResult_t* asyncError);

/// Fills `stats`, whose `size` must be set (ZIPCCL_COMM_STATS_INITIALIZER).
ZIPCCL_API zipcclResult_t zipcclCommGetStats(zipcclComm_t comm, zipcclCommStats_t* stats);

/// Gathers `sendcount` elements of each rank: those of rank i stand at element i * sendcount of
/// `recvbuff` on every rank, bit for bit.
///
/// `recvbuff` holds sendcount * (number of ranks) elements. In place when sendbuff == recvbuff +
/// rank * sendcount elements; any other overlap is zipcclInvalidArgument. Buffers may have any
/// alignment and may be NULL when sendcount is 0, which returns at once. Datatypes that have no
/// frame format travel as they are. `stream` is NULL on host communicators.
///
/// zipcclInvalidArgument: nothing was sent, and the communicator is as it was. Any other error ends
/// the communicator on all ranks (zipcclCommGetAsyncError); `recvbuff` may then hold anything.
ZIPCCL_API zipcclResult_t zipcclAllGather(const void* sendbuff, void* recvbuff, size_t sendcount,
                                          zipcclDataType_t datatype, zipcclComm_t comm,
                                          zipcclStream_t stream);

/// Sends `count` elements to each rank and receives as many from each: those for rank j stand at
/// element j * count of `sendbuff`, those of rank i come to element i * count of `recvbuff`, bit
/// for bit.
///
/// Both buffers hold count * (number of ranks) elements and must not overlap; there is no in-place
/// form. The rest as with zipcclAllGather.
ZIPCCL_API zipcclResult_t zipcclAlltoAll(const void* sendbuff, void* recvbuff, size_t count,
                                         zipcclDataType_t datatype, zipcclComm_t comm,
                                         zipcclStream_t stream);

/// zipcclAlltoAll with parts of any size. This rank sends sendcounts[j] elements from element
/// sdispls[j] of `sendbuff` to rank j, and receives recvcounts[i] elements of rank i, which are
/// rank i's sendcounts of this rank, to element rdispls[i] of `recvbuff`.
///
/// The four lists have an entry for each rank, may go when the function returns, and count
/// elements. Zeros are allowed anywhere. Parts of `recvbuff` overlap neither each other nor parts
/// of `sendbuff`. The rest as with zipcclAllGather.
ZIPCCL_API zipcclResult_t zipcclAlltoAllv(const void* sendbuff, const size_t sendcounts[],
                                          const size_t sdispls[], void* recvbuff,
                                          const size_t recvcounts[], const size_t rdispls[],
                                          zipcclDataType_t datatype, zipcclComm_t comm,
                                          zipcclStream_t stream);

/// Reduces the elements of all ranks and gives each rank its part: rank r gets, in `recvbuff`, the
/// reduced elements r * recvcount to (r + 1) * recvcount of all `sendbuff`.
///
/// `sendbuff` holds recvcount * (number of ranks) elements. In place when recvbuff == sendbuff +
/// rank * recvcount elements; any other overlap is zipcclInvalidArgument. What is computed stands
/// with zipcclRedOp_t; 8-bit floating-point datatypes are zipcclInvalidArgument. The rest as with
/// zipcclAllGather.
ZIPCCL_API zipcclResult_t zipcclReduceScatter(const void* sendbuff, void* recvbuff,
                                              size_t recvcount, zipcclDataType_t datatype,
                                              zipcclRedOp_t op, zipcclComm_t comm,
                                              zipcclStream_t stream);

/// Reduces the `count` elements of all ranks for all ranks: every `recvbuff` holds the same bits.
/// In place when sendbuff == recvbuff. The rest as with zipcclReduceScatter.
ZIPCCL_API zipcclResult_t zipcclAllReduce(const void* sendbuff, void* recvbuff, size_t count,
                                          zipcclDataType_t datatype, zipcclRedOp_t op,
                                          zipcclComm_t comm, zipcclStream_t stream);

/// Makes `op` the operation that multiplies each addend by `*scalar`, one element of `datatype`,
/// and adds: for calls on `comm` with that datatype, until zipcclRedOpDestroy. Not a collective
/// call, but every rank of a call must have the same scalar. zipcclInvalidArgument for a null
/// pointer, and for zipcclScalarDevice on a host communicator.
ZIPCCL_API zipcclResult_t zipcclRedOpCreatePreMulSum(zipcclRedOp_t* op, void* scalar,
                                                     zipcclDataType_t datatype,
                                                     zipcclScalarResidence_t residence,
                                                     zipcclComm_t comm);

/// Ends an operation of zipcclRedOpCreatePreMulSum; no group that is open may hold a call with it.
/// zipcclInvalidArgument for one that is none of `comm`.
ZIPCCL_API zipcclResult_t zipcclRedOpDestroy(zipcclRedOp_t op, zipcclComm_t comm);

/// Copies the `count` elements of rank `root` to `recvbuff` on every rank, bit for bit. `sendbuff`
/// counts on the root only; in place when it is recvbuff. The rest as with zipcclAllGather.
ZIPCCL_API zipcclResult_t zipcclBroadcast(const void* sendbuff, void* recvbuff, size_t count,
                                          zipcclDataType_t datatype, int root, zipcclComm_t comm,
                                          zipcclStream_t stream);

/// Gathers `sendcount` elements of each rank on rank `root`: those of rank i stand at element
/// i * sendcount of its `recvbuff`, which counts there only, bit for bit. In place on the root when
/// sendbuff == recvbuff + root * sendcount elements. The rest as with zipcclAllGather.
ZIPCCL_API zipcclResult_t zipcclGather(const void* sendbuff, void* recvbuff, size_t sendcount,
                                       zipcclDataType_t datatype, int root, zipcclComm_t comm,
                                       zipcclStream_t stream);

/// Gives each rank its `recvcount` elements of rank `root`: those for rank i stand at element
/// i * recvcount of its `sendbuff`, which counts there only, bit for bit. In place on the root when
/// recvbuff == sendbuff + root * recvcount elements. The rest as with zipcclAllGather.
ZIPCCL_API zipcclResult_t zipcclScatter(const void* sendbuff, void* recvbuff, size_t recvcount,
                                        zipcclDataType_t datatype, int root, zipcclComm_t comm,
                                        zipcclStream_t stream);

/// Sends `count` elements to rank `peer`, which calls zipcclRecv with the same count and datatype.
/// Sends and receives between two ranks match in the order of their calls.
///
/// In a group (zipcclGroupStart) they are compressed as the two ranks' policy decides, all of the
/// group at once, in any order of calls, to oneself too. Outside a group they go native, and return
/// when the peer has taken the data, or it has come. Both ends of a message are inside a group, or
/// neither: otherwise zipcclInvalidUsage ends the communicator. No elements are no message.
///
/// Errors as with zipcclAllGather.
ZIPCCL_API zipcclResult_t zipcclSend(const void* sendbuff, size_t count, zipcclDataType_t datatype,
                                     int peer, zipcclComm_t comm, zipcclStream_t stream);

/// The other end of zipcclSend: `count` elements of rank `peer` come to `recvbuff`, bit for bit.
ZIPCCL_API zipcclResult_t zipcclRecv(void* recvbuff, size_t count, zipcclDataType_t datatype,
                                     int peer, zipcclComm_t comm, zipcclStream_t stream);

/// Begins a group of this thread's calls: collectives and zipcclSend and zipcclRecv, on any
/// communicators, only check their arguments from here on. Groups may be nested.
ZIPCCL_API zipcclResult_t zipcclGroupStart(void);

/// Ends the innermost group. At the end of the outermost one its calls are made, and the function
/// returns when all are done: on each communicator the collectives in their order, then all sends
/// and receives at once; local communicators side by side, each in a thread of its own, so that one
/// thread may drive several ranks; where one of them is over MPI, one after the other in the order
/// of their first calls.
///
/// The first error of a call is returned. If a call failed before this one, none is made, and that
/// error is returned again. zipcclInvalidUsage without a group.
ZIPCCL_API zipcclResult_t zipcclGroupEnd(void);

#ifdef __cplusplus
}
#endif

#endif
