// SPDX-License-Identifier: Apache-2.0
//
// The side table. An entry is free (comm_ NULL or kTombstone, closed), open, or closing (comm_
// still set, closed, users left).

#include "comm_table.hpp"

#include <sched.h>
#include <stdlib.h>

#include <new>

namespace zipccl::preload {
namespace {

char tombstonePlace;

/// A key that was there once: unlike NULL it does not end a search.
void* tombstone() noexcept { return &tombstonePlace; }

}  // namespace

unsigned CommTable::bucketOf(const void* comm) noexcept {
  const auto bits = reinterpret_cast<std::uintptr_t>(comm);
  return static_cast<unsigned>((bits * 0x9E3779B97F4A7C15U) >> (64 - kBucketBits));
}

bool CommTable::insert(void* comm, void* attached) noexcept {
  // Held for a few instructions by threads that have just waited for other ranks.
  while (isInserting_.test_and_set(std::memory_order_acquire)) sched_yield();
  Table* table = &first_;
  Attachment* room = nullptr;
  while (room == nullptr && table != nullptr) {
    for (Attachment& entry : table->entries[bucketOf(comm)]) {
      void* const key = entry.comm_.load(std::memory_order_acquire);
      if (key == nullptr || key == tombstone()) {
        room = &entry;
        break;
      }
    }
    if (room != nullptr) break;
    Table* next = table->next.load(std::memory_order_relaxed);
    if (next == nullptr) {
      // malloc(), since operator new would bring the C++ library.
      void* const memory = malloc(sizeof(Table));
      if (memory == nullptr) break;
      next = new (memory) Table();
      table->next.store(next, std::memory_order_release);
    }
    table = next;
  }
  if (room != nullptr) {
    room->attached_.store(attached, std::memory_order_relaxed);
    room->comm_.store(comm, std::memory_order_release);
    room->users_.store(0, std::memory_order_release);
    isUsed_.store(true, std::memory_order_release);
  }
  isInserting_.clear(std::memory_order_release);
  return room != nullptr;
}

Attachment* CommTable::acquire(void* comm) noexcept {
  const unsigned bucket = bucketOf(comm);
  for (Table* table = &first_; table != nullptr;
       table = table->next.load(std::memory_order_acquire)) {
    for (Attachment& entry : table->entries[bucket]) {
      void* const key = entry.comm_.load(std::memory_order_acquire);
      if (key == nullptr) return nullptr;
      if (key != comm) continue;
      std::uint32_t users = entry.users_.load(std::memory_order_relaxed);
      while ((users & Attachment::kClosed) == 0) {
        if (!entry.users_.compare_exchange_weak(users, users + 1, std::memory_order_acq_rel)) {
          continue;
        }
        // In between the entry may have become another communicator's; only a program that uses a
        // communicator after its end comes here.
        if (entry.comm_.load(std::memory_order_acquire) == comm) return &entry;
        entry.users_.fetch_sub(1, std::memory_order_acq_rel);
        break;
      }
    }
  }
  return nullptr;
}

void CommTable::release(Attachment* attachment, Detach detach) noexcept {
  const std::uint32_t before = attachment->users_.fetch_sub(1, std::memory_order_acq_rel);
  if (before != (Attachment::kClosed | 1U)) return;
  detach(attachment->attached());
  attachment->comm_.store(tombstone(), std::memory_order_release);
}

void CommTable::close(Attachment* attachment) noexcept {
  attachment->users_.fetch_or(Attachment::kClosed, std::memory_order_acq_rel);
}

}  // namespace zipccl::preload
