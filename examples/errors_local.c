// SPDX-License-Identifier: Apache-2.0
//
// What a program sees when something goes wrong: a wrong argument changes nothing; an abort ends
// what other ranks wait for, sticks, and says who it was. Build it with
//
//   cc -std=c99 errors_local.c $(pkg-config --cflags --libs zipccl) -lpthread

#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <zipccl/zipccl.h>

static zipcclComm_t comms[2];
static float numbers[2][1000];

static int expect(int isTrue, const char* what) {
  if (!isTrue) fprintf(stderr, "not as documented: %s\n", what);
  return isTrue ? 0 : 1;
}

// Rank 0 waits for a rank that never comes.
static void* waitForRank(void* result) {
  *(zipcclResult_t*)result =
      zipcclAllReduce(numbers[0], numbers[0], 1000, zipcclFloat32, zipcclSum, comms[0], NULL);
  return NULL;
}

int main(void) {
  if (zipcclCommInitAllLocal(comms, 2, NULL) != zipcclSuccess) {
    fprintf(stderr, "%s\n", zipcclGetLastError(NULL));
    return 1;
  }
  int failed = 0;

  zipcclResult_t result =
      zipcclAllReduce(NULL, numbers[0], 1000, zipcclFloat32, zipcclSum, comms[0], NULL);
  printf("a wrong argument: %s\n  %s\n", zipcclGetErrorString(result),
         zipcclGetLastError(comms[0]));
  failed |= expect(result == zipcclInvalidArgument, "a null buffer is an invalid argument");
  failed |= expect(strstr(zipcclGetLastError(comms[0]), "sendbuff") != NULL, "the text names it");
  zipcclResult_t pending = zipcclInternalError;
  failed |= expect(zipcclCommGetAsyncError(comms[0], &pending) == zipcclSuccess, "a query works");
  failed |= expect(pending == zipcclSuccess, "the communicator is as it was");

  pthread_t waiter;
  if (pthread_create(&waiter, NULL, waitForRank, &result) != 0) return 1;
  // A watchdog, say, finds that rank 1 will not come. The call ends whether it has begun or not.
  failed |= expect(zipcclCommAbort(comms[1]) == zipcclSuccess, "an abort works");
  pthread_join(waiter, NULL);
  printf("an abort: %s\n  %s\n", zipcclGetErrorString(result), zipcclGetLastError(comms[0]));
  failed |= expect(result == zipcclRemoteError, "the waiting rank learns that another one failed");
  failed |= expect(strstr(zipcclGetLastError(comms[0]), "rank 1") != NULL, "the text says which");
  failed |= expect(
      zipcclCommGetAsyncError(comms[0], &pending) == zipcclSuccess && pending == zipcclRemoteError,
      "the error sticks");

  failed |= expect(zipcclCommDestroy(comms[0]) == zipcclSuccess, "destroy works after errors");
  failed |= expect(zipcclCommDestroy(comms[1]) == zipcclSuccess, "destroy works after errors");
  return failed;
}
