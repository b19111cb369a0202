// SPDX-License-Identifier: Apache-2.0
//
// Bytes through the rings of mailboxes.

#include "exchange.hpp"

#include <algorithm>
#include <cstring>

#include "fake_nccl.h"

namespace zipccl::testing {
namespace {

/// Copies to or from `bytes` bytes of the ring from its position `at` on.
void copyIn(Mailbox& mailbox, std::uint64_t at, const std::byte* from, std::size_t bytes) {
  const std::size_t start = at % kMailboxBytes;
  const std::size_t first = std::min(bytes, kMailboxBytes - start);
  std::memcpy(mailbox.ring.data() + start, from, first);
  std::memcpy(mailbox.ring.data(), from + first, bytes - first);
}

void copyOut(const Mailbox& mailbox, std::uint64_t at, std::byte* to, std::size_t bytes) {
  const std::size_t start = at % kMailboxBytes;
  const std::size_t first = std::min(bytes, kMailboxBytes - start);
  std::memcpy(to, mailbox.ring.data() + start, first);
  std::memcpy(to + first, mailbox.ring.data(), bytes - first);
}

}  // namespace

std::string describe(const Label& label) {
  static constexpr const char* kKinds[] = {"AllGather", "ReduceScatter", "AllReduce",
                                           "Broadcast", "Reduce",        "AlltoAll",
                                           "Gather",    "Scatter",       "SendRecv"};
  const bool isKnown = label.kind >= 0 && label.kind < 9;
  return std::string(isKnown ? kKinds[label.kind] : "?") + " count=" + std::to_string(label.count) +
         " datatype=" + std::to_string(label.datatype) + " op=" + std::to_string(label.op) +
         " root=" + std::to_string(label.root) + " bytes=" + std::to_string(label.bytes);
}

Exchange::Exchange(Arena& arena)
    : arena_(arena),
      sends_(static_cast<std::size_t>(arena.ranks())),
      receives_(static_cast<std::size_t>(arena.ranks())),
      isRendezvous_(fakeNcclIsRendezvous() != 0) {}

void Exchange::send(int peer, const Label& label, const void* data) {
  sends_[static_cast<std::size_t>(peer)].push_back(
      {label, static_cast<std::byte*>(const_cast<void*>(data)), 0, {}});
}

void Exchange::receive(int peer, const Label& label, void* data) {
  receives_[static_cast<std::size_t>(peer)].push_back(
      {label, static_cast<std::byte*>(data), 0, {}});
}

bool Exchange::push(int peer) {
  auto& queue = sends_[static_cast<std::size_t>(peer)];
  Mailbox& mailbox = arena_.mailbox(arena_.rank(), peer);
  bool hasMoved = false;
  while (!queue.empty()) {
    Transfer& transfer = queue.front();
    const std::uint64_t written = mailbox.written.load(std::memory_order_relaxed);
    const std::size_t room =
        kMailboxBytes - static_cast<std::size_t>(written - mailbox.read.load());
    const bool isLabel = transfer.doneBytes < sizeof(Label);
    const std::byte* const from =
        isLabel ? reinterpret_cast<const std::byte*>(&transfer.label) + transfer.doneBytes
                : transfer.data + (transfer.doneBytes - sizeof(Label));
    const std::size_t left =
        (isLabel ? sizeof(Label) : sizeof(Label) + transfer.label.bytes) - transfer.doneBytes;
    const std::size_t step = std::min(room, left);
    if (step != 0) {
      copyIn(mailbox, written, from, step);
      mailbox.written.store(written + step);
      arena_.ring(peer);
      transfer.doneBytes += step;
      hasMoved = true;
    } else if (left != 0) {
      return hasMoved;
    }
    if (transfer.doneBytes == sizeof(Label) + transfer.label.bytes) {
      queue.pop_front();
      hasMoved = true;
    }
  }
  return hasMoved;
}

bool Exchange::pull(int peer) {
  auto& queue = receives_[static_cast<std::size_t>(peer)];
  Mailbox& mailbox = arena_.mailbox(peer, arena_.rank());
  bool hasMoved = false;
  while (!queue.empty() && fault_.empty()) {
    Transfer& transfer = queue.front();
    const std::uint64_t read = mailbox.read.load(std::memory_order_relaxed);
    const std::size_t there = static_cast<std::size_t>(mailbox.written.load() - read);
    const bool isLabel = transfer.doneBytes < sizeof(Label);
    std::byte* const to = isLabel
                              ? reinterpret_cast<std::byte*>(&transfer.seen) + transfer.doneBytes
                              : transfer.data + (transfer.doneBytes - sizeof(Label));
    const std::size_t left =
        (isLabel ? sizeof(Label) : sizeof(Label) + transfer.label.bytes) - transfer.doneBytes;
    const std::size_t step = std::min(there, left);
    if (step != 0) {
      copyOut(mailbox, read, to, step);
      mailbox.read.store(read + step);
      arena_.ring(peer);
      transfer.doneBytes += step;
      hasMoved = true;
    } else if (left != 0) {
      return hasMoved;
    }
    if (isLabel && transfer.doneBytes == sizeof(Label) && transfer.seen != transfer.label) {
      fault_ = "ranks call different things: rank " + std::to_string(arena_.rank()) + " " +
               describe(transfer.label) + "; rank " + std::to_string(peer) + " " +
               describe(transfer.seen);
      return true;
    }
    if (transfer.doneBytes == sizeof(Label) + transfer.label.bytes) {
      queue.pop_front();
      hasMoved = true;
    }
  }
  return hasMoved;
}

bool Exchange::isTaken(int peer) const {
  const Mailbox& mailbox = arena_.mailbox(arena_.rank(), peer);
  return mailbox.read.load() == mailbox.written.load();
}

bool Exchange::isDone() const {
  const auto isEmpty = [](const std::deque<Transfer>& queue) { return queue.empty(); };
  if (!std::all_of(sends_.begin(), sends_.end(), isEmpty) ||
      !std::all_of(receives_.begin(), receives_.end(), isEmpty)) {
    return false;
  }
  for (int peer = 0; isRendezvous_ && peer < arena_.ranks(); ++peer) {
    if (!isTaken(peer)) return false;
  }
  return true;
}

std::string Exchange::waitingFor() const {
  std::string text = "would hang: rank " + std::to_string(arena_.rank()) + " of " +
                     std::to_string(arena_.ranks()) + " waits";
  for (int peer = 0; peer < arena_.ranks(); ++peer) {
    const auto at = static_cast<std::size_t>(peer);
    if (!sends_[at].empty()) {
      text +=
          "; for rank " + std::to_string(peer) + " to take " + describe(sends_[at].front().label);
    }
    if (isRendezvous_ && sends_[at].empty() && !isTaken(peer)) {
      text += "; for rank " + std::to_string(peer) + " to take what it was sent";
    }
    if (!receives_[at].empty()) {
      text += "; for rank " + std::to_string(peer) + " to give " +
              describe(receives_[at].front().label);
    }
  }
  return text;
}

std::string Exchange::run(const std::atomic<bool>& isAborted, int timeLimitMs) {
  const auto advance = [this] {
    for (int peer = 0; peer < arena_.ranks(); ++peer) {
      static_cast<void>(push(peer));
      static_cast<void>(pull(peer));
    }
    return !fault_.empty() || isDone();
  };
  const auto advanceWhileMoving = [&] {
    for (;;) {
      bool hasMoved = false;
      for (int peer = 0; peer < arena_.ranks(); ++peer) {
        hasMoved |= push(peer);
        hasMoved |= pull(peer);
      }
      if (!hasMoved) return advance();
      if (!fault_.empty() || isDone()) return true;
    }
  };
  switch (arena_.waitUntil(advanceWhileMoving, isAborted, timeLimitMs)) {
    case Wait::kDone:
      return fault_;
    case Wait::kAborted:
      return "aborted";
    case Wait::kTimedOut:
      return waitingFor();
  }
  return "?";
}

}  // namespace zipccl::testing
