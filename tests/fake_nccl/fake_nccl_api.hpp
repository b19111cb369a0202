// SPDX-License-Identifier: Apache-2.0
//
// The functions of the fake NCCL that this program is linked with, as the engine takes them.

#pragma once

#include <dlfcn.h>
#include <zipccl/nccl_engine.h>

#include "nccl_calls.h"

namespace zipccl::testing {

inline const zipcclNcclApi& fakeNcclApi() {
  static const zipcclNcclApi functions = [] {
    zipcclNcclApi made{};
    made.size = sizeof(made);
    ncclGetVersion(&made.version);
    made.image = ::dlopen("libnccl.so.2", RTLD_NOW | RTLD_NOLOAD);
    made.getErrorString = ncclGetErrorString;
    made.getLastError = ncclGetLastError;
    made.groupStart = ncclGroupStart;
    made.groupEnd = ncclGroupEnd;
    made.commCount = ncclCommCount;
    made.commUserRank = ncclCommUserRank;
    made.commCuDevice = ncclCommCuDevice;
    made.commGetAsyncError = ncclCommGetAsyncError;
    made.commSplit = [](void* comm, int color, int key, void** newcomm, void* config) {
      return ncclCommSplit(comm, color, key, newcomm, static_cast<ncclConfig_t*>(config));
    };
    made.commDestroy = ncclCommDestroy;
    made.commAbort = ncclCommAbort;
    made.allGather = ncclAllGather;
    made.reduceScatter = ncclReduceScatter;
    made.allReduce = ncclAllReduce;
    made.broadcast = ncclBroadcast;
    made.reduce = ncclReduce;
    made.allToAll = ncclAlltoAll;
    made.gather = ncclGather;
    made.scatter = ncclScatter;
    made.send = ncclSend;
    made.recv = ncclRecv;
    return made;
  }();
  return functions;
}

}  // namespace zipccl::testing
