// SPDX-License-Identifier: Apache-2.0
//
// AllGather among MPI processes, without a line of MPI: each gives one shard of fp32 gradients that
// were widened from bf16, gathers all shards compressed, and checks every bit. Build and run it
// with
//
//   cc -std=c99 all_gather_mpi.c $(pkg-config --cflags --libs zipccl) -o all_gather_mpi
//   mpirun -np 4 ./all_gather_mpi

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <zipccl/zipccl.h>

#define COUNT 500000

// Element `i` of rank `rank`, as bits: uniform in (-0.5, 0.5), its low half zero.
static uint32_t elementOf(int rank, size_t i) {
  uint64_t state = ((uint64_t)rank << 40) + i + 1;
  state *= 0x9E3779B97F4A7C15u;
  state ^= state >> 29;
  union {
    float number;
    uint32_t bits;
  } value;
  value.number = (float)((double)(state >> 11) / 9007199254740992.0 - 0.5);
  return value.bits & 0xFFFF0000u;
}

static int fail(const char* what, zipcclComm_t comm) {
  fprintf(stderr, "%s: %s\n", what, zipcclGetLastError(comm));
  return 1;
}

int main(void) {
  zipcclConfig_t config = ZIPCCL_CONFIG_INITIALIZER;
  config.strategy = zipcclStrategyStaged;
  zipcclComm_t comm;
  if (zipcclCommInitMpi(&comm, &config) != zipcclSuccess) return fail("no communicator", NULL);
  int rank = 0;
  int ranks = 0;
  if (zipcclCommUserRank(comm, &rank) != zipcclSuccess) return fail("no rank", comm);
  if (zipcclCommCount(comm, &ranks) != zipcclSuccess) return fail("no count", comm);

  uint32_t* send = (uint32_t*)malloc(sizeof(uint32_t) * COUNT);
  uint32_t* received = (uint32_t*)malloc(sizeof(uint32_t) * COUNT * (size_t)ranks);
  if (send == NULL || received == NULL) return 1;
  for (size_t i = 0; i < COUNT; ++i) send[i] = elementOf(rank, i);
  if (zipcclAllGather(send, received, COUNT, zipcclFloat32, comm, NULL) != zipcclSuccess) {
    return fail("all-gather", comm);
  }
  int wrong = 0;
  for (int peer = 0; peer < ranks; ++peer) {
    for (size_t i = 0; i < COUNT; ++i) {
      wrong += received[(size_t)peer * COUNT + i] != elementOf(peer, i);
    }
  }

  zipcclCommStats_t stats = ZIPCCL_COMM_STATS_INITIALIZER;
  if (zipcclCommGetStats(comm, &stats) != zipcclSuccess) return fail("no statistics", comm);
  if (rank == 0 && wrong == 0) {
    printf(
        "%d ranks gathered %d fp32 numbers from each, bit for bit; %.2f bits a number travelled\n",
        ranks, COUNT, 8.0 * (double)stats.encodedBytes / COUNT);
  }
  free(send);
  free(received);
  if (zipcclCommDestroy(comm) != zipcclSuccess) return fail("destroy", NULL);
  return wrong != 0;
}
