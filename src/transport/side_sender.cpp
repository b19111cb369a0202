// SPDX-License-Identifier: Apache-2.0
//
// The sending end, as a machine of five states.

#include "transport/side_sender.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <span>
#include <utility>

#include "base/error.hpp"
#include "base/text.hpp"

namespace zipccl::transport {

namespace {

constexpr std::chrono::milliseconds kFirstPause{10};
constexpr std::chrono::milliseconds kLongestPause{500};

/// After about as much of one connection the others get their turn.
constexpr std::uint64_t kSendTurnBytes = std::uint64_t{4} << 20;

}  // namespace

SideSender::SideSender(SideContext& context, int peer, std::uint64_t id)
    : context_(context),
      peer_(peer),
      id_(id),
      connectAt_(Clock::now()),
      giveUpAt_(connectAt_ + context.limits.connect),
      pause_(kFirstPause) {}

SideSender::Clock::time_point SideSender::nextAt() const noexcept {
  switch (state_) {
    case State::kWaiting:
      return std::min(connectAt_, giveUpAt_);
    case State::kConnecting:
      return giveUpAt_;
    case State::kGreeting:
      return welcomeBy_;
    case State::kReady:
    case State::kEnded:
      break;
  }
  return Clock::time_point::max();
}

void SideSender::queue(const SideTag& tag, std::shared_ptr<const std::vector<std::byte>> bytes) {
  if (hasEnded()) failUnsent();
  const SideMessageHeader header = sealedHeader(bytes->size(), tag.call, tag.chunk);
  unsent_.push_back({header, std::move(bytes), 0});
}

bool SideSender::advance(Clock::time_point now) {
  if (now < nextAt()) return false;
  if (state_ == State::kGreeting || now >= giveUpAt_) giveUp();
  connect();
  return true;
}

void SideSender::connect() {
  const IpAddress ip = context_.ipOf(peer_);
  socket_.open(openSocket(ip.family), context_.poller, id_);
  const int error =
      startConnect(socket_.fd(), ip, context_.addresses[static_cast<std::size_t>(peer_)].port);
  if (error == 0) {
    greet();
  } else if (error == EINPROGRESS) {
    socket_.watch(EPOLLOUT);
    state_ = State::kConnecting;
  } else {
    retry(errnoText(error));
  }
}

void SideSender::retry(std::string trouble) {
  trouble_ = std::move(trouble);
  socket_.close();
  state_ = State::kWaiting;
  connectAt_ = Clock::now() + pause_;
  pause_ = std::min(2 * pause_, kLongestPause);
}

void SideSender::giveUp() {
  const std::chrono::milliseconds limit =
      state_ == State::kGreeting ? context_.limits.welcome : context_.limits.connect;
  fail(ErrorCode::kRemoteError, context_.describeSelf(), " cannot reach ", context_.describe(peer_),
       " within ", describeMs(limit.count()), ": ", trouble_, context_.hint());
}

void SideSender::greet() {
  state_ = State::kGreeting;
  trouble_ = "it accepts the connection and does not answer";
  const std::chrono::milliseconds limit = context_.limits.welcome;
  welcomeBy_ = limit.count() == 0 ? Clock::time_point::max() : Clock::now() + limit;
  helloBytes_ = 0;
  welcomeBytes_ = 0;
  continueGreeting();
}

void SideSender::continueGreeting() {
  if (!sendHello() || !readWelcome()) return;
  checkWelcome();
}

bool SideSender::sendHello() {
  if (helloBytes_ == sizeof(SideHello)) return true;
  SideHello hello;
  hello.rank = context_.rank;
  hello.token = context_.addresses[static_cast<std::size_t>(peer_)].token;
  const auto bytes = std::as_bytes(std::span(&hello, 1));
  const Transfer transfer = sendSome(socket_.fd(), bytes.subspan(helloBytes_));
  if (transfer.state == Transfer::State::kBroken) {
    retry(errnoText(transfer.error));
    return false;
  }
  helloBytes_ += transfer.bytes;
  const bool isSent = helloBytes_ == sizeof(SideHello);
  socket_.watch(isSent ? EPOLLIN : EPOLLOUT);
  return isSent;
}

bool SideSender::readWelcome() {
  const Transfer transfer = receiveSome(socket_.fd(), std::span(welcome_).subspan(welcomeBytes_));
  if (transfer.state == Transfer::State::kEnded || transfer.state == Transfer::State::kBroken) {
    // A receiver that is short of descriptors, or cannot tell ranks from strangers, does so too.
    retry("it ends the connection before it answers");
    return false;
  }
  welcomeBytes_ += transfer.bytes;
  return welcomeBytes_ == sizeof(SideWelcome);
}

void SideSender::checkWelcome() {
  SideWelcome expected;
  expected.rank = peer_;
  expected.token = context_.own.token;
  SideWelcome received;
  std::memcpy(&received, welcome_.data(), sizeof(received));
  if (received != expected) {
    retry("what answers there is not that rank");
    return;
  }
  state_ = State::kReady;
  isBlocked_ = false;
}

void SideSender::onEvents(std::uint32_t events) {
  switch (state_) {
    case State::kConnecting: {
      const int error = connectResult(socket_.fd());
      if (error == 0) {
        greet();
      } else {
        retry(errnoText(error));
      }
      break;
    }
    case State::kGreeting:
      continueGreeting();
      break;
    case State::kReady:
      if ((events & EPOLLOUT) != 0) isBlocked_ = false;
      if ((events & ~static_cast<std::uint32_t>(EPOLLOUT)) != 0) lookForEnd();
      break;
    case State::kWaiting:
    case State::kEnded:
      break;
  }
}

void SideSender::lookForEnd() {
  std::byte unexpected{};
  const Transfer transfer = receiveSome(socket_.fd(), std::span(&unexpected, 1));
  if (transfer.state == Transfer::State::kBlocked) return;
  if (transfer.state == Transfer::State::kMoved) {
    fail(ErrorCode::kRemoteError, context_.describe(peer_),
         " breaks the protocol of side channels: it sends where it should only receive");
  }
  end(transfer);
}

void SideSender::end(const Transfer& transfer) {
  trouble_ = transfer.state == Transfer::State::kEnded ? "it has closed the connection"
                                                       : errnoText(transfer.error);
  if (hasUnsent()) failUnsent();
  socket_.close();
  state_ = State::kEnded;
}

void SideSender::failUnsent() const {
  fail(ErrorCode::kRemoteError, context_.describe(peer_),
       " is gone, and there are messages for it from ", context_.describeSelf(), ": ", trouble_);
}

Transfer SideSender::sendFront() {
  const Unsent& front = unsent_.front();
  const auto header = std::as_bytes(std::span(&front.header, 1));
  const std::span<const std::byte> bytes(*front.bytes);
  const std::uint64_t headerBytes = std::min<std::uint64_t>(front.sentBytes, header.size());
  return sendSome(socket_.fd(), header.subspan(headerBytes),
                  bytes.subspan(front.sentBytes - headerBytes));
}

bool SideSender::sendQueued() {
  std::uint64_t turnBytes = 0;
  while (canSend() && turnBytes < kSendTurnBytes) {
    const Transfer transfer = sendFront();
    if (transfer.state == Transfer::State::kBroken) end(transfer);
    isBlocked_ = transfer.state == Transfer::State::kBlocked;
    turnBytes += transfer.bytes;
    Unsent& front = unsent_.front();
    front.sentBytes += transfer.bytes;
    if (front.sentBytes == sizeof(SideMessageHeader) + front.bytes->size()) unsent_.pop_front();
  }
  socket_.watch(isBlocked_ ? EPOLLIN | EPOLLOUT : EPOLLIN);
  return turnBytes != 0;
}

}  // namespace zipccl::transport
