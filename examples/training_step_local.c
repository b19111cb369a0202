// SPDX-License-Identifier: Apache-2.0
//
// The communication of one step of sharded training among four threads of one process: each rank
// holds a quarter of the bf16 parameters, gathers all of them in place, makes fp32 gradients of all
// (widened from bf16, as frameworks do) and reduces and scatters their average, so that it has
// those of its own quarter. Build it with
//
//   cc -std=c99 training_step_local.c $(pkg-config --cflags --libs zipccl) -lpthread -lm

#include <math.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <zipccl/zipccl.h>

#define RANKS 4
#define SHARD 250000

typedef struct {
  zipcclComm_t comm;
  int rank;
  int failed;
} RankTask;

static float asFloat(uint32_t bits) {
  union {
    uint32_t bits;
    float number;
  } value;
  value.bits = bits;
  return value.number;
}

// The upper half of an fp32 number of about the size of a weight: parameter `i`, the same wherever
// it is asked for.
static uint16_t parameterOf(size_t i) {
  uint64_t state = (i + 1) * 0x9E3779B97F4A7C15u;
  state ^= state >> 29;
  union {
    float number;
    uint32_t bits;
  } value;
  value.number = 0.04f * ((float)(state >> 40) / 16777216.0f - 0.5f);
  return (uint16_t)(value.bits >> 16);
}

// What rank `rank` finds for parameter `i`: some power of two of it, so that sums are exact.
static float gradientOf(int rank, size_t i) {
  return ldexpf(asFloat((uint32_t)parameterOf(i) << 16), rank - 3);
}

static int step(RankTask* task, uint16_t* parameters, float* gradients, float* mine) {
  uint16_t* own = parameters + (size_t)task->rank * SHARD;
  for (size_t i = 0; i < SHARD; ++i) own[i] = parameterOf((size_t)task->rank * SHARD + i);
  if (zipcclAllGather(own, parameters, SHARD, zipcclBfloat16, task->comm, NULL) != zipcclSuccess) {
    return -1;
  }
  int wrong = 0;
  for (size_t i = 0; i < (size_t)RANKS * SHARD; ++i) {
    wrong += parameters[i] != parameterOf(i);
    gradients[i] = gradientOf(task->rank, i);
  }
  if (zipcclReduceScatter(gradients, mine, SHARD, zipcclFloat32, zipcclAvg, task->comm, NULL) !=
      zipcclSuccess) {
    return -1;
  }
  for (size_t i = 0; i < SHARD; ++i) {
    // (1/8 + 1/4 + 1/2 + 1) / 4 of the parameter: small factors keep all bits of a bf16.
    const float parameter = asFloat((uint32_t)parameterOf((size_t)task->rank * SHARD + i) << 16);
    wrong += mine[i] != parameter * 1.875f / 4.0f;
  }
  return wrong;
}

static void* runRank(void* argument) {
  RankTask* task = (RankTask*)argument;
  uint16_t* parameters = (uint16_t*)malloc(sizeof(uint16_t) * RANKS * SHARD);
  float* gradients = (float*)malloc(sizeof(float) * RANKS * SHARD);
  float* mine = (float*)malloc(sizeof(float) * SHARD);
  task->failed = 1;
  if (parameters != NULL && gradients != NULL && mine != NULL) {
    const int wrong = step(task, parameters, gradients, mine);
    if (wrong < 0) fprintf(stderr, "rank %d: %s\n", task->rank, zipcclGetLastError(task->comm));
    if (wrong > 0) fprintf(stderr, "rank %d: %d wrong numbers\n", task->rank, wrong);
    task->failed = wrong != 0;
  }
  free(parameters);
  free(gradients);
  free(mine);
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
    failed |= tasks[rank].failed;
  }
  zipcclCommStats_t stats = ZIPCCL_COMM_STATS_INITIALIZER;
  if (!failed && zipcclCommGetStats(comms[0], &stats) == zipcclSuccess) {
    printf("parameters and gradients arrived bit for bit; rank 0 compressed %.1f MB to %.1f MB\n",
           1e-6 * (double)stats.stagedInputBytes, 1e-6 * (double)stats.encodedBytes);
  }
  for (int rank = 0; rank < RANKS; ++rank) {
    if (zipcclCommDestroy(comms[rank]) != zipcclSuccess) failed = 1;
  }
  return failed;
}
