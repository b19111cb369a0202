// SPDX-License-Identifier: Apache-2.0
//
// The engine, libzipccl.so: loaded when the first communicator is made, by a process that uses NCCL
// therefore, and by no other.

#pragma once

#include <zipccl/nccl_engine.h>

#include <atomic>

#include "comm_table.hpp"
#include "real_nccl.hpp"

namespace zipccl::preload {

/// The engine once it is loaded, else NULL. Communicators are attached only when it is.
extern std::atomic<const zipcclNcclEngine*> loadedEngine;

/// The communicators of this process to which the engine is attached.
extern CommTable communicators;

/// Attaches the engine to communicators that this thread has just made, loading it the first time.
/// NULLs among them are left out.
void attachAll(const RealNccl& real, void* const comms[], int count) noexcept;

/// An entry of the table for as long as this lives; may be empty.
class Attached {
 public:
  explicit Attached(void* comm) noexcept
      : attachment_(communicators.isUnused() ? nullptr : communicators.acquire(comm)) {}
  Attached(const Attached&) = delete;
  Attached& operator=(const Attached&) = delete;
  ~Attached() { release(); }

  [[nodiscard]] explicit operator bool() const noexcept { return attachment_ != nullptr; }
  [[nodiscard]] void* get() const noexcept { return attachment_->attached(); }
  [[nodiscard]] static const zipcclNcclEngine& engine() noexcept {
    return *loadedEngine.load(std::memory_order_acquire);
  }

  /// Gives the entry to a caller who will release() it.
  [[nodiscard]] Attachment* take() noexcept {
    Attachment* const taken = attachment_;
    attachment_ = nullptr;
    return taken;
  }

  /// Ends the entry, if there is one: nobody finds it any more, and the engine is detached when the
  /// last who uses it, this object among them, has gone.
  void close() const noexcept;

  /// As the destructor, now.
  void release() noexcept;

 private:
  Attachment* attachment_;
};

/// Gives back what Attached::take() gave.
void releaseAttachment(Attachment* attachment) noexcept;

}  // namespace zipccl::preload
