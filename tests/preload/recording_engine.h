// SPDX-License-Identifier: Apache-2.0
//
// An engine for tests of the interposer: it stands where libzipccl.so would, makes of the calls
// something else that still delivers the right bits (chunks, rounds of real groups, all-gathers as
// sends and receives), and tells what it was asked. Tests reach it through recordingEngine().

#ifndef ZIPCCL_RECORDING_ENGINE_H
#define ZIPCCL_RECORDING_ENGINE_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct {
  /// How often each function was called since reset().
  int (*attachCalls)(void);
  int (*attachedCommunicators)(void);
  int (*detached)(void);
  int (*aborted)(void);
  int (*wanted)(void);
  int (*runs)(void);
  int (*callsInRuns)(void);
  int (*rounds)(void);
  int (*live)(void);  ///< attached and not detached

  void (*reset)(void);
  /// Elements of a chunk; 4096.
  void (*setChunk)(uint64_t elements);
  /// 1: run() waits until abort() of its communicator, and then fails.
  void (*setBlocking)(int isBlocking);
  /// Whether a run() is waiting now.
  int (*isWaiting)(void);
  /// What asyncError() and lastError() say from now on of every communicator; 0 ends it.
  void (*setAsyncError)(int result);
  /// 1: run() fails at once, as an engine whose communicator failed does.
  void (*setFailing)(int isFailing);
  /// 1: attach() leaves communicators native.
  void (*setRefusing)(int isRefusing);
  /// Lines: what ops and windows were told.
  const char* (*notes)(void);
} recordingControl;

typedef const recordingControl* (*recordingControlFunction)(void);

#ifdef __cplusplus
}
#endif

#endif
