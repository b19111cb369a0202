// SPDX-License-Identifier: Apache-2.0
//
// ZipCCL in a program that uses MPI itself: processes side by side share activations in pairs
// (AllGather over a part of the world), then all of them add gradients up (AllReduce over the
// world). Build and run it with
//
//   mpicc -std=c99 sub_communicators_mpi.c $(pkg-config --cflags --libs zipccl) -o sub
//   mpirun -np 4 ./sub

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <zipccl/mpi.h>

#define COUNT 200000

// Element `i` of rank `rank`, as bits of a bf16: magnitudes from 1/256 to 1.
static uint16_t elementOf(int rank, size_t i) {
  uint64_t state = ((uint64_t)rank << 40) + i + 1;
  state *= 0x9E3779B97F4A7C15u;
  state ^= state >> 31;
  const uint16_t exponent = (uint16_t)(119 + state % 8);
  return (uint16_t)((state >> 20 & 0x8000u) | exponent << 7 | (state >> 40 & 0x7Fu));
}

static int fail(const char* what) {
  fprintf(stderr, "%s: %s\n", what, zipcclGetLastError(NULL));
  return 1;
}

// Gathers within a pair of processes; the number of wrong elements, or -1.
static int shareActivations(zipcclComm_t pair, int worldRank) {
  int rank = 0;
  int ranks = 0;
  if (zipcclCommUserRank(pair, &rank) != zipcclSuccess) return -1;
  if (zipcclCommCount(pair, &ranks) != zipcclSuccess) return -1;
  uint16_t* all = (uint16_t*)malloc(sizeof(uint16_t) * COUNT * (size_t)ranks);
  if (all == NULL) return -1;
  uint16_t* own = all + (size_t)rank * COUNT;
  for (size_t i = 0; i < COUNT; ++i) own[i] = elementOf(worldRank, i);
  int wrong = -1;
  if (zipcclAllGather(own, all, COUNT, zipcclBfloat16, pair, NULL) == zipcclSuccess) {
    wrong = 0;
    for (int peer = 0; peer < ranks; ++peer) {
      for (size_t i = 0; i < COUNT; ++i) {
        wrong += all[(size_t)peer * COUNT + i] != elementOf(worldRank - rank + peer, i);
      }
    }
  }
  free(all);
  return wrong;
}

// Adds small integers up among all processes; the number of wrong elements, or -1.
static int addGradients(zipcclComm_t world, int worldRank, int worldSize) {
  float* gradients = (float*)malloc(sizeof(float) * COUNT);
  if (gradients == NULL) return -1;
  for (size_t i = 0; i < COUNT; ++i) gradients[i] = (float)(i % 100) + (float)worldRank;
  int wrong = -1;
  if (zipcclAllReduce(gradients, gradients, COUNT, zipcclFloat32, zipcclSum, world, NULL) ==
      zipcclSuccess) {
    wrong = 0;
    const int ranksAdded = worldSize * (worldSize - 1) / 2;
    for (size_t i = 0; i < COUNT; ++i) {
      wrong += gradients[i] != (float)((int)(i % 100) * worldSize + ranksAdded);
    }
  }
  free(gradients);
  return wrong;
}

int main(int argc, char** argv) {
  int level = MPI_THREAD_SINGLE;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_SERIALIZED, &level);
  int rank = 0;
  int size = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  MPI_Comm neighbours = MPI_COMM_NULL;
  MPI_Comm_split(MPI_COMM_WORLD, rank / 2, rank, &neighbours);

  zipcclConfig_t config = ZIPCCL_CONFIG_INITIALIZER;
  config.strategy = zipcclStrategyStaged;
  zipcclComm_t pair = NULL;
  zipcclComm_t world = NULL;
  if (zipcclCommInitMpiComm(&pair, neighbours, &config) != zipcclSuccess) return fail("pair");
  // ZipCCL has made a copy of its own.
  MPI_Comm_free(&neighbours);
  if (zipcclCommInitMpiComm(&world, MPI_COMM_WORLD, &config) != zipcclSuccess) return fail("world");

  const int wrongActivations = shareActivations(pair, rank);
  const int wrongGradients = addGradients(world, rank, size);
  if (wrongActivations < 0 || wrongGradients < 0) return fail("a collective");
  if (rank == 0) {
    printf("%d wrong activations, %d wrong gradients\n", wrongActivations, wrongGradients);
  }
  if (zipcclCommDestroy(pair) != zipcclSuccess) return fail("destroy");
  if (zipcclCommDestroy(world) != zipcclSuccess) return fail("destroy");
  MPI_Finalize();
  return wrongActivations != 0 || wrongGradients != 0;
}
