// SPDX-License-Identifier: Apache-2.0
//
// AllGather among four threads of one process: each fills its shard of bf16 numbers in place,
// gathers those of the others compressed, and checks every bit. Build it with
//
//   cc -std=c99 all_gather_local.c $(pkg-config --cflags --libs zipccl) -lpthread

#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <zipccl/zipccl.h>

#define RANKS 4
#define COUNT 1000000

typedef struct {
  zipcclComm_t comm;
  int rank;
  int wrong;  // elements that are not what they should be, or -1 after an error
} RankTask;

// A bf16 number of about the size of a weight: element `i` of rank `rank`, the same wherever it is
// asked for. The sum of twelve uniform numbers is close to a normal one.
static uint16_t elementOf(int rank, size_t i) {
  uint64_t state = (uint64_t)rank * 0x9E3779B97F4A7C15u + i + 1;
  double sum = -6.0;
  for (int k = 0; k < 12; ++k) {
    state ^= state >> 30;
    state *= 0xBF58476D1CE4E5B9u;
    state ^= state >> 27;
    sum += (double)(state >> 11) / 9007199254740992.0;
  }
  union {
    float number;
    uint32_t bits;
  } value;
  value.number = (float)(0.02 * sum);
  return (uint16_t)(value.bits >> 16);
}

static void* runRank(void* argument) {
  RankTask* task = (RankTask*)argument;
  task->wrong = -1;
  uint16_t* buffer = (uint16_t*)malloc(sizeof(uint16_t) * RANKS * COUNT);
  if (buffer == NULL) return NULL;
  uint16_t* own = buffer + (size_t)task->rank * COUNT;
  for (size_t i = 0; i < COUNT; ++i) own[i] = elementOf(task->rank, i);

  if (zipcclAllGather(own, buffer, COUNT, zipcclBfloat16, task->comm, NULL) == zipcclSuccess) {
    task->wrong = 0;
    for (int rank = 0; rank < RANKS; ++rank) {
      for (size_t i = 0; i < COUNT; ++i) {
        task->wrong += buffer[(size_t)rank * COUNT + i] != elementOf(rank, i);
      }
    }
  } else {
    fprintf(stderr, "rank %d: %s\n", task->rank, zipcclGetLastError(task->comm));
  }
  free(buffer);
  return NULL;
}

int main(void) {
  zipcclConfig_t config = ZIPCCL_CONFIG_INITIALIZER;
  config.strategy = zipcclStrategyStaged;  // memory is faster than a codec: auto would not compress
  zipcclComm_t comms[RANKS];
  if (zipcclCommInitAllLocal(comms, RANKS, &config) != zipcclSuccess) {
    fprintf(stderr, "%s\n", zipcclGetLastError(NULL));
    return 1;
  }

  RankTask tasks[RANKS];
  pthread_t threads[RANKS];
  for (int rank = 0; rank < RANKS; ++rank) {
    tasks[rank].comm = comms[rank];
    tasks[rank].rank = rank;
    if (pthread_create(&threads[rank], NULL, runRank, &tasks[rank]) != 0) return 1;
  }
  int failed = 0;
  for (int rank = 0; rank < RANKS; ++rank) {
    pthread_join(threads[rank], NULL);
    if (tasks[rank].wrong != 0) failed = 1;
  }

  zipcclCommStats_t stats = ZIPCCL_COMM_STATS_INITIALIZER;
  if (!failed && zipcclCommGetStats(comms[0], &stats) == zipcclSuccess) {
    printf(
        "%d ranks gathered %d bf16 numbers from each, bit for bit; %.2f bits a number travelled\n",
        RANKS, COUNT, 8.0 * (double)stats.encodedBytes / COUNT);
  }
  for (int rank = 0; rank < RANKS; ++rank) {
    if (zipcclCommDestroy(comms[rank]) != zipcclSuccess) failed = 1;
  }
  return failed;
}
