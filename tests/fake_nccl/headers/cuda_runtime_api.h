/* SPDX-License-Identifier: Apache-2.0
 *
 * As much of CUDA's header as programs of users in examples/ need, over the fake device: so that
 * they are compiled as they stand, and run without a GPU.
 */

#ifndef ZIPCCL_FAKE_CUDA_RUNTIME_API_H
#define ZIPCCL_FAKE_CUDA_RUNTIME_API_H

#include <stdlib.h>
#include <string.h>

#include "fake_nccl.h"

typedef fakeStream_t cudaStream_t;
typedef enum { cudaSuccess = 0, cudaErrorMemoryAllocation = 2 } cudaError_t;
enum cudaMemcpyKind { cudaMemcpyHostToDevice = 1, cudaMemcpyDeviceToHost = 2 };

static inline const char* cudaGetErrorString(cudaError_t error) {
  return error == cudaSuccess ? "no error" : "out of memory";
}

static inline cudaError_t cudaGetDeviceCount(int* count) {
  *count = 2;
  return cudaSuccess;
}

static inline cudaError_t cudaSetDevice(int device) {
  fakeSetDevice(device);
  return cudaSuccess;
}

static inline cudaError_t cudaMalloc(void** memory, size_t bytes) {
  *memory = malloc(bytes != 0 ? bytes : 1);
  return *memory != NULL ? cudaSuccess : cudaErrorMemoryAllocation;
}

static inline cudaError_t cudaFree(void* memory) {
  free(memory);
  return cudaSuccess;
}

static inline cudaError_t cudaMemcpy(void* to, const void* from, size_t bytes,
                                     enum cudaMemcpyKind kind) {
  (void)kind;
  memcpy(to, from, bytes);
  return cudaSuccess;
}

static inline cudaError_t cudaStreamCreate(cudaStream_t* stream) {
  *stream = fakeStreamCreate();
  return cudaSuccess;
}

static inline cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  fakeStreamSynchronize(stream);
  return cudaSuccess;
}

static inline cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  fakeStreamDestroy(stream);
  return cudaSuccess;
}

#endif
