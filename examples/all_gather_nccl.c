// SPDX-License-Identifier: Apache-2.0
//
// One thread drives all GPUs of this host: an AllGather of bf16 elements, compressed, on
// communicators that NCCL made. Inside a group, calls only check their arguments, and the end of
// the group queues them all. Build it with
//
//   cc -std=c99 all_gather_nccl.c $(pkg-config --cflags --libs zipccl) -I.../cuda/include
//      -lnccl -lcudart

#include <cuda_runtime_api.h>
#include <nccl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <zipccl/zipccl_nccl.h>

#define MOST_RANKS 16
#define COUNT 1000000

static int fail(const char* what, const char* words) {
  fprintf(stderr, "%s: %s\n", what, words);
  return 1;
}

static int failed(const char* what) { return fail(what, zipcclGetLastError(NULL)); }

// A bf16 number between 1/256 and 1 for element `i` of what `rank` sends.
static uint16_t elementOf(int rank, size_t i) {
  uint64_t state = ((uint64_t)rank << 40) + i + 1;
  state *= 0x9E3779B97F4A7C15u;
  state ^= state >> 31;
  const uint16_t exponent = (uint16_t)(119 + state % 8);
  return (uint16_t)((state >> 20 & 0x8000u) | (unsigned)exponent << 7 | (state >> 40 & 0x7Fu));
}

int main(void) {
  int ranks = 0;
  cudaError_t cuda = cudaGetDeviceCount(&ranks);
  if (cuda != cudaSuccess) return fail("cudaGetDeviceCount", cudaGetErrorString(cuda));
  if (ranks > MOST_RANKS) ranks = MOST_RANKS;

  // NCCL makes communicators, and ZipCCL takes them, as it could those of any program.
  ncclComm_t nccl[MOST_RANKS];
  const ncclResult_t made = ncclCommInitAll(nccl, ranks, NULL);
  if (made != ncclSuccess) return fail("ncclCommInitAll", ncclGetErrorString(made));
  zipcclConfig_t config = ZIPCCL_CONFIG_INITIALIZER;
  config.strategy = zipcclStrategyStaged;
  zipcclComm_t comms[MOST_RANKS];
  if (zipcclCommInitAllNccl(comms, nccl, ranks, &config) != zipcclSuccess) {
    return failed("zipcclCommInitAllNccl");
  }

  const size_t bytes = COUNT * sizeof(uint16_t);
  uint16_t* const elements = malloc(bytes * (size_t)ranks);
  if (elements == NULL) return fail("malloc", "no memory");
  void* sent[MOST_RANKS];
  void* received[MOST_RANKS];
  cudaStream_t streams[MOST_RANKS];
  for (int rank = 0; rank < ranks; ++rank) {
    for (size_t i = 0; i < COUNT; ++i) elements[i] = elementOf(rank, i);
    cudaSetDevice(rank);
    if (cudaMalloc(&sent[rank], bytes) != cudaSuccess ||
        cudaMalloc(&received[rank], bytes * (size_t)ranks) != cudaSuccess ||
        cudaStreamCreate(&streams[rank]) != cudaSuccess) {
      return fail("cudaMalloc", "no memory");
    }
    cudaMemcpy(sent[rank], elements, bytes, cudaMemcpyHostToDevice);
  }

  if (zipcclGroupStart() != zipcclSuccess) return failed("group");
  for (int rank = 0; rank < ranks; ++rank) {
    if (zipcclAllGather(sent[rank], received[rank], COUNT, zipcclBfloat16, comms[rank],
                        streams[rank]) != zipcclSuccess) {
      return failed("zipcclAllGather");
    }
  }
  if (zipcclGroupEnd() != zipcclSuccess) return failed("zipcclGroupEnd");

  size_t wrong = 0;
  for (int rank = 0; rank < ranks; ++rank) {
    cudaSetDevice(rank);
    cuda = cudaStreamSynchronize(streams[rank]);
    if (cuda != cudaSuccess) return fail("cudaStreamSynchronize", cudaGetErrorString(cuda));
    zipcclResult_t late = zipcclSuccess;
    if (zipcclCommGetAsyncError(comms[rank], &late) != zipcclSuccess || late != zipcclSuccess) {
      return fail("after the call", zipcclGetLastError(comms[rank]));
    }
    cudaMemcpy(elements, received[rank], bytes * (size_t)ranks, cudaMemcpyDeviceToHost);
    for (int from = 0; from < ranks; ++from) {
      for (size_t i = 0; i < COUNT; ++i) {
        wrong += elements[(size_t)from * COUNT + i] != elementOf(from, i);
      }
    }
  }

  zipcclCommStats_t stats = ZIPCCL_COMM_STATS_INITIALIZER;
  if (zipcclCommGetStats(comms[0], &stats) != zipcclSuccess) return failed("statistics");
  printf("%d ranks: %s; rank 0 sent %llu bytes for %llu\n", ranks,
         wrong == 0 ? "every bit arrived" : "WRONG BITS arrived",
         (unsigned long long)stats.wireBytesSent,
         (unsigned long long)stats.inputBytes * (unsigned long long)(ranks - 1));

  free(elements);
  for (int rank = 0; rank < ranks; ++rank) {
    cudaSetDevice(rank);
    if (zipcclCommDestroy(comms[rank]) != zipcclSuccess) return failed("zipcclCommDestroy");
    ncclCommDestroy(nccl[rank]);
    cudaFree(sent[rank]);
    cudaFree(received[rank]);
    cudaStreamDestroy(streams[rank]);
  }
  return wrong != 0;
}
