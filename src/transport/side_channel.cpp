// SPDX-License-Identifier: Apache-2.0
//
// The side channel: who listens and is heard, and whose turn it is.

#include "transport/side_channel.hpp"

#include <algorithm>
#include <cstring>
#include <span>
#include <utility>

#include "base/log.hpp"
#include "base/random.hpp"
#include "base/text.hpp"
#include "transport/side_receiver.hpp"
#include "transport/side_sender.hpp"

namespace zipccl::transport {

namespace {

using Clock = std::chrono::steady_clock;

/// What an event of the poller is about: the kind above, a rank or a stranger's number below.
enum class Source : std::uint64_t { kListener, kStranger, kSender, kReceiver };
constexpr unsigned kSourceShift = 56;

constexpr std::uint64_t idOf(Source source, std::uint64_t number) {
  return (static_cast<std::uint64_t>(source) << kSourceShift) | number;
}

/// Events, and connections, that are dealt with in one turn.
constexpr std::size_t kTurnEvents = 64;

/// Strangers beyond one a rank; then the oldest must go. A rank among them tries again.
constexpr std::size_t kSpareStrangers = 64;

std::uint64_t freshToken() {
  std::uint64_t token = 0;
  while (token == 0) token = freshSeed();
  return token;
}

}  // namespace

SideChannel::SideChannel(int rank, int rankCount, const SideLimits& limits)
    : rankCount_(rankCount) {
  expects(rankCount > 0 && rank >= 0 && rank < rankCount, "rank ", rank, " of ", rankCount,
          " ranks");
  context_.rank = rank;
  context_.limits = limits;
  context_.rules = readSocketRules();
  const std::vector<NetworkInterface> interfaces = listNetworkInterfaces();
  context_.networkInterface = chooseNetworkInterface(interfaces, context_.rules);
  const IpAddress& ip = context_.networkInterface.address;
  context_.own = {freshToken(), ip.bytes, ip.family, 0, 0};
  listener_.open(openListener(ip, context_.own.port), context_.poller, idOf(Source::kListener, 0));
  senders_.resize(static_cast<std::size_t>(rankCount));
  receivers_.resize(static_cast<std::size_t>(rankCount));
  logInfo(LogSubsystem::kTransport, "side channel of ", context_.describeSelf());
}

SideChannel::~SideChannel() = default;

void SideChannel::setPeers(std::vector<SideAddress> addresses) {
  expects(context_.addresses.empty(), ErrorCode::kInvalidUsage,
          "the peers of a side channel are set once");
  expects(addresses.size() == static_cast<std::size_t>(rankCount_), addresses.size(),
          " addresses for ", rankCount_, " ranks");
  for (const SideAddress& address : addresses) {
    expects(address.isPresent(), "a rank has no address for its side channel");
  }
  expects(addresses[static_cast<std::size_t>(context_.rank)] == context_.own,
          "the address in place of rank ", context_.rank, " is not its own");
  context_.addresses = std::move(addresses);
  // Not before: who connects is answered with its own token.
  listener_.watch(EPOLLIN);
}

void SideChannel::checkPeer(int peer) const {
  expects(!context_.addresses.empty(), ErrorCode::kInvalidUsage,
          "a side channel is used before its peers are set");
  expects(peer >= 0 && peer < rankCount_ && peer != context_.rank, "peer ", peer, " of rank ",
          context_.rank, " of ", rankCount_);
}

void SideChannel::throwIfFailed() const {
  if (failure_) throw Error(*failure_);
}

template <class Work>
auto SideChannel::orFail(Work work) {
  throwIfFailed();
  try {
    return work();
  } catch (const Error& error) {
    if (error.code() == ErrorCode::kRemoteError) failure_ = error;
    throw;
  }
}

SideSender& SideChannel::senderTo(int peer) {
  std::unique_ptr<SideSender>& sender = senders_[static_cast<std::size_t>(peer)];
  if (sender == nullptr) {
    opening_.reserve(opening_.size() + 1);
    sender = std::make_unique<SideSender>(context_, peer,
                                          idOf(Source::kSender, static_cast<std::uint64_t>(peer)));
    opening_.push_back(sender.get());
  }
  return *sender;
}

SideReceiver& SideChannel::receiverFrom(int peer) {
  std::unique_ptr<SideReceiver>& receiver = receivers_[static_cast<std::size_t>(peer)];
  if (receiver == nullptr) {
    receiver = std::make_unique<SideReceiver>(
        context_, peer, idOf(Source::kReceiver, static_cast<std::uint64_t>(peer)));
  }
  return *receiver;
}

void SideChannel::verify(std::chrono::steady_clock::time_point deadline) {
  if (rankCount_ == 1) return;
  const int next = (context_.rank + 1) % rankCount_;
  const int previous = (context_.rank + rankCount_ - 1) % rankCount_;
  checkPeer(next);
  const SideSender& sender = senderTo(next);
  const SideReceiver& receiver = receiverFrom(previous);
  for (;;) {
    progress();
    if (sender.isReady() && receiver.hasConnected()) return;
    const Clock::time_point now = Clock::now();
    if (sender.hasEnded() || now >= deadline) failRing(next, previous);
    waitBriefly(std::chrono::ceil<std::chrono::microseconds>(
        std::min<Clock::duration>(deadline - now, std::chrono::milliseconds(10))));
  }
}

void SideChannel::failRing(int next, int previous) const {
  const SideSender& sender = *senders_[static_cast<std::size_t>(next)];
  const bool isHere = receivers_[static_cast<std::size_t>(previous)]->hasConnected();
  std::string faults;
  if (!sender.isReady()) {
    faults = concat("it cannot reach ", context_.describe(next), ": ", sender.trouble());
  }
  if (!isHere) {
    faults +=
        concat(faults.empty() ? "" : "; ", context_.describe(previous), " has not connected to it");
  }
  fail(ErrorCode::kRemoteError, "the side channel of ", context_.describeSelf(), ": ", faults,
       context_.hint());
}

void SideChannel::send(int peer, const SideTag& tag,
                       std::shared_ptr<const std::vector<std::byte>> bytes) {
  checkPeer(peer);
  expects(bytes != nullptr, "a message without bytes");
  expects(bytes->size() <= context_.limits.maxMessageBytes, "a message of ", bytes->size(),
          " bytes, and at most ", context_.limits.maxMessageBytes, " are allowed");
  orFail([&] {
    SideSender& sender = senderTo(peer);
    const bool wasIdle = sender.isReady() && !sender.hasUnsent();
    sending_.reserve(sending_.size() + 1);
    sender.queue(tag, std::move(bytes));
    if (wasIdle) sending_.push_back(&sender);
  });
}

std::optional<SideMessage> SideChannel::receive(int peer) {
  checkPeer(peer);
  SideReceiver* const receiver = receivers_[static_cast<std::size_t>(peer)].get();
  return receiver == nullptr ? std::nullopt : receiver->take();
}

bool SideChannel::isClosed(int peer) const {
  checkPeer(peer);
  const SideReceiver* const receiver = receivers_[static_cast<std::size_t>(peer)].get();
  return receiver != nullptr && receiver->isClosed();
}

bool SideChannel::progress() {
  return orFail([&] {
    bool hasMoved = advanceOpening();
    hasMoved = handleEvents() || hasMoved;
    sortOpening();
    hasMoved = sendQueued() || hasMoved;
    dismissLateStrangers();
    return hasMoved;
  });
}

bool SideChannel::advanceOpening() {
  if (opening_.empty()) return false;
  const Clock::time_point now = Clock::now();
  bool hasMoved = false;
  for (SideSender* const sender : opening_) hasMoved = sender->advance(now) || hasMoved;
  return hasMoved;
}

bool SideChannel::handleEvents() {
  std::array<epoll_event, kTurnEvents> room;
  const std::span<const epoll_event> events = context_.poller.look(room);
  for (const epoll_event& event : events) handle(event);
  return !events.empty();
}

void SideChannel::handle(const epoll_event& event) {
  const std::uint64_t id = event.data.u64;
  const std::uint64_t number = id & ((std::uint64_t{1} << kSourceShift) - 1);
  switch (static_cast<Source>(id >> kSourceShift)) {
    case Source::kListener:
      acceptStrangers();
      break;
    case Source::kStranger:
      hear(number);
      break;
    case Source::kSender:
      senders_[number]->onEvents(event.events);
      break;
    case Source::kReceiver:
      receivers_[number]->read();
      break;
  }
}

void SideChannel::sortOpening() {
  std::erase_if(opening_, [&](SideSender* sender) {
    if (sender->isReady() && sender->hasUnsent()) sending_.push_back(sender);
    return !sender->isOpening();
  });
}

bool SideChannel::sendQueued() {
  bool hasMoved = false;
  for (SideSender* const sender : sending_) hasMoved = sender->sendQueued() || hasMoved;
  std::erase_if(sending_, [](const SideSender* sender) { return !sender->hasUnsent(); });
  return hasMoved;
}

void SideChannel::acceptStrangers() {
  for (std::size_t count = 0; count < kTurnEvents; ++count) {
    UniqueFd fd = acceptOne(listener_.fd());
    if (!fd.isOpen()) return;
    const std::uint64_t number = strangerCount_++;
    Stranger& stranger = strangers_[number];
    stranger.dismissAt = Clock::now() + context_.limits.hello;
    stranger.socket.open(std::move(fd), context_.poller, idOf(Source::kStranger, number));
    stranger.socket.watch(EPOLLIN);
    if (strangers_.size() > static_cast<std::size_t>(rankCount_) + kSpareStrangers) {
      strangers_.erase(strangers_.begin());
    }
  }
}

void SideChannel::hear(std::uint64_t number) {
  const auto found = strangers_.find(number);
  if (found == strangers_.end()) return;
  Stranger& stranger = found->second;
  const Transfer transfer =
      receiveSome(stranger.socket.fd(), std::span(stranger.hello).subspan(stranger.helloBytes));
  if (transfer.state == Transfer::State::kBlocked) return;
  stranger.helloBytes += transfer.bytes;
  const bool isComplete = stranger.helloBytes == sizeof(SideHello);
  if (transfer.state == Transfer::State::kMoved && !isComplete) return;
  UniqueFd fd = isComplete ? stranger.socket.release() : UniqueFd();
  SideHello hello;
  std::memcpy(&hello, stranger.hello.data(), sizeof(hello));
  strangers_.erase(found);
  if (isComplete) admit(std::move(fd), hello);
}

void SideChannel::admit(UniqueFd fd, const SideHello& hello) {
  SideHello expected = hello;
  expected.magic = SideHello::kMagic;
  expected.version = kSideVersion;
  expected.token = context_.own.token;
  const bool isPeer = hello.rank >= 0 && hello.rank < rankCount_ && hello.rank != context_.rank;
  if (hello == expected && isPeer && receiverFrom(hello.rank).adopt(std::move(fd))) return;
  logInfo(LogSubsystem::kTransport, "side channel of ", context_.describeSelf(),
          ": a connection whose hello is not that of a rank was refused");
}

void SideChannel::dismissLateStrangers() {
  if (strangers_.empty()) return;
  const Clock::time_point now = Clock::now();
  while (!strangers_.empty() && strangers_.begin()->second.dismissAt <= now) {
    strangers_.erase(strangers_.begin());
  }
}

void SideChannel::waitBriefly(std::chrono::microseconds timeout) const noexcept {
  const auto canSend = [](const SideSender* sender) { return sender->canSend(); };
  if (std::any_of(sending_.begin(), sending_.end(), canSend)) return;
  if (!opening_.empty()) {
    const Clock::time_point now = Clock::now();
    for (const SideSender* const sender : opening_) {
      const Clock::duration untilNext = std::max(sender->nextAt(), now) - now;
      if (untilNext < timeout) timeout = std::chrono::ceil<std::chrono::microseconds>(untilNext);
    }
  }
  if (timeout.count() > 0) context_.poller.wait(timeout);
}

bool SideChannel::hasUnsent() const noexcept {
  const auto hasUnsent = [](const SideSender* sender) { return sender->hasUnsent(); };
  return !sending_.empty() || std::any_of(opening_.begin(), opening_.end(), hasUnsent);
}

bool SideChannel::flush(std::chrono::steady_clock::time_point deadline) {
  for (;;) {
    progress();
    if (!hasUnsent()) return true;
    const Clock::time_point now = Clock::now();
    if (now >= deadline) return false;
    waitBriefly(std::chrono::ceil<std::chrono::microseconds>(
        std::min<Clock::duration>(deadline - now, std::chrono::milliseconds(10))));
  }
}

std::string SideChannel::describePeer(int peer) const { return context_.describe(peer); }

}  // namespace zipccl::transport
