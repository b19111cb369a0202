// SPDX-License-Identifier: Apache-2.0
//
// The receiving end of a side channel's connection: welcomes the peer and reads its messages, each
// into memory that grows with what has come of it.

#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

#include "transport/side_context.hpp"

namespace zipccl::transport {

class SideReceiver {
 public:
  /// `id` is what the poller reports its events with.
  SideReceiver(SideContext& context, int peer, std::uint64_t id)
      : context_(context), peer_(peer), id_(id) {}

  /// Takes over a connection on which the peer has said hello, and welcomes it. False, with the
  /// connection closed, where that fails or the peer has sent messages by another one before; who
  /// is not welcomed tries again. Throws Error(kSystemError).
  [[nodiscard]] bool adopt(UniqueFd fd);

  /// Whether the peer was ever welcomed.
  [[nodiscard]] bool hasConnected() const noexcept { return hasConnected_; }

  [[nodiscard]] std::optional<SideMessage> take();

  /// Whether the peer has ended its connection, and all messages are taken.
  [[nodiscard]] bool isClosed() const noexcept {
    return hasConnected_ && !socket_.isOpen() && messages_.empty();
  }

  /// Reads what is there, or some megabytes. Throws Error(kRemoteError) where the peer breaks the
  /// protocol or the connection ends inside a message.
  void read();

 private:
  [[nodiscard]] Transfer readHeader();
  [[nodiscard]] Transfer readBytes();
  void complete();
  void end(const Transfer& transfer);
  [[nodiscard]] bool isFull() const noexcept { return heldBytes_ > context_.limits.maxHeldBytes; }
  [[nodiscard]] static std::uint64_t costOf(const SideMessage& message) noexcept {
    return sizeof(SideMessage) + message.bytes.size();
  }

  SideContext& context_;
  const int peer_;
  const std::uint64_t id_;
  WatchedSocket socket_;
  bool hasConnected_ = false;
  bool hasReceived_ = false;  ///< any byte of a message, by any connection
  // The message that is coming.
  std::array<std::byte, sizeof(SideMessageHeader)> headerBytes_{};
  std::size_t headerByteCount_ = 0;
  SideMessageHeader header_;
  std::vector<std::byte> bytes_;  ///< longer than what has come
  std::uint64_t byteCount_ = 0;
  // Those that are here.
  std::deque<SideMessage> messages_;
  std::uint64_t heldBytes_ = 0;
};

}  // namespace zipccl::transport
