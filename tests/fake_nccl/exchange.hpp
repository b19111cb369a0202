// SPDX-License-Identifier: Apache-2.0
//
// Messages between the ranks of an arena, many at once, each preceded by a label that says which
// call it belongs to, so that the receiver notices calls that do not fit each other.

#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "arena.hpp"

namespace zipccl::testing {

/// What both ends of a message must agree on.
struct Label {
  std::uint32_t magic = 0x4c414245;
  std::int32_t kind = 0;
  std::int32_t datatype = 0;
  std::int32_t op = 0;
  std::int32_t root = 0;
  std::uint32_t unused = 0;
  std::uint64_t count = 0;
  std::uint64_t bytes = 0;

  friend bool operator==(const Label&, const Label&) = default;
};

[[nodiscard]] std::string describe(const Label& label);

/// A set of messages of one rank that make progress together, as one kernel of NCCL does.
class Exchange {
 public:
  explicit Exchange(Arena& arena);

  /// Messages between two ranks match in their order.
  void send(int peer, const Label& label, const void* data);
  void receive(int peer, const Label& label, void* data);

  /// Moves all of them. Empty when they are moved; else what went wrong, or "aborted".
  [[nodiscard]] std::string run(const std::atomic<bool>& isAborted, int timeLimitMs);

 private:
  struct Transfer {
    Label label;
    std::byte* data = nullptr;  // not written to when sending
    std::size_t doneBytes = 0;  // of label and data together
    Label seen;                 // when receiving
  };

  [[nodiscard]] bool push(int peer);
  [[nodiscard]] bool pull(int peer);
  /// Whether all that this rank ever sent to the other has been received.
  [[nodiscard]] bool isTaken(int peer) const;
  [[nodiscard]] bool isDone() const;
  [[nodiscard]] std::string waitingFor() const;

  Arena& arena_;
  std::vector<std::deque<Transfer>> sends_;
  std::vector<std::deque<Transfer>> receives_;
  bool isRendezvous_;
  std::string fault_;
};

}  // namespace zipccl::testing
