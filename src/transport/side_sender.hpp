// SPDX-License-Identifier: Apache-2.0
//
// The sending end of a side channel's connection: connects, as often as it takes, says hello, waits
// for the welcome, then sends what is queued.

#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "transport/side_context.hpp"

namespace zipccl::transport {

/// All members throw Error(kRemoteError) when the connection cannot be made or breaks with messages
/// unsent, and Error(kSystemError) when this process lacks something.
class SideSender {
 public:
  using Clock = std::chrono::steady_clock;

  /// `id` is what the poller reports its events with. Connects at the next advance().
  SideSender(SideContext& context, int peer, std::uint64_t id);

  [[nodiscard]] bool isOpening() const noexcept { return state_ < State::kReady; }
  [[nodiscard]] bool isReady() const noexcept { return state_ == State::kReady; }
  [[nodiscard]] bool hasEnded() const noexcept { return state_ == State::kEnded; }
  [[nodiscard]] bool hasUnsent() const noexcept { return !unsent_.empty(); }

  /// Whether sendQueued() may move something now.
  [[nodiscard]] bool canSend() const noexcept { return isReady() && hasUnsent() && !isBlocked_; }

  /// When advance() has something to do, of a sender that is opening, unless events come first.
  [[nodiscard]] Clock::time_point nextAt() const noexcept;

  /// Why it is not connected, or not any more.
  [[nodiscard]] const std::string& trouble() const noexcept { return trouble_; }

  void queue(const SideTag& tag, std::shared_ptr<const std::vector<std::byte>> bytes);

  /// While it is opening: does what is due by the clock. Returns whether it did something.
  bool advance(Clock::time_point now);

  void onEvents(std::uint32_t events);

  /// Sends as much as there is room for, or some megabytes. Returns whether anything moved.
  bool sendQueued();

 private:
  enum class State {
    kWaiting,     ///< until connectAt_
    kConnecting,  ///< the system does
    kGreeting,    ///< connected; a hello, then a welcome
    kReady,
    kEnded,  ///< by the peer, with nothing unsent
  };

  struct Unsent {
    SideMessageHeader header;
    std::shared_ptr<const std::vector<std::byte>> bytes;
    std::uint64_t sentBytes = 0;  ///< the header's among them
  };

  void connect();
  void retry(std::string trouble);
  [[noreturn]] void giveUp();
  void greet();
  void continueGreeting();
  [[nodiscard]] bool sendHello();
  [[nodiscard]] bool readWelcome();
  void checkWelcome();
  [[nodiscard]] Transfer sendFront();
  void lookForEnd();
  void end(const Transfer& transfer);
  [[noreturn]] void failUnsent() const;

  SideContext& context_;
  const int peer_;
  const std::uint64_t id_;
  State state_ = State::kWaiting;
  WatchedSocket socket_;
  std::string trouble_ = "it does not answer";
  Clock::time_point connectAt_;
  Clock::time_point giveUpAt_;
  Clock::time_point welcomeBy_;
  std::chrono::milliseconds pause_;  ///< before the next try
  std::size_t helloBytes_ = 0;       ///< sent
  std::size_t welcomeBytes_ = 0;     ///< received
  std::array<std::byte, sizeof(SideWelcome)> welcome_{};
  std::deque<Unsent> unsent_;
  bool isBlocked_ = false;  ///< until there is room
};

}  // namespace zipccl::transport
