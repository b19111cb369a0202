// SPDX-License-Identifier: Apache-2.0
//
// The shared memory of one fake communicator: a mailbox for each ordered pair of ranks, and a place
// where ranks meet. Ranks are threads or processes; both map the same file below /dev/shm.
//
//   | head | bells | meeting slots | mailbox 0->0 | mailbox 0->1 | ... | mailbox n-1->n-1 |

#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>

namespace zipccl::testing {

inline constexpr int kMostRanks = 64;
inline constexpr std::size_t kMailboxBytes = std::size_t{1} << 16;

/// A stream of bytes from one rank to another: written and read say how many ever were.
struct Mailbox {
  alignas(64) std::atomic<std::uint64_t> written;
  alignas(64) std::atomic<std::uint64_t> read;
  alignas(64) std::array<std::byte, kMailboxBytes> ring;
};

/// What a rank says to all others in one round of a meeting.
struct MeetingSlot {
  std::atomic<std::uint32_t> round;
  std::int32_t color;
  std::int32_t key;
};

/// Zero bytes are a valid arena to which nobody has come.
struct ArenaHead {
  std::atomic<std::uint32_t> comeCount;
  std::array<std::atomic<std::uint32_t>, kMostRanks> bells;
  std::array<std::array<MeetingSlot, kMostRanks>, 2> slots;
};

/// How a wait for other ranks ended.
enum class Wait { kDone, kAborted, kTimedOut };

/// One rank's view of the arena.
class Arena {
 public:
  /// Opens the memory `name` of `ranks` ranks, which the first to come makes and the last unlinks.
  Arena(const std::string& name, int ranks, int rank);
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;
  ~Arena();

  [[nodiscard]] int ranks() const noexcept { return ranks_; }
  [[nodiscard]] int rank() const noexcept { return rank_; }
  [[nodiscard]] Mailbox& mailbox(int from, int to) noexcept;
  [[nodiscard]] ArenaHead& head() noexcept { return *head_; }

  /// Waits until `isDone`, which is asked again whenever another rank rings this one's bell. False
  /// negatives of the bell do not matter: it is asked every few milliseconds too.
  Wait waitUntil(const std::function<bool()>& isDone, const std::atomic<bool>& isAborted,
                 int timeLimitMs);

  void ring(int rank) noexcept;
  void ringAll() noexcept;

  /// Comes, and waits for all others.
  Wait come(const std::atomic<bool>& isAborted, int timeLimitMs);

  /// Tells all others color and key, and waits for theirs, to be read from the slots of the round.
  Wait meet(int color, int key, const std::atomic<bool>& isAborted, int timeLimitMs,
            std::array<MeetingSlot, kMostRanks>*& slots);

 private:
  std::string name_;
  int ranks_;
  int rank_;
  std::size_t bytes_ = 0;
  ArenaHead* head_ = nullptr;
  Mailbox* mailboxes_ = nullptr;
  std::uint32_t round_ = 0;
};

}  // namespace zipccl::testing
