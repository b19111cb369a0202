// SPDX-License-Identifier: Apache-2.0
//
// What the connections of one side channel share: its limits, who its ranks are, and the words that
// errors name them by.

#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "base/settings.hpp"
#include "transport/network_interface.hpp"
#include "transport/side_wire.hpp"
#include "transport/tcp_socket.hpp"

namespace zipccl::transport {

/// What the collectives know a message by.
struct SideTag {
  std::uint64_t call = 0;
  std::uint64_t chunk = 0;

  friend bool operator==(const SideTag&, const SideTag&) = default;
};

struct SideMessage {
  SideTag tag;
  std::vector<std::byte> bytes;
};

/// What a side channel bears.
struct SideLimits {
  /// The longest message, in either direction.
  std::uint64_t maxMessageBytes = std::uint64_t{1} << 30;
  /// About how much of one peer's messages waits for receive(); then no more is read from that peer
  /// until some are taken. A longer message is still read whole.
  std::uint64_t maxHeldBytes = std::uint64_t{64} << 20;
  /// How long a peer may refuse to be connected to, or not answer.
  std::chrono::milliseconds connect = std::chrono::seconds(30);
  /// How long a peer that is connected to may take to welcome this rank, which it does when its
  /// program next looks at its channel. Zero is for ever.
  std::chrono::milliseconds welcome = settings().timeout;
  /// How long a stranger may hold a connection before it has said who it is.
  std::chrono::milliseconds hello = std::chrono::seconds(30);
};

struct SideContext {
  int rank = 0;
  SideLimits limits;
  SocketRules rules;
  NetworkInterface networkInterface;
  SideAddress own;
  std::vector<SideAddress> addresses;  ///< by rank; empty before they are known
  Poller poller;

  /// Where `peer` listens, as this host reaches it.
  [[nodiscard]] IpAddress ipOf(int peer) const;

  /// `rank 3 at 10.0.0.3:4711`
  [[nodiscard]] std::string describe(int peer) const;

  /// `rank 2 at 10.0.0.2:4711 (eth0)`
  [[nodiscard]] std::string describeSelf() const;

  /// A sentence: what to set when ranks do not reach each other.
  [[nodiscard]] std::string hint() const;
};

}  // namespace zipccl::transport
