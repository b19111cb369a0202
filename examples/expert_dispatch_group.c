// SPDX-License-Identifier: Apache-2.0
//
// Tokens go to experts on other ranks and come back, in uneven parts of which some are empty. One
// thread drives all ranks: inside a group, calls only check their arguments, and the end of the
// group makes them all. The way there is one AlltoAllv, the way back Send and Recv. Build it with
//
//   cc -std=c99 expert_dispatch_group.c $(pkg-config --cflags --libs zipccl)

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <zipccl/zipccl.h>

#define RANKS 3
#define HIDDEN 512

// Tokens that rank i sends to the expert on rank j.
static const size_t kTokens[RANKS][RANKS] = {{40, 300, 0}, {0, 25, 150}, {200, 0, 10}};

static zipcclComm_t comms[RANKS];

static int fail(const char* what) {
  fprintf(stderr, "%s: %s\n", what, zipcclGetLastError(NULL));
  return 1;
}

// A bf16 number between 1/256 and 1 for element `i` of what rank `from` sends to rank `to`.
static uint16_t elementOf(int from, int to, size_t i) {
  uint64_t state = ((uint64_t)(from * RANKS + to) << 40) + i + 1;
  state *= 0x9E3779B97F4A7C15u;
  state ^= state >> 31;
  const uint16_t exponent = (uint16_t)(119 + state % 8);
  return (uint16_t)((state >> 20 & 0x8000u) | exponent << 7 | (state >> 40 & 0x7Fu));
}

int main(void) {
  zipcclConfig_t config = ZIPCCL_CONFIG_INITIALIZER;
  config.strategy = zipcclStrategyStaged;
  if (zipcclCommInitAllLocal(comms, RANKS, &config) != zipcclSuccess) return fail("communicators");

  size_t sendCounts[RANKS][RANKS], sendPlaces[RANKS][RANKS];
  size_t receiveCounts[RANKS][RANKS], receivePlaces[RANKS][RANKS];
  uint16_t* tokens[RANKS];    // of each rank, in the order of the experts they go to
  uint16_t* received[RANKS];  // by each rank, in the order of the ranks they come from
  uint16_t* returned[RANKS];
  for (int rank = 0; rank < RANKS; ++rank) {
    size_t sent = 0;
    size_t got = 0;
    for (int peer = 0; peer < RANKS; ++peer) {
      sendCounts[rank][peer] = kTokens[rank][peer] * HIDDEN;
      receiveCounts[rank][peer] = kTokens[peer][rank] * HIDDEN;
      sendPlaces[rank][peer] = sent;
      receivePlaces[rank][peer] = got;
      sent += sendCounts[rank][peer];
      got += receiveCounts[rank][peer];
    }
    tokens[rank] = (uint16_t*)malloc(sizeof(uint16_t) * sent);
    received[rank] = (uint16_t*)malloc(sizeof(uint16_t) * got);
    returned[rank] = (uint16_t*)calloc(sent, sizeof(uint16_t));
    if (tokens[rank] == NULL || received[rank] == NULL || returned[rank] == NULL) return 1;
    for (int peer = 0; peer < RANKS; ++peer) {
      for (size_t i = 0; i < sendCounts[rank][peer]; ++i) {
        tokens[rank][sendPlaces[rank][peer] + i] = elementOf(rank, peer, i);
      }
    }
  }

  if (zipcclGroupStart() != zipcclSuccess) return fail("group");
  for (int rank = 0; rank < RANKS; ++rank) {
    if (zipcclAlltoAllv(tokens[rank], sendCounts[rank], sendPlaces[rank], received[rank],
                        receiveCounts[rank], receivePlaces[rank], zipcclBfloat16, comms[rank],
                        NULL) != zipcclSuccess) {
      return fail("dispatch");
    }
  }
  if (zipcclGroupEnd() != zipcclSuccess) return fail("dispatch");

  // Here experts would work. The way back is the same with the roles of the lists exchanged.
  if (zipcclGroupStart() != zipcclSuccess) return fail("group");
  for (int rank = 0; rank < RANKS; ++rank) {
    for (int peer = 0; peer < RANKS; ++peer) {
      if (zipcclSend(received[rank] + receivePlaces[rank][peer], receiveCounts[rank][peer],
                     zipcclBfloat16, peer, comms[rank], NULL) != zipcclSuccess ||
          zipcclRecv(returned[rank] + sendPlaces[rank][peer], sendCounts[rank][peer],
                     zipcclBfloat16, peer, comms[rank], NULL) != zipcclSuccess) {
        return fail("combine");
      }
    }
  }
  if (zipcclGroupEnd() != zipcclSuccess) return fail("combine");

  size_t wrong = 0;
  for (int rank = 0; rank < RANKS; ++rank) {
    for (int peer = 0; peer < RANKS; ++peer) {
      for (size_t i = 0; i < sendCounts[rank][peer]; ++i) {
        wrong += returned[rank][sendPlaces[rank][peer] + i] != elementOf(rank, peer, i);
      }
    }
    free(tokens[rank]);
    free(received[rank]);
    free(returned[rank]);
  }
  zipcclCommStats_t stats = ZIPCCL_COMM_STATS_INITIALIZER;
  if (zipcclCommGetStats(comms[0], &stats) != zipcclSuccess) return fail("statistics");
  printf("%s; rank 0 sent %.2f bits for each of its 16\n",
         wrong == 0 ? "every token came back bit for bit" : "WRONG BITS came back",
         16.0 * (double)stats.encodedBytes / (double)stats.stagedInputBytes);
  for (int rank = 0; rank < RANKS; ++rank) {
    if (zipcclCommDestroy(comms[rank]) != zipcclSuccess) return fail("destroy");
  }
  return wrong != 0;
}
