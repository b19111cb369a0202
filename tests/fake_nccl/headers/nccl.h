/* SPDX-License-Identifier: Apache-2.0
 *
 * As much of NCCL's header as programs of users in examples/ need, with the types of the real one;
 * the functions are those of the fake NCCL.
 */

#ifndef ZIPCCL_FAKE_NCCL_HEADER_H
#define ZIPCCL_FAKE_NCCL_HEADER_H

#include <cuda_runtime_api.h>

typedef struct ncclComm* ncclComm_t;
typedef enum { ncclSuccess = 0, ncclNumResults = 8 } ncclResult_t;

const char* ncclGetErrorString(ncclResult_t result);
ncclResult_t ncclCommInitAll(ncclComm_t* comms, int ndev, const int* devices);
ncclResult_t ncclCommDestroy(ncclComm_t comm);

#endif
