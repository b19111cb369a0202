// SPDX-License-Identifier: Apache-2.0
//
// NCCL's functions for tests that call them, with int for enumerators and void* for handles, so
// that no header of NCCL or CUDA is needed. The same at the level of machine code as nccl.h.

#ifndef ZIPCCL_NCCL_CALLS_H
#define ZIPCCL_NCCL_CALLS_H

#include <limits.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct {
  char internal[128];
} ncclUniqueId;

typedef struct {
  size_t size;
  unsigned int magic;
  unsigned int version;
  int blocking;
  int cgaClusterSize;
  int minCTAs;
  int maxCTAs;
  const char* netName;
  int splitShare;
  int more[9];
} ncclConfig_t;

#define NCCL_CONFIG_INITIALIZER                                                                   \
  {                                                                                               \
    sizeof(ncclConfig_t), 0xcafebeef, 23203, INT_MIN, INT_MIN, INT_MIN, INT_MIN, NULL, INT_MIN, { \
      INT_MIN, INT_MIN, INT_MIN, INT_MIN, INT_MIN, INT_MIN, INT_MIN, INT_MIN, INT_MIN             \
    }                                                                                             \
  }

int ncclGetVersion(int* version);
int ncclGetUniqueId(ncclUniqueId* id);
const char* ncclGetErrorString(int result);
const char* ncclGetLastError(void* comm);
int ncclCommInitRank(void** comm, int nranks, ncclUniqueId id, int rank);
int ncclCommInitRankConfig(void** comm, int nranks, ncclUniqueId id, int rank,
                           ncclConfig_t* config);
int ncclCommInitRankScalable(void** comm, int nranks, int rank, int idCount, ncclUniqueId* ids,
                             ncclConfig_t* config);
int ncclCommInitAll(void** comms, int ndev, const int* devices);
int ncclCommSplit(void* comm, int color, int key, void** newcomm, ncclConfig_t* config);
int ncclCommShrink(void* comm, int* excluded, int excludedCount, void** newcomm,
                   ncclConfig_t* config, int flags);
int ncclCommGetUniqueId(void* comm, ncclUniqueId* id);
int ncclCommGrow(void* comm, int nranks, const ncclUniqueId* id, int rank, void** newcomm,
                 ncclConfig_t* config);
int ncclCommFinalize(void* comm);
int ncclCommDestroy(void* comm);
int ncclCommAbort(void* comm);
int ncclCommRevoke(void* comm, int flags);
int ncclCommGetAsyncError(void* comm, int* asyncError);
int ncclCommCount(void* comm, int* count);
int ncclCommUserRank(void* comm, int* rank);
int ncclCommCuDevice(void* comm, int* device);
int ncclRedOpCreatePreMulSum(int* op, void* scalar, int datatype, int residence, void* comm);
int ncclRedOpDestroy(int op, void* comm);
int ncclCommRegister(void* comm, void* buffer, size_t bytes, void** handle);
int ncclCommDeregister(void* comm, void* handle);
int ncclCommWindowRegister(void* comm, void* buffer, size_t bytes, void** window, int flags);
int ncclCommWindowDeregister(void* comm, void* window);
int ncclMemAlloc(void** pointer, size_t bytes);
int ncclMemFree(void* pointer);
int ncclGroupStart(void);
int ncclGroupEnd(void);
int ncclGroupSimulateEnd(void* simInfo);
int ncclAllGather(const void* sendbuff, void* recvbuff, size_t sendcount, int datatype, void* comm,
                  void* stream);
int ncclAllGatherConfig(const void* sendbuff, void* recvbuff, size_t sendcount, int datatype,
                        void* comm, void* stream, const void* config);
int ncclReduceScatter(const void* sendbuff, void* recvbuff, size_t recvcount, int datatype, int op,
                      void* comm, void* stream);
int ncclAllReduce(const void* sendbuff, void* recvbuff, size_t count, int datatype, int op,
                  void* comm, void* stream);
int ncclBroadcast(const void* sendbuff, void* recvbuff, size_t count, int datatype, int root,
                  void* comm, void* stream);
int ncclBcast(void* buff, size_t count, int datatype, int root, void* comm, void* stream);
int ncclReduce(const void* sendbuff, void* recvbuff, size_t count, int datatype, int op, int root,
               void* comm, void* stream);
int ncclAlltoAll(const void* sendbuff, void* recvbuff, size_t count, int datatype, void* comm,
                 void* stream);
int ncclGather(const void* sendbuff, void* recvbuff, size_t count, int datatype, int root,
               void* comm, void* stream);
int ncclScatter(const void* sendbuff, void* recvbuff, size_t count, int datatype, int root,
                void* comm, void* stream);
int ncclSend(const void* sendbuff, size_t count, int datatype, int peer, void* comm, void* stream);
int ncclRecv(void* recvbuff, size_t count, int datatype, int peer, void* comm, void* stream);
int pncclAllReduce(const void* sendbuff, void* recvbuff, size_t count, int datatype, int op,
                   void* comm, void* stream);

#ifdef __cplusplus
}
#endif

#endif
