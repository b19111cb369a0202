// SPDX-License-Identifier: Apache-2.0
//
// Shared memory by name, and waiting on a futex in it.

#include "arena.hpp"

#include <fcntl.h>
#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <climits>
#include <new>
#include <system_error>

#include "base/unique_fd.hpp"

namespace zipccl::testing {
namespace {

constexpr std::size_t kHeadBytes = (sizeof(ArenaHead) + 63) / 64 * 64;

void futexWait(std::atomic<std::uint32_t>& word, std::uint32_t seen, long milliseconds) noexcept {
  const timespec time = {0, milliseconds * 1000000};
  ::syscall(SYS_futex, reinterpret_cast<std::uint32_t*>(&word), FUTEX_WAIT, seen, &time, nullptr,
            0);
}

void futexWake(std::atomic<std::uint32_t>& word) noexcept {
  ::syscall(SYS_futex, reinterpret_cast<std::uint32_t*>(&word), FUTEX_WAKE, INT_MAX, nullptr,
            nullptr, 0);
}

}  // namespace

Arena::Arena(const std::string& name, int ranks, int rank)
    : name_(name), ranks_(ranks), rank_(rank) {
  const auto pairs = static_cast<std::size_t>(ranks) * static_cast<std::size_t>(ranks);
  bytes_ = kHeadBytes + pairs * sizeof(Mailbox);
  const UniqueFd file(::shm_open(name_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  if (!file.isOpen() || ::ftruncate(file.get(), static_cast<off_t>(bytes_)) != 0) {
    throw std::system_error(errno, std::generic_category(), name_);
  }
  void* const memory = ::mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_SHARED, file.get(), 0);
  if (memory == MAP_FAILED) throw std::system_error(errno, std::generic_category(), name_);
  head_ = static_cast<ArenaHead*>(memory);
  mailboxes_ = reinterpret_cast<Mailbox*>(static_cast<std::byte*>(memory) + kHeadBytes);
}

Arena::~Arena() { ::munmap(head_, bytes_); }

Mailbox& Arena::mailbox(int from, int to) noexcept {
  return mailboxes_[static_cast<std::size_t>(from) * static_cast<std::size_t>(ranks_) +
                    static_cast<std::size_t>(to)];
}

void Arena::ring(int rank) noexcept {
  std::atomic<std::uint32_t>& bell = head_->bells[static_cast<std::size_t>(rank)];
  bell.fetch_add(1);
  futexWake(bell);
}

void Arena::ringAll() noexcept {
  for (int rank = 0; rank < ranks_; ++rank) ring(rank);
}

Wait Arena::waitUntil(const std::function<bool()>& isDone, const std::atomic<bool>& isAborted,
                      int timeLimitMs) {
  // No look counts for more than it should take: on a machine so busy that this thread is let in
  // once a second only, the others are too, and none hangs.
  constexpr std::chrono::nanoseconds kMostOfALook = std::chrono::milliseconds(20);
  std::chrono::nanoseconds left = std::chrono::milliseconds(timeLimitMs);
  auto before = std::chrono::steady_clock::now();
  std::atomic<std::uint32_t>& bell = head_->bells[static_cast<std::size_t>(rank_)];
  for (;;) {
    const std::uint32_t seen = bell.load();
    if (isDone()) return Wait::kDone;
    if (isAborted) return Wait::kAborted;
    const auto now = std::chrono::steady_clock::now();
    left -= std::min<std::chrono::nanoseconds>(now - before, kMostOfALook);
    before = now;
    if (left.count() <= 0) return Wait::kTimedOut;
    futexWait(bell, seen, 10);
  }
}

Wait Arena::come(const std::atomic<bool>& isAborted, int timeLimitMs) {
  const auto all = static_cast<std::uint32_t>(ranks_);
  if (head_->comeCount.fetch_add(1) + 1 == all) ::shm_unlink(name_.c_str());
  ringAll();
  const Wait wait =
      waitUntil([&] { return head_->comeCount.load() >= all; }, isAborted, timeLimitMs);
  if (wait != Wait::kDone) ::shm_unlink(name_.c_str());
  return wait;
}

Wait Arena::meet(int color, int key, const std::atomic<bool>& isAborted, int timeLimitMs,
                 std::array<MeetingSlot, kMostRanks>*& slots) {
  ++round_;
  // Nobody writes round k + 2 before all have read round k: they have come to round k + 1 then.
  slots = &head_->slots[round_ % 2];
  MeetingSlot& own = (*slots)[static_cast<std::size_t>(rank_)];
  own.color = color;
  own.key = key;
  own.round = round_;
  ringAll();
  return waitUntil(
      [&] {
        for (int rank = 0; rank < ranks_; ++rank) {
          if ((*slots)[static_cast<std::size_t>(rank)].round < round_) return false;
        }
        return true;
      },
      isAborted, timeLimitMs);
}

}  // namespace zipccl::testing
