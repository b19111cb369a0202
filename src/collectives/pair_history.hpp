// SPDX-License-Identifier: Apache-2.0
//
// What the two ends of an ordered pair of ranks know of the messages between them. Each rank keeps
// one history for what it sends to a peer and one for what it receives from it; sender and receiver
// see the same messages in the same order and the same headers, so their histories are equal, and
// they decide alike, however each of them groups its calls.

#pragma once

#include <cstdint>
#include <deque>
#include <optional>

#include "collectives/class_table.hpp"
#include "policy/facts.hpp"

namespace zipccl::collectives {

class PairHistory {
 public:
  /// Message k is decided on with what messages 0 to k - kLag left. The ends have the frames of
  /// those behind them when k begins, but perhaps not of later ones: two chunks are in flight.
  static constexpr std::uint64_t kLag = 2;

  static constexpr std::size_t kMaxClasses = 16;

  /// The next message. `entry` is null for a datatype without frames; it is valid until the next
  /// message begins.
  struct Message {
    std::uint64_t number = 0;
    ClassTable::Entry* entry = nullptr;
  };

  /// Begins the next message; those before it but kLag - 1 must have ended.
  [[nodiscard]] Message begin(const std::optional<ClassKey>& key);

  /// Ends the message that began earliest of those that have not: staged, with what its frames
  /// needed, or native.
  void endStaged(const policy::ExtraSpace& seen) { end(seen); }
  void endNative() { end(std::nullopt); }

 private:
  struct Record {
    std::optional<ClassKey> key;
    bool hasEnded = false;
    std::optional<policy::ExtraSpace> seen;
  };

  void end(const std::optional<policy::ExtraSpace>& seen);
  void apply(const Record& record, std::uint64_t number);

  ClassTable classes_{kMaxClasses};
  std::deque<Record> records_;      ///< of messages whose statistics are not in effect yet
  std::uint64_t firstRecord_ = 0;   ///< number of the first of them
  std::uint64_t messageCount_ = 0;  ///< begun
};

/// The two histories of one peer.
struct PeerHistories {
  PairHistory sent;
  PairHistory received;
};

}  // namespace zipccl::collectives
