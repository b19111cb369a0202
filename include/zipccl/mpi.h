// SPDX-License-Identifier: Apache-2.0
//
// Communicators over an MPI_Comm of the program: for programs that use MPI themselves. Apart from
// zipccl.h, which needs no mpi.h. C99 and C++.

#ifndef ZIPCCL_MPI_H
#define ZIPCCL_MPI_H

#include <mpi.h>
#include <zipccl/zipccl.h>

/// Creates this process's communicator over the ranks of `parent`, as zipcclCommInitMpi() does over
/// those of MPI_COMM_WORLD: the rank is that in `parent`. Collective over `parent`, which is
/// duplicated, so that no message meets another's, and may be freed as soon as the function
/// returns. The program has initialised MPI, with MPI_THREAD_SERIALIZED if several threads use it,
/// and finalises it after zipcclCommDestroy.
///
/// zipcclSystemError when `parent` is no communicator of one group, or ZipCCL's plugin was built
/// against another MPI than this file is compiled against: handles of one mean nothing to another.
static inline zipcclResult_t zipcclCommInitMpiComm(zipcclComm_t* comm, MPI_Comm parent,
                                                   const zipcclConfig_t* config) {
  char library[MPI_MAX_LIBRARY_VERSION_STRING];
  int chars = 0;
  library[0] = '\0';
  MPI_Get_library_version(library, &chars);
  return zipcclCommInitMpiHandle(comm, &parent, sizeof(parent), library, config);
}

#endif
