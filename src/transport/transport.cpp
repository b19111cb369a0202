// SPDX-License-Identifier: Apache-2.0
//
// What all transports share: checks of arguments, the sticky error, statistics, and the blocking
// forms of the operations.

#include "transport/transport.hpp"

#include <cstdint>
#include <limits>

#include "base/settings.hpp"

namespace zipccl::transport {

namespace {

bool overlaps(const void* a, std::size_t aBytes, const void* b, std::size_t bBytes) {
  const auto aStart = reinterpret_cast<std::uintptr_t>(a);
  const auto bStart = reinterpret_cast<std::uintptr_t>(b);
  return aStart < bStart + bBytes && bStart < aStart + aBytes;
}

}  // namespace

Request& Request::operator=(Request&& other) noexcept {
  if (this != &other) {
    drop();
    operation_ = std::move(other.operation_);
  }
  return *this;
}

void Request::drop() noexcept {
  if (operation_ == nullptr) return;
  operation_->cancel();
  operation_.reset();
}

Transport::Transport(int rank, int rankCount)
    : rank_(rank), rankCount_(rankCount), timeout_(settings().timeout) {
  expects(rankCount >= 1, "a communicator of ", rankCount, " ranks");
  expects(rank >= 0 && rank < rankCount, "rank ", rank, " of a communicator of ", rankCount,
          " ranks");
}

void Transport::tellOthers() noexcept {
  if (hasFailed()) doSpreadFailure();
}

void Transport::throwIfFailed() {
  if (!hasFailed()) return;
  doSpreadFailure();
  if (const std::optional<Error> error = failure()) throw *error;
}

void Transport::checkAllGather(const void* send, const void* receive, std::size_t bytesPerRank) {
  if (bytesPerRank == 0) return;
  const auto ranks = static_cast<std::size_t>(rankCount_);
  expects(bytesPerRank <= std::numeric_limits<std::size_t>::max() / 2 / ranks, "all-gather of ",
          bytesPerRank, " bytes a rank on ", rankCount_, " ranks: the sum is out of range");
  expects(send != nullptr && receive != nullptr, "all-gather of ", bytesPerRank,
          " bytes a rank with a null buffer");
  const auto* own =
      static_cast<const std::byte*>(receive) + static_cast<std::size_t>(rank_) * bytesPerRank;
  expects(
      send == own || !overlaps(send, bytesPerRank, receive, bytesPerRank * ranks),
      "all-gather: the send buffer overlaps the receive buffer but is not this rank's place in it");
}

Request Transport::startAllGather(const void* send, void* receive, std::size_t bytesPerRank,
                                  StreamHandle stream) {
  checkAllGather(send, receive, bytesPerRank);
  throwIfFailed();
  Request request = doStartAllGather(send, receive, bytesPerRank, stream);
  countAllGather(bytesPerRank);
  return request;
}

void Transport::allGather(const void* send, void* receive, std::size_t bytesPerRank,
                          StreamHandle stream) {
  checkAllGather(send, receive, bytesPerRank);
  throwIfFailed();
  doAllGather(send, receive, bytesPerRank, stream);
  countAllGather(bytesPerRank);
}

void Transport::doAllGather(const void* send, void* receive, std::size_t bytesPerRank,
                            StreamHandle stream) {
  Request request = doStartAllGather(send, receive, bytesPerRank, stream);
  wait(request);
}

void Transport::countAllGather(std::size_t bytesPerRank) noexcept {
  const std::uint64_t movedBytes = static_cast<std::uint64_t>(rankCount_ - 1) * bytesPerRank;
  statistics_.wireBytes += movedBytes;
  statistics_.receivedBytes += movedBytes;
  ++statistics_.operationCount;
}

Request Transport::startBroadcast(void* buffer, std::size_t bytes, int root, StreamHandle stream) {
  expects(root >= 0 && root < rankCount_, "broadcast from rank ", root, " in a communicator of ",
          rankCount_, " ranks");
  expects(buffer != nullptr || bytes == 0, "broadcast of ", bytes, " bytes with a null buffer");
  throwIfFailed();
  Request request = doStartBroadcast(buffer, bytes, root, stream);
  if (root == rank_) {
    statistics_.wireBytes += static_cast<std::uint64_t>(rankCount_ - 1) * bytes;
  } else {
    statistics_.receivedBytes += bytes;
  }
  ++statistics_.operationCount;
  return request;
}

void Transport::broadcast(void* buffer, std::size_t bytes, int root, StreamHandle stream) {
  Request request = startBroadcast(buffer, bytes, root, stream);
  wait(request);
}

Request Transport::startExchange(std::span<const SendMessage> sends,
                                 std::span<const ReceiveMessage> receives, StreamHandle stream) {
  std::uint64_t sentBytes = 0;
  std::uint64_t receivedBytes = 0;
  for (const SendMessage& message : sends) {
    expects(message.peer >= 0 && message.peer < rankCount_, "exchange: a message to rank ",
            message.peer, " in a communicator of ", rankCount_, " ranks");
    expects(message.data != nullptr || message.bytes == 0, "exchange: ", message.bytes,
            " bytes to rank ", message.peer, " from a null buffer");
    if (message.peer != rank_) sentBytes += message.bytes;
  }
  for (const ReceiveMessage& message : receives) {
    expects(message.peer >= 0 && message.peer < rankCount_, "exchange: a message from rank ",
            message.peer, " in a communicator of ", rankCount_, " ranks");
    expects(message.data != nullptr || message.bytes == 0, "exchange: ", message.bytes,
            " bytes from rank ", message.peer, " into a null buffer");
    if (message.peer != rank_) receivedBytes += message.bytes;
  }
  throwIfFailed();
  Request request = doStartExchange(sends, receives, stream);
  statistics_.wireBytes += sentBytes;
  statistics_.receivedBytes += receivedBytes;
  ++statistics_.operationCount;
  return request;
}

void Transport::learnHosts(std::span<const std::uint32_t> hostOfRank) {
  expects(hostOfRank.size() == static_cast<std::size_t>(rankCount_), "hosts of ", hostOfRank.size(),
          " ranks, where there are ", rankCount_);
  doLearnHosts(hostOfRank);
}

void Transport::doLearnHosts(std::span<const std::uint32_t>) {}

void Transport::exchange(std::span<const SendMessage> sends,
                         std::span<const ReceiveMessage> receives, StreamHandle stream) {
  Request request = startExchange(sends, receives, stream);
  wait(request);
}

void Transport::wait(Request& request) {
  if (!request.isActive()) return;
  // An operation that throws has given its buffers up already, so it must not be cancelled again.
  const std::unique_ptr<Operation> operation = std::move(request.operation_);
  const bool isComplete = operation->progress(true);
  invariant(isComplete, "a blocking wait returned before its operation was complete");
}

std::size_t Transport::waitAny(std::span<Request> requests) {
  waited_.clear();
  waitedPlaces_.clear();
  for (std::size_t place = 0; place < requests.size(); ++place) {
    if (!requests[place].isActive()) continue;
    waited_.push_back(requests[place].operation_.get());
    waitedPlaces_.push_back(place);
  }
  if (waited_.empty()) return requests.size();
  const std::size_t place = waitedPlaces_[waited_.front()->progressAny(waited_)];
  requests[place].operation_.reset();
  return place;
}

bool Transport::test(Request& request) {
  if (!request.isActive()) return true;
  std::unique_ptr<Operation> operation = std::move(request.operation_);
  if (operation->progress(false)) return true;
  request.operation_ = std::move(operation);
  return false;
}

void Transport::barrier() {
  throwIfFailed();
  doBarrier();
}

void Transport::allGatherControl(std::span<const std::byte> mine, std::span<std::byte> all,
                                 std::chrono::milliseconds timeout) {
  expects(mine.size() <= kMaxControlBytes, "a control blob of ", mine.size(), " bytes, at most ",
          kMaxControlBytes, " are allowed");
  expects(all.size() == mine.size() * static_cast<std::size_t>(rankCount_), "room for ", all.size(),
          " bytes of control blobs, ", rankCount_, " ranks give ", mine.size(), " each");
  expects(!overlaps(mine.data(), mine.size(), all.data(), all.size()),
          "the own control blob overlaps the room for all");
  throwIfFailed();
  doAllGatherControl(mine, all, timeout);
  statistics_.controlBytes += static_cast<std::uint64_t>(rankCount_ - 1) * mine.size();
}

void Transport::abort(std::string_view reason) noexcept { doAbort(reason); }

}  // namespace zipccl::transport
