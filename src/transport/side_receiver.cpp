// SPDX-License-Identifier: Apache-2.0
//
// The receiving end.

#include "transport/side_receiver.hpp"

#include <algorithm>
#include <cstring>
#include <span>
#include <utility>

#include "base/error.hpp"
#include "base/text.hpp"

namespace zipccl::transport {

namespace {

/// After about as much of one connection the others get their turn.
constexpr std::uint64_t kTurnBytes = std::uint64_t{4} << 20;

/// The memory of a message before any of it has come; then twice what has come.
constexpr std::uint64_t kFirstBytes = std::uint64_t{64} << 10;

}  // namespace

bool SideReceiver::adopt(UniqueFd fd) {
  // A peer connects again only if it was not welcomed, and has then sent nothing.
  if (hasReceived_) return false;
  SideWelcome welcome;
  welcome.rank = context_.rank;
  welcome.token = context_.addresses[static_cast<std::size_t>(peer_)].token;
  socket_.open(std::move(fd), context_.poller, id_);
  try {
    socket_.watch(EPOLLIN);
  } catch (...) {
    socket_.close();
    throw;
  }
  // Before any other byte in this direction, so there is room for it.
  const Transfer transfer = sendSome(socket_.fd(), std::as_bytes(std::span(&welcome, 1)));
  if (transfer.bytes != sizeof(welcome)) {
    socket_.close();
    return false;
  }
  hasConnected_ = true;
  return true;
}

std::optional<SideMessage> SideReceiver::take() {
  if (messages_.empty()) return std::nullopt;
  const bool wasFull = isFull();
  heldBytes_ -= costOf(messages_.front());
  if (wasFull && !isFull() && socket_.isOpen()) socket_.watch(EPOLLIN);
  std::optional<SideMessage> message(std::move(messages_.front()));
  messages_.pop_front();
  return message;
}

void SideReceiver::read() {
  std::uint64_t turnBytes = 0;
  while (socket_.isOpen() && !isFull() && turnBytes < kTurnBytes) {
    const bool isInHeader = headerByteCount_ < sizeof(SideMessageHeader);
    const Transfer transfer = isInHeader ? readHeader() : readBytes();
    if (transfer.state == Transfer::State::kBlocked) break;
    if (transfer.state != Transfer::State::kMoved) {
      end(transfer);
      break;
    }
    hasReceived_ = true;
    turnBytes += transfer.bytes;
    if (headerByteCount_ == sizeof(SideMessageHeader) && byteCount_ == header_.bytes) complete();
  }
  if (socket_.isOpen() && isFull()) socket_.watch(0);
}

Transfer SideReceiver::readHeader() {
  const Transfer transfer =
      receiveSome(socket_.fd(), std::span(headerBytes_).subspan(headerByteCount_));
  headerByteCount_ += transfer.bytes;
  if (headerByteCount_ < sizeof(SideMessageHeader)) return transfer;
  std::memcpy(&header_, headerBytes_.data(), sizeof(header_));
  if (header_.seal != header_.expectedSeal()) {
    fail(ErrorCode::kRemoteError, "the header of a message of ", context_.describe(peer_), " to ",
         context_.describeSelf(), " is damaged");
  }
  if (header_.bytes > context_.limits.maxMessageBytes) {
    fail(ErrorCode::kRemoteError, context_.describe(peer_), " sends a message of ",
         describeBytes(header_.bytes), " to ", context_.describeSelf(), ", and at most ",
         describeBytes(context_.limits.maxMessageBytes), " are allowed");
  }
  return transfer;
}

Transfer SideReceiver::readBytes() {
  if (bytes_.size() == byteCount_) {
    const std::uint64_t restBytes = header_.bytes - byteCount_;
    bytes_.resize(byteCount_ + std::min(restBytes, std::max(byteCount_, kFirstBytes)));
  }
  const Transfer transfer = receiveSome(socket_.fd(), std::span(bytes_).subspan(byteCount_));
  byteCount_ += transfer.bytes;
  return transfer;
}

void SideReceiver::complete() {
  messages_.push_back({{header_.call, header_.chunk}, std::move(bytes_)});
  heldBytes_ += costOf(messages_.back());
  bytes_ = {};
  byteCount_ = 0;
  headerByteCount_ = 0;
}

void SideReceiver::end(const Transfer& transfer) {
  socket_.close();
  if (headerByteCount_ == 0) return;
  fail(ErrorCode::kRemoteError, context_.describe(peer_), " is gone in the middle of a message to ",
       context_.describeSelf(), ": ",
       transfer.state == Transfer::State::kEnded ? "it has closed the connection"
                                                 : errnoText(transfer.error));
}

}  // namespace zipccl::transport
