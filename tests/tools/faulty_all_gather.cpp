// SPDX-License-Identifier: Apache-2.0
//
// A zipcclAllGather that stands before the library's and does what ZIPCCL_TEST_FAULT says, so that
// tests see the command notice: `<fault>:<rank>:<bytes>` makes its fault on one rank, in calls that
// send at least so many bytes.
//
//   flip    flips one bit of the last element that arrived
//   lose    leaves the last element as it was before the call
//   input   changes an element of the input, after the call
//   error   calls the library with a null pointer, which it refuses

#include <dlfcn.h>
#include <zipccl/zipccl.h>

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

}  // namespace

extern "C" __attribute__((visibility("default"))) zipcclResult_t zipcclAllGather(
    const void* sendbuff, void* recvbuff, size_t sendcount, zipcclDataType_t datatype,
    zipcclComm_t comm, zipcclStream_t stream) {
  using Function = decltype(&zipcclAllGather);
  static const auto library = reinterpret_cast<Function>(::dlsym(RTLD_NEXT, "zipcclAllGather"));

  int rank = 0;
  int ranks = 0;
  const bool isKnown = zipcclCommUserRank(comm, &rank) == zipcclSuccess &&
                       zipcclCommCount(comm, &ranks) == zipcclSuccess;
  // The faults are made in bf16 messages only: the command's own messages are bytes.
  const bool isFaulty = isKnown && rank == fault().rank && datatype == zipcclBfloat16 &&
                        sendcount * 2 >= fault().leastBytes;
  if (!isFaulty) return library(sendbuff, recvbuff, sendcount, datatype, comm, stream);

  if (fault().kind == "error") return library(nullptr, recvbuff, sendcount, datatype, comm, stream);
  auto* const last =
      static_cast<std::byte*>(recvbuff) + (sendcount * static_cast<std::size_t>(ranks) - 1) * 2;
  std::byte before[2];
  std::memcpy(before, last, sizeof(before));
  const zipcclResult_t result = library(sendbuff, recvbuff, sendcount, datatype, comm, stream);
  if (fault().kind == "flip") last[1] ^= std::byte{0x10};
  if (fault().kind == "lose") std::memcpy(last, before, sizeof(before));
  if (fault().kind == "input") {
    static_cast<std::byte*>(const_cast<void*>(sendbuff))[0] ^= std::byte{0x01};
  }
  return result;
}
