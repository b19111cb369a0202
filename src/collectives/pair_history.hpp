// SPDX-License-Identifier: Apache-2.0
//
// What the ranks that take part in calls or messages know of earlier ones. Each rank keeps one
// history for what it sends to a peer, one for what it receives from it, and over NCCL one for the
// calls that all ranks make; those who share a history see the same messages in the same order and
// the same headers, so their histories are equal, and they decide alike, however each of them
// groups its calls.

#pragma once

#include <cstdint>
#include <deque>
#include <optional>

#include "collectives/class_table.hpp"
#include "policy/facts.hpp"

namespace zipccl::collectives {

/// On what earlier messages a message is decided.
struct HistoryLag {
  /// Message k is decided on with what messages 0 to k - messages left: those behind them may be in
  /// flight when it begins.
  std::uint64_t messages = 2;
  /// But a message of a class of which fewer have counted is decided on with all earlier ones, up
  /// to the last of its class: what is new is learnt soonest.
  std::uint64_t settling = 0;
  /// For a Send or Receive the first number is this, and it does not settle: a program may put
  /// several of them into one group, or queue them before the call with which its peer goes on.
  std::uint64_t sendsAndReceives = 2;
};

class PairHistory {
 public:
  static constexpr std::size_t kMaxClasses = 16;

  explicit PairHistory(HistoryLag lag = {}, std::size_t mostClasses = kMaxClasses) noexcept
      : lag_(lag), classes_(mostClasses) {}

  /// The next message. `entry` is null for a datatype without frames; it is valid until the next
  /// message begins.
  struct Message {
    std::uint64_t number = 0;
    ClassTable::Entry* entry = nullptr;
  };

  /// Whether those messages have ended on whose ends the next one is decided.
  [[nodiscard]] bool mayBegin(const std::optional<ClassKey>& key) const;

  /// Begins the next message, which may begin.
  [[nodiscard]] Message begin(const std::optional<ClassKey>& key);

  /// Ends a message, once: staged, with what its frames needed; native; or with nothing to be
  /// learnt from it.
  void endStaged(std::uint64_t number, const policy::ExtraSpace& seen);
  void endNative(std::uint64_t number);
  void endUnseen(std::uint64_t number);

  /// Whether a message has begun that has not ended.
  [[nodiscard]] bool hasOpen() const noexcept;

 private:
  enum class End { kNone, kStaged, kNative, kUnseen };
  struct Record {
    std::optional<ClassKey> key;
    End end = End::kNone;
    policy::ExtraSpace seen;
  };

  /// How many of records_ the next message waits for.
  [[nodiscard]] std::size_t neededRecords(const std::optional<ClassKey>& key) const;
  void end(std::uint64_t number, End how, const policy::ExtraSpace& seen);
  void apply(const Record& record, std::uint64_t number);

  HistoryLag lag_;
  ClassTable classes_;
  std::deque<Record> records_;      ///< of messages whose statistics are not in effect yet
  std::uint64_t firstRecord_ = 0;   ///< number of the first of them
  std::uint64_t messageCount_ = 0;  ///< begun
};

/// The two histories of one peer.
struct PeerHistories {
  explicit PeerHistories(HistoryLag lag = {}) noexcept : sent(lag), received(lag) {}

  PairHistory sent;
  PairHistory received;
};

}  // namespace zipccl::collectives
