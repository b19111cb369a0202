// SPDX-License-Identifier: Apache-2.0
//
// The threads behind CodecThreads, and how a call's groups are dealt to them: in chunks, in
// ascending order, to whoever is free.

#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <thread>
#include <vector>

#include "codec/layout.hpp"
#include "codec/tile_codec.hpp"
#include "zipccl/codec.hpp"

namespace zipccl::codec {

/// Groups that a thread takes at once: 256 KB of 16-bit elements, some 20 us of work.
inline constexpr std::uint64_t kChunkGroups = 16;

/// The most extra space that the groups of a chunk take.
inline constexpr std::size_t kChunkExtraBytes =
    std::size_t{kChunkGroups} * kGroupTiles * kMaxBlockBytes;

constexpr std::uint64_t chunkCountOf(std::uint64_t groupCount) noexcept {
  return (groupCount + kChunkGroups - 1) / kChunkGroups;
}

class CodecThreads::Pool {
 public:
  explicit Pool(unsigned threadCount);
  Pool(const Pool&) = delete;
  Pool& operator=(const Pool&) = delete;
  ~Pool();

  [[nodiscard]] unsigned threadCount() const noexcept {
    return static_cast<unsigned>(threads_.size()) + 1;
  }

  /// Calls `work(worker)` in up to `mostWorkers` threads at once, numbered from 0, the caller's
  /// being 0, and returns true when all have returned. False, and nothing was called, when another
  /// call has the threads. `work` must not throw, and must come to its end however many workers
  /// there turn out to be.
  template <typename Work>
  [[nodiscard]] bool tryRun(std::uint64_t mostWorkers, const Work& work) noexcept {
    return tryRunErased(
        mostWorkers,
        [](const void* it, unsigned worker) { (*static_cast<const Work*>(it))(worker); }, &work);
  }

  /// What a worker may write to while it works: kChunkExtraBytes for the extra space of a chunk.
  [[nodiscard]] std::span<std::byte> chunkExtra(unsigned worker) noexcept {
    return {chunkExtra_.get() + kChunkExtraBytes * worker, kChunkExtraBytes};
  }

 private:
  using Call = void (*)(const void* work, unsigned worker);

  bool tryRunErased(std::uint64_t mostWorkers, Call call, const void* work) noexcept;
  void serve(unsigned worker) noexcept;
  void end() noexcept;

  std::mutex taken_;  ///< by the call that has the threads

  std::mutex mutex_;  ///< of all that follows
  std::condition_variable started_;
  std::condition_variable finished_;
  std::uint64_t round_ = 0;  ///< counts calls of tryRun
  unsigned workers_ = 0;     ///< of this round; those with a lower number work
  unsigned working_ = 0;     ///< of them, how many have not returned
  bool ends_ = false;
  Call call_ = nullptr;
  const void* work_ = nullptr;

  std::unique_ptr<std::byte[]> chunkExtra_;
  std::vector<std::thread> threads_;
};

/// Chunks of a call, each dealt once.
class ChunkDealer {
 public:
  explicit ChunkDealer(std::uint64_t groupCount) noexcept
      : groupCount_(groupCount), chunkCount_(chunkCountOf(groupCount)) {}

  struct Chunk {
    std::uint64_t index;
    std::uint64_t firstGroup;
    std::uint64_t endGroup;
  };

  /// The next chunk; false when there are no more.
  [[nodiscard]] bool next(Chunk& chunk) noexcept {
    const std::uint64_t index = next_.fetch_add(1, std::memory_order_relaxed);
    if (index >= chunkCount_) return false;
    const std::uint64_t first = index * kChunkGroups;
    chunk = {index, first, first + kChunkGroups < groupCount_ ? first + kChunkGroups : groupCount_};
    return true;
  }

 private:
  std::uint64_t groupCount_;
  std::uint64_t chunkCount_;
  std::atomic<std::uint64_t> next_{0};
};

/// Hands turns to chunks in ascending order, whichever comes first.
class ChunkTurns {
 public:
  /// Waits for the turn of a chunk. Every chunk before it must have been dealt.
  void waitFor(std::uint64_t chunk) noexcept {
    const auto wanted = static_cast<std::uint32_t>(chunk);
    for (std::uint32_t at = turn_.load(std::memory_order_acquire); at != wanted;
         at = turn_.load(std::memory_order_acquire)) {
      turn_.wait(at, std::memory_order_acquire);
    }
  }
  /// Ends it.
  void pass() noexcept {
    turn_.fetch_add(1, std::memory_order_release);
    turn_.notify_all();
  }

 private:
  // 32 bits, which the kernel can wait for; 2^40 elements are 2^23 chunks.
  std::atomic<std::uint32_t> turn_{0};
};

/// The fault of a call that one thread would have found: that of the lowest chunk. Threads meet
/// faults in any order, but chunks below a faulty one have been dealt and come to their end.
template <typename Fault>
class FirstFault {
 public:
  /// Whether a chunk need not be looked at, since one before it is faulty.
  [[nodiscard]] bool isBefore(std::uint64_t chunk) const noexcept {
    return chunk_.load(std::memory_order_relaxed) < chunk;
  }
  void add(std::uint64_t chunk, const Fault& fault) noexcept {
    const std::scoped_lock lock(mutex_);
    if (chunk >= chunk_.load(std::memory_order_relaxed)) return;
    chunk_.store(chunk, std::memory_order_relaxed);
    fault_ = fault;
  }
  /// Once no thread adds any more; a default one when there was none.
  [[nodiscard]] const Fault& get() const noexcept { return fault_; }

 private:
  std::mutex mutex_;
  std::atomic<std::uint64_t> chunk_{~std::uint64_t{0}};
  Fault fault_{};
};

}  // namespace zipccl::codec
