// SPDX-License-Identifier: Apache-2.0
//
// NCCL's collectives; those that an older one lacks as its users make them, by sends and receives.

#include "perf_nccl/nccl_calls.hpp"

#include <numeric>
#include <utility>

#include "perf/datatype.hpp"
#include "perf/reference.hpp"

namespace zipccl::tools::perf_nccl {
namespace {

const std::byte* at(const void* buffer, std::size_t bytes) {
  return static_cast<const std::byte*>(buffer) + bytes;
}
std::byte* at(void* buffer, std::size_t bytes) { return static_cast<std::byte*>(buffer) + bytes; }

}  // namespace

void NcclCalls::check(int result, const char* what) const {
  library_.check(result, what, communicator_->get());
}

void NcclCalls::note(std::size_t inputElements, std::size_t sentElements,
                     zipcclDataType_t datatype) {
  const std::size_t bytesEach = perf::elementBytes(datatype);
  ++statistics_.calls;
  ++statistics_.nativeCalls;
  statistics_.inputBytes += inputElements * bytesEach;
  statistics_.wireBytesSent += sentElements * bytesEach;
}

int NcclCalls::operationFor(perf::ReduceOperation operation, zipcclDataType_t datatype) {
  switch (operation) {
    case perf::ReduceOperation::kSum:
      return zipcclSum;
    case perf::ReduceOperation::kAverage:
      return zipcclAvg;
    case perf::ReduceOperation::kScaledSum:
      break;
  }
  if (!scaledSum_) {
    std::vector<std::byte> scalar = perf::elementOf(datatype, perf::kScaledSumFactor);
    int op = 0;
    check(library_.functions().redOpCreatePreMulSum(
              &op, scalar.data(), datatype, zipcclScalarHostImmediate, communicator_->get()),
          "ncclRedOpCreatePreMulSum");
    scaledSum_ = op;
  }
  return *scaledSum_;
}

void NcclCalls::allGather(const void* send, void* receive, std::size_t count,
                          zipcclDataType_t datatype) {
  check(
      library_.functions().allGather(send, receive, count, datatype, communicator_->get(), stream_),
      "ncclAllGather");
  note(count, count * peers(), datatype);
}

void NcclCalls::allReduce(const void* send, void* receive, std::size_t count,
                          zipcclDataType_t datatype, perf::ReduceOperation operation) {
  const int op = operationFor(operation, datatype);
  check(library_.functions().allReduce(send, receive, count, datatype, op, communicator_->get(),
                                       stream_),
        "ncclAllReduce");
  note(count, 2 * count * peers() / static_cast<std::size_t>(rankCount_), datatype);
}

void NcclCalls::reduceScatter(const void* send, void* receive, std::size_t count,
                              zipcclDataType_t datatype, perf::ReduceOperation operation) {
  const int op = operationFor(operation, datatype);
  check(library_.functions().reduceScatter(send, receive, count, datatype, op, communicator_->get(),
                                           stream_),
        "ncclReduceScatter");
  note(count * (peers() + 1), count * peers(), datatype);
}

void NcclCalls::allToAll(const void* send, void* receive, std::size_t count,
                         zipcclDataType_t datatype) {
  if (library_.functions().allToAll == nullptr) {
    const std::vector<std::size_t> counts(static_cast<std::size_t>(rankCount_), count);
    allToAllv(send, counts, receive, counts, datatype);
    return;
  }
  check(
      library_.functions().allToAll(send, receive, count, datatype, communicator_->get(), stream_),
      "ncclAlltoAll");
  note(count * (peers() + 1), count * peers(), datatype);
}

void NcclCalls::allToAllv(const void* send, const std::vector<std::size_t>& sendCounts,
                          void* receive, const std::vector<std::size_t>& receiveCounts,
                          zipcclDataType_t datatype) {
  const NcclFunctions& nccl = library_.functions();
  const std::size_t bytesEach = perf::elementBytes(datatype);
  std::size_t sendAt = 0;
  std::size_t receiveAt = 0;
  check(nccl.groupStart(), "ncclGroupStart");
  for (int peer = 0; peer < rankCount_; ++peer) {
    const std::size_t out = sendCounts[static_cast<std::size_t>(peer)];
    const std::size_t in = receiveCounts[static_cast<std::size_t>(peer)];
    // The end of the group returns what is wrong with its calls.
    static_cast<void>(nccl.send(at(send, sendAt * bytesEach), out, datatype, peer,
                                communicator_->get(), stream_));
    static_cast<void>(nccl.receive(at(receive, receiveAt * bytesEach), in, datatype, peer,
                                   communicator_->get(), stream_));
    sendAt += out;
    receiveAt += in;
  }
  check(nccl.groupEnd(), "ncclGroupEnd");
  note(sendAt, sendAt - sendCounts[static_cast<std::size_t>(rank_)], datatype);
}

void NcclCalls::broadcast(const void* send, void* receive, std::size_t count,
                          zipcclDataType_t datatype, int root) {
  check(library_.functions().broadcast(send, receive, count, datatype, root, communicator_->get(),
                                       stream_),
        "ncclBroadcast");
  const bool isRoot = rank_ == root;
  note(isRoot ? count : 0, isRoot ? count * peers() : 0, datatype);
}

void NcclCalls::gatherTo(const void* send, void* receive, std::size_t count,
                         zipcclDataType_t datatype, int root) {
  const NcclFunctions& nccl = library_.functions();
  if (nccl.gather != nullptr) {
    check(nccl.gather(send, receive, count, datatype, root, communicator_->get(), stream_),
          "ncclGather");
  } else {
    const std::size_t partBytes = count * perf::elementBytes(datatype);
    check(nccl.groupStart(), "ncclGroupStart");
    static_cast<void>(nccl.send(send, count, datatype, root, communicator_->get(), stream_));
    for (int peer = 0; rank_ == root && peer < rankCount_; ++peer) {
      static_cast<void>(nccl.receive(at(receive, static_cast<std::size_t>(peer) * partBytes), count,
                                     datatype, peer, communicator_->get(), stream_));
    }
    check(nccl.groupEnd(), "ncclGroupEnd");
  }
  note(count, rank_ == root ? 0 : count, datatype);
}

void NcclCalls::scatterFrom(const void* send, void* receive, std::size_t count,
                            zipcclDataType_t datatype, int root) {
  const NcclFunctions& nccl = library_.functions();
  const bool isRoot = rank_ == root;
  if (nccl.scatter != nullptr) {
    check(nccl.scatter(send, receive, count, datatype, root, communicator_->get(), stream_),
          "ncclScatter");
  } else {
    const std::size_t partBytes = count * perf::elementBytes(datatype);
    check(nccl.groupStart(), "ncclGroupStart");
    for (int peer = 0; isRoot && peer < rankCount_; ++peer) {
      static_cast<void>(nccl.send(at(send, static_cast<std::size_t>(peer) * partBytes), count,
                                  datatype, peer, communicator_->get(), stream_));
    }
    static_cast<void>(nccl.receive(receive, count, datatype, root, communicator_->get(), stream_));
    check(nccl.groupEnd(), "ncclGroupEnd");
  }
  note(isRoot ? count * (peers() + 1) : 0, isRoot ? count * peers() : 0, datatype);
}

void NcclCalls::sendReceive(const void* send, int to, void* receive, int from, std::size_t count,
                            zipcclDataType_t datatype) {
  const NcclFunctions& nccl = library_.functions();
  check(nccl.groupStart(), "ncclGroupStart");
  static_cast<void>(nccl.send(send, count, datatype, to, communicator_->get(), stream_));
  static_cast<void>(nccl.receive(receive, count, datatype, from, communicator_->get(), stream_));
  check(nccl.groupEnd(), "ncclGroupEnd");
  note(count, to == rank_ ? 0 : count, datatype);
}

zipcclCommStats_t NcclCalls::statistics() const { return statistics_; }

void NcclCalls::expectWell() const {
  int error = 0;
  check(library_.functions().commGetAsyncError(communicator_->get(), &error),
        "ncclCommGetAsyncError");
  check(error, "NCCL");
}

}  // namespace zipccl::tools::perf_nccl
