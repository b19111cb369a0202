// SPDX-License-Identifier: Apache-2.0
//
// NCCL by its table of functions.

#include "transport/nccl_link.hpp"

#include "base/text.hpp"

namespace zipccl::transport {

std::string wordsOfNccl(const zipcclNcclApi& api, void* comm, int result) {
  std::string text = api.getErrorString != nullptr ? api.getErrorString(result) : "";
  if (text.empty()) text = concat("result ", result);
  const char* const more = api.getLastError != nullptr ? api.getLastError(comm) : nullptr;
  if (more != nullptr && *more != '\0') text += concat(": ", more);
  return text;
}

ErrorCode errorCodeOf(int result) noexcept {
  return result >= kNcclSuccess && result <= kNcclInProgress ? static_cast<ErrorCode>(result)
                                                             : ErrorCode::kInternalError;
}

NcclLink::NcclLink(const zipcclNcclApi& api, void* comm) : api_(&api), comm_(comm) {
  check(api.commCount(comm, &rankCount_), "ncclCommCount");
  check(api.commUserRank(comm, &rank_), "ncclCommUserRank");
  check(api.commCuDevice(comm, &deviceNumber_), "ncclCommCuDevice");
}

void NcclLink::check(int result, const char* what) const {
  if (result == kNcclSuccess) return;
  fail(errorCodeOf(result), what, " on rank ", rank_, ": ", wordsOfNccl(*api_, comm_, result));
}

int NcclLink::asyncError() const {
  int error = kNcclSuccess;
  check(api_->commGetAsyncError(comm_, &error), "ncclCommGetAsyncError");
  return error;
}

void NcclLink::send(const void* data, const NcclElements& elements, int peer, StreamHandle stream) {
  check(api_->send(data, elements.count, elements.datatype, peer, comm_, stream.native),
        "ncclSend");
  addWireBytes(peer == rank_ ? 0 : elements.count * elements.elementBytes);
}

void NcclLink::receive(void* data, const NcclElements& elements, int peer, StreamHandle stream) {
  check(api_->recv(data, elements.count, elements.datatype, peer, comm_, stream.native),
        "ncclRecv");
}

void NcclLink::allGather(const void* send, void* receive, std::uint64_t bytes,
                         StreamHandle stream) {
  check(api_->allGather(send, receive, bytes, kNcclUint8, comm_, stream.native), "ncclAllGather");
  addWireBytes(bytes * peerCount());
}

void NcclLink::broadcast(void* buffer, std::uint64_t bytes, int root, StreamHandle stream) {
  check(api_->broadcast(buffer, buffer, bytes, kNcclUint8, root, comm_, stream.native),
        "ncclBroadcast");
  if (root == rank_) addWireBytes(bytes * peerCount());
}

std::uint64_t wireBytesOf(const zipcclNcclCall& call, std::uint64_t elementBytes, int rank,
                          int rankCount) noexcept {
  const std::uint64_t bytes = call.count * elementBytes;
  const auto peers = static_cast<std::uint64_t>(rankCount - 1);
  switch (call.kind) {
    case zipcclNcclAllGather:
    case zipcclNcclAlltoAll:
    case zipcclNcclReduceScatter:
      return bytes * peers;
    case zipcclNcclAllReduce:
      return 2 * bytes * peers / static_cast<std::uint64_t>(rankCount);
    case zipcclNcclBroadcast:
    case zipcclNcclScatter:
      return call.peer == rank ? bytes * peers : 0;
    case zipcclNcclGather:
    case zipcclNcclReduce:
    case zipcclNcclSend:
      return call.peer == rank ? 0 : bytes;
    case zipcclNcclRecv:
    case zipcclNcclNumKinds:
      break;
  }
  return 0;
}

int callNative(const zipcclNcclApi& api, const zipcclNcclCall& c) {
  switch (c.kind) {
    case zipcclNcclAllGather:
      return api.allGather(c.sendbuff, c.recvbuff, c.count, c.datatype, c.comm, c.stream);
    case zipcclNcclReduceScatter:
      return api.reduceScatter(c.sendbuff, c.recvbuff, c.count, c.datatype, c.op, c.comm, c.stream);
    case zipcclNcclAllReduce:
      return api.allReduce(c.sendbuff, c.recvbuff, c.count, c.datatype, c.op, c.comm, c.stream);
    case zipcclNcclBroadcast:
      return api.broadcast(c.sendbuff, c.recvbuff, c.count, c.datatype, c.peer, c.comm, c.stream);
    case zipcclNcclReduce:
      return api.reduce(c.sendbuff, c.recvbuff, c.count, c.datatype, c.op, c.peer, c.comm,
                        c.stream);
    case zipcclNcclAlltoAll:
      return api.allToAll(c.sendbuff, c.recvbuff, c.count, c.datatype, c.comm, c.stream);
    case zipcclNcclGather:
      return api.gather(c.sendbuff, c.recvbuff, c.count, c.datatype, c.peer, c.comm, c.stream);
    case zipcclNcclScatter:
      return api.scatter(c.sendbuff, c.recvbuff, c.count, c.datatype, c.peer, c.comm, c.stream);
    case zipcclNcclSend:
      return api.send(c.sendbuff, c.count, c.datatype, c.peer, c.comm, c.stream);
    case zipcclNcclRecv:
      return api.recv(c.recvbuff, c.count, c.datatype, c.peer, c.comm, c.stream);
    case zipcclNcclNumKinds:
      break;
  }
  return static_cast<int>(ErrorCode::kInvalidArgument);
}

NcclGroup::NcclGroup(const zipcclNcclApi& api) : api_(api) {
  const int result = api_.groupStart();
  expects(result == kNcclSuccess, errorCodeOf(result),
          "ncclGroupStart: ", wordsOfNccl(api_, nullptr, result));
}

NcclGroup::~NcclGroup() {
  if (isOpen_) static_cast<void>(api_.groupEnd());
}

int NcclGroup::end() {
  isOpen_ = false;
  return api_.groupEnd();
}

}  // namespace zipccl::transport
