// SPDX-License-Identifier: Apache-2.0
//
// A GPU and an NCCL that are neither, for tests: device memory is host memory, a stream is a queue
// with a thread of its own, and libnccl.so.2 (built here, with the symbols of the real one) moves
// data through shared memory between ranks that are threads or processes. What it is strict about
// is what hurts users: work runs later than the call, in stream order only; ranks that call
// different things are found out, and so are ranks that would wait for ever. Such findings are
// faults, which a test asks for when it is done.
//
// Streams and the knobs stand in libzipccl_fake_device.so, which libnccl.so.2 links.

#ifndef ZIPCCL_FAKE_NCCL_H
#define ZIPCCL_FAKE_NCCL_H

#include <stddef.h>
#include <stdint.h>

#define FAKE_API __attribute__((visibility("default")))

#ifdef __cplusplus
extern "C" {
#endif

/// The device that this thread uses, 0 at its start. Any number from 0 on is a device.
FAKE_API void fakeSetDevice(int device);
FAKE_API int fakeGetDevice(void);
/// What `zipccl perf` takes for the number of devices: the variable FAKE_DEVICES; 0 without it, and
/// then a device may have several ranks.
FAKE_API int fakeDeviceCount(void);

/// A stream: work runs in its order, in a thread of its own, some time after it was enqueued. NULL
/// wherever a stream is taken is the default stream of the calling thread's device.
typedef struct fakeStream* fakeStream_t;
FAKE_API fakeStream_t fakeStreamCreate(void);
/// Waits for the stream's work, and frees it.
FAKE_API void fakeStreamDestroy(fakeStream_t stream);
/// Waits until what has been enqueued so far is done.
FAKE_API void fakeStreamSynchronize(fakeStream_t stream);
/// Whether all that was enqueued so far is done.
FAKE_API int fakeStreamIsIdle(fakeStream_t stream);
/// Enqueues `work(argument)`, to run once; of a captured stream once for each launch of the graph.
FAKE_API void fakeStreamEnqueue(fakeStream_t stream, void (*work)(void*), void* argument);

/// Events as in CUDA: a stream that waits for an event waits for what its last record stands after.
typedef struct fakeEvent* fakeEvent_t;
FAKE_API fakeEvent_t fakeEventCreate(void);
FAKE_API void fakeEventDestroy(fakeEvent_t event);
FAKE_API void fakeEventRecord(fakeEvent_t event, fakeStream_t stream);
FAKE_API void fakeStreamWaitEvent(fakeStream_t stream, fakeEvent_t event);
FAKE_API void fakeEventSynchronize(fakeEvent_t event);
/// Whether the last record has been reached; 1 without one.
FAKE_API int fakeEventIsDone(fakeEvent_t event);

/// Capture into a graph: between begin and end nothing runs; a launch enqueues what was captured,
/// in its order. A stream that waits for an event of a capturing stream captures too, until the
/// end. Waiting for a capturing stream, or for an event recorded in it, is a fault.
typedef struct fakeGraph* fakeGraph_t;
FAKE_API void fakeStreamBeginCapture(fakeStream_t stream);
FAKE_API fakeGraph_t fakeStreamEndCapture(fakeStream_t stream);
FAKE_API int fakeStreamIsCapturing(fakeStream_t stream);
FAKE_API void fakeGraphLaunch(fakeGraph_t graph, fakeStream_t stream);
FAKE_API void fakeGraphDestroy(fakeGraph_t graph);

/// Each piece of work is preceded by a random pause of up to so many microseconds; 0, the default,
/// for none.
FAKE_API void fakeSetJitterUs(unsigned microseconds);

/// Faults of this process, since the start or the last clear; each is printed to standard error
/// too. The text has a line for each and is valid until this thread asks again.
FAKE_API void fakeFault(const char* text);
FAKE_API int fakeFaultCount(void);
FAKE_API const char* fakeFaultText(void);
FAKE_API void fakeFaultsClear(void);

/// How long a rank waits for another until that is a fault, "would hang", and the communicator
/// fails; 60 s, or FAKE_NCCL_TIME_LIMIT_MS of the environment.
FAKE_API void fakeNcclSetTimeLimitMs(int milliseconds);
FAKE_API int fakeNcclTimeLimitMs(void);

/// 1: what a rank sends is done when it has been received; 0, the default, when there is room for
/// it on its way. NCCL promises neither.
FAKE_API void fakeNcclSetRendezvous(int isOn);
FAKE_API int fakeNcclIsRendezvous(void);

/// How long operations on a non-blocking communicator stay ncclInProgress: 2 ms.
FAKE_API void fakeNcclSetProgressDelayMs(int milliseconds);
FAKE_API int fakeNcclProgressDelayMs(void);

/// What ncclCommGetAsyncError says of `comm` from now on, and what its calls return; 0 ends it.
FAKE_API void fakeNcclSetAsyncError(void* comm, int result);
FAKE_API int fakeNcclInjectedError(void* comm);

/// 1: collectives and groups return ncclSuccess at once and do nothing, for measuring what stands
/// before them.
FAKE_API void fakeNcclSetIdle(int isIdle);
FAKE_API int fakeNcclIsIdle(void);

/// The calls that reached libnccl.so.2 from outside, as lines `AllGather count=3 datatype=9`, while
/// switched on. Switching on starts anew. The text is valid until this thread asks again.
FAKE_API void fakeNcclTrace(int isOn);
FAKE_API int fakeNcclIsTracing(void);
FAKE_API const char* fakeNcclTraceText(void);
FAKE_API void fakeNcclTraceAdd(const char* line);

/// Communicators of this process that were made and not yet freed.
FAKE_API int fakeNcclLiveCommunicators(void);
FAKE_API void fakeNcclCountCommunicator(int change);

#ifdef __cplusplus
}
#endif

#endif
