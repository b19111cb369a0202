// SPDX-License-Identifier: Apache-2.0
//
// The side table: which communicators the engine is attached to. Looking one up takes no lock,
// because it stands before every call of the program, and because a watchdog thread may abort a
// communicator while another thread is inside a call on it.

#pragma once

#include <atomic>
#include <cstdint>

namespace zipccl::preload {

/// A communicator and what the engine made of it. Its memory is never given back, so that a thread
/// that comes too late finds a closed entry and not somebody else's bytes.
class Attachment {
 public:
  [[nodiscard]] void* attached() const noexcept {
    return attached_.load(std::memory_order_relaxed);
  }

 private:
  friend class CommTable;

  /// Set in users_ where nobody may come in any more: the entry is free, or its end has begun.
  static constexpr std::uint32_t kClosed = 1U << 31;

  std::atomic<void*> comm_{nullptr};
  std::atomic<void*> attached_{nullptr};
  std::atomic<std::uint32_t> users_{kClosed};
};

/// The table. Any thread may call any function.
///
/// Communicators are spread over buckets of a few entries; where a bucket is full, the next table
/// of a chain has more.
class CommTable {
 public:
  /// What is done to `attached` when the last user of a closed entry leaves.
  using Detach = void (*)(void* attached);

  constexpr CommTable() noexcept = default;

  /// Enters a communicator that is not in the table. False if memory ran out.
  bool insert(void* comm, void* attached) noexcept;

  /// The entry of `comm`, which stays as it is until release(), or NULL.
  [[nodiscard]] Attachment* acquire(void* comm) noexcept;

  /// Whether no communicator was ever entered.
  [[nodiscard]] bool isUnused() const noexcept { return !isUsed_.load(std::memory_order_acquire); }

  void release(Attachment* attachment, Detach detach) noexcept;

  /// Takes the entry, which the caller has acquired, out of the table: acquire() does not find it
  /// any more. `detach` is called by whoever is the last to release it.
  static void close(Attachment* attachment) noexcept;

 private:
  static constexpr unsigned kBucketBits = 7;
  static constexpr unsigned kBucketEntries = 8;

  struct Table {
    Attachment entries[1U << kBucketBits][kBucketEntries];
    std::atomic<Table*> next{nullptr};
  };

  [[nodiscard]] static unsigned bucketOf(const void* comm) noexcept;

  Table first_;
  std::atomic<bool> isUsed_{false};
  std::atomic_flag isInserting_ = ATOMIC_FLAG_INIT;
};

}  // namespace zipccl::preload
