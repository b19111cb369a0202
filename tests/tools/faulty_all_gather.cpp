// SPDX-License-Identifier: Apache-2.0
//
// Functions that stand before the library's and the system's and do what ZIPCCL_TEST_FAULT says, so
// that tests see the command notice: `<fault>:<rank>:<bytes>` makes its fault on one rank, in calls
// that send at least so many bytes.
//
//   flip    flips one bit of the last element that arrived
//   lose    leaves the last element as it was before the call
//   input   changes an element of the input, after the call
//   error   calls the library with a null pointer, which it refuses
//   thread  the thread of that number cannot be started, counted from the last communicators made

#include <dlfcn.h>
#include <pthread.h>
#include <zipccl/zipccl.h>

#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

namespace {

struct Fault {
  std::string kind;
  int rank = -1;
  std::size_t leastBytes = 0;
};

const Fault& fault() {
  static const Fault planted = [] {
    Fault read;
    const char* const text = std::getenv("ZIPCCL_TEST_FAULT");
    char kind[16] = {};
    if (text != nullptr &&
        std::sscanf(text, "%15[a-z]:%d:%zu", kind, &read.rank, &read.leastBytes) == 3) {
      read.kind = kind;
    }
    return read;
  }();
  return planted;
}

/// Of those since the last communicators were made, before which none counts.
std::atomic<int> threadCount = -1'000'000;

template <class Function>
Function next(const char* name) {
  return reinterpret_cast<Function>(::dlsym(RTLD_NEXT, name));
}

/// Whether the fault is to be made in a call of so many bytes: in bf16 messages only, since the
/// command's own messages are bytes.
bool isFaulty(zipcclComm_t comm, zipcclDataType_t datatype, std::size_t bytes) {
  int rank = 0;
  return zipcclCommUserRank(comm, &rank) == zipcclSuccess && rank == fault().rank &&
         datatype == zipcclBfloat16 && bytes >= fault().leastBytes;
}

/// Until a call over the fake NCCL, which returns when it is queued, is done.
void await(zipcclStream_t stream) {
  if (stream == nullptr) return;
  using Synchronize = void (*)(void* stream);
  const auto synchronize =
      reinterpret_cast<Synchronize>(::dlsym(RTLD_DEFAULT, "fakeStreamSynchronize"));
  if (synchronize != nullptr) synchronize(stream);
}

}  // namespace

extern "C" __attribute__((visibility("default"))) int pthread_create(
    pthread_t* thread, const pthread_attr_t* attributes, void* (*body)(void*),
    void* argument) noexcept {
  static const auto create = next<decltype(&pthread_create)>("pthread_create");
  if (threadCount++ == fault().rank && fault().kind == "thread") return EAGAIN;
  return create(thread, attributes, body, argument);
}

extern "C" __attribute__((visibility("default"))) zipcclResult_t zipcclCommInitAllLocal(
    zipcclComm_t* comms, int nranks, const zipcclConfig_t* config) {
  static const auto create = next<decltype(&zipcclCommInitAllLocal)>("zipcclCommInitAllLocal");
  threadCount = -nranks;
  const zipcclResult_t result = create(comms, nranks, config);
  threadCount = 0;
  return result;
}

/// Only knows `flip`.
extern "C" __attribute__((visibility("default"))) zipcclResult_t zipcclReduceScatter(
    const void* sendbuff, void* recvbuff, size_t recvcount, zipcclDataType_t datatype,
    zipcclRedOp_t op, zipcclComm_t comm, zipcclStream_t stream) {
  static const auto library = next<decltype(&zipcclReduceScatter)>("zipcclReduceScatter");
  const zipcclResult_t result = library(sendbuff, recvbuff, recvcount, datatype, op, comm, stream);
  if (isFaulty(comm, datatype, recvcount * 2) && fault().kind == "flip") {
    static_cast<std::byte*>(recvbuff)[recvcount * 2 - 2] ^= std::byte{0x01};
  }
  return result;
}

extern "C" __attribute__((visibility("default"))) zipcclResult_t zipcclAllGather(
    const void* sendbuff, void* recvbuff, size_t sendcount, zipcclDataType_t datatype,
    zipcclComm_t comm, zipcclStream_t stream) {
  static const auto library = next<decltype(&zipcclAllGather)>("zipcclAllGather");

  int ranks = 0;
  if (zipcclCommCount(comm, &ranks) != zipcclSuccess || !isFaulty(comm, datatype, sendcount * 2)) {
    return library(sendbuff, recvbuff, sendcount, datatype, comm, stream);
  }

  if (fault().kind == "error") return library(nullptr, recvbuff, sendcount, datatype, comm, stream);
  auto* const last =
      static_cast<std::byte*>(recvbuff) + (sendcount * static_cast<std::size_t>(ranks) - 1) * 2;
  std::byte before[2];
  std::memcpy(before, last, sizeof(before));
  const zipcclResult_t result = library(sendbuff, recvbuff, sendcount, datatype, comm, stream);
  await(stream);
  if (fault().kind == "flip") last[1] ^= std::byte{0x10};
  if (fault().kind == "lose") std::memcpy(last, before, sizeof(before));
  if (fault().kind == "input") {
    static_cast<std::byte*>(const_cast<void*>(sendbuff))[0] ^= std::byte{0x01};
  }
  return result;
}
