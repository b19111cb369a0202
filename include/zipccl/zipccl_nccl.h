// SPDX-License-Identifier: Apache-2.0
//
// Communicators over an ncclComm_t of the program: for programs that use NCCL and want to name the
// calls that may travel compressed. (Programs that are to stay as they are take the drop-in,
// docs/dropin.md.) C99 and C++. Neither nccl.h nor CUDA's headers are needed: `struct ncclComm*` is
// what NCCL calls ncclComm_t and zipcclStream_t takes a cudaStream_t, so this file may be included
// before nccl.h, after it, or without it.
//
// A communicator that was made here takes every function of zipccl/zipccl.h that takes a
// zipcclComm_t, with the contracts that stand there and these differences:
//
// Buffers are memory of the communicator's device.
//
// Stream order is NCCL's: a call returns when it is queued and is done in the order of `stream`;
// NULL is CUDA's legacy default stream. The host waits for the device only in the first three calls
// of a kind of call (collective, datatype, number of bits of the count), and for other ranks where
// a rank is more than 8 calls ahead of what has arrived. A call may not stand between NCCL's own
// ncclGroupStart and ncclGroupEnd; zipcclGroupStart and zipcclGroupEnd take their place. All calls
// of such a group, of all its communicators over NCCL, go together, as in one group of NCCL.
//
// In what order a thread calls NCCL itself and ZipCCL on one ncclComm_t, its other ranks must call
// them too.
//
// zipcclSend and zipcclRecv are compressed outside groups as in them, and both ends need not agree
// on being inside a group. A zipcclAlltoAllv is one group of them, and ZIPCCL_COLLS counts it among
// SendRecv. With an NCCL before 2.28 so are zipcclAlltoAll, zipcclGather and zipcclScatter.
//
// What is captured into a CUDA graph, and buffers in symmetric windows that the drop-in knows of,
// go as they are.
//
// Reductions: what goes native is NCCL's arithmetic. What is compressed has the order of additions
// of zipcclRedOp_t, which on two ranks gives NCCL's bits (of fp16 without a factor). On more it
// gives others, so there `auto` compresses none. Operations of zipcclRedOpCreatePreMulSum are
// NCCL's own, may have their scalar on the device, and go native.
//
// config.checksum must be 0 or unset: frames that a GPU makes have none.
//
// What goes wrong on the device after a call has returned, such as a damaged frame, is told by
// zipcclCommGetAsyncError and by the next call. zipcclCommGetAsyncError tells NCCL's error too.
//
// zipcclCommAbort ends what ZipCCL waits for on this rank, and nothing else: other ranks and
// queued work of NCCL are ended by ncclCommAbort, which the program calls afterwards, and
// zipcclCommDestroy last.

#ifndef ZIPCCL_ZIPCCL_NCCL_H
#define ZIPCCL_ZIPCCL_NCCL_H

#include <zipccl/zipccl.h>

#ifdef __cplusplus
extern "C" {
#endif

/// What an ncclComm_t points to.
struct ncclComm;

/// Makes *comm a communicator over the ranks of `nccl`, an ncclComm_t of this process: number of
/// ranks, rank and device are its own. A collective call: every rank of `nccl` makes it, each from
/// a thread of its own (one thread that has several: zipcclCommInitAllNccl). The ranks shake hands
/// by NCCL, connect to each other by TCP for what NCCL cannot carry (NCCL_SOCKET_IFNAME says where,
/// docs/settings.md), and with the strategy `auto` measure links and codec once for each shape of
/// communicator in a process, which takes up to 0.3 s. `config` may be NULL.
///
/// `nccl` stays the program's, which may go on using it. It must be blocking, and be destroyed
/// after *comm. NCCL is the one that the process has loaded; none is loaded, and none is needed to
/// link.
///
/// Where ranks differ in their settings or cannot connect, *comm exists and every call is native;
/// zipcclCommGetStats tells (`compressionAgreed`). Errors, upon which *comm is NULL:
/// zipcclSystemError when no NCCL is loaded or the device cannot be used, zipcclRemoteError when a
/// rank has not come within the time limit (config.timeoutMs, one minute at most),
/// zipcclInvalidUsage in a build without CUDA.
ZIPCCL_API zipcclResult_t zipcclCommInitNccl(zipcclComm_t* comm, struct ncclComm* nccl,
                                             const zipcclConfig_t* config);

/// zipcclCommInitNccl for one thread that has `count` communicators of NCCL, such as
/// ncclCommInitAll made: nccl[i] becomes comms[i]. On failure no communicator exists and comms[] is
/// all NULL.
ZIPCCL_API zipcclResult_t zipcclCommInitAllNccl(zipcclComm_t* comms, struct ncclComm* const* nccl,
                                                int count, const zipcclConfig_t* config);

#ifdef __cplusplus
}
#endif

#endif
