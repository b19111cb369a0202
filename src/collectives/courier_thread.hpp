// SPDX-License-Identifier: Apache-2.0
//
// The thread that drives the couriers of a process while no thread of the program waits for them.

#pragma once

#include <sys/types.h>
#include <unistd.h>

#include <condition_variable>
#include <mutex>
#include <span>
#include <thread>
#include <vector>

namespace zipccl::collectives {

class DynamicCourier;

/// One a process, started with the first courier; a forked child has none of its parent's. It
/// sleeps while no courier is busy, and looks every 50 us otherwise, without a pause while bytes
/// move.
class CourierThread {
 public:
  /// Ends with the process, before what the couriers work on does: by std::atexit.
  [[nodiscard]] static CourierThread& instance();

  /// Throws Error(kSystemError) where there can be no thread.
  void add(DynamicCourier* courier);
  /// When it returns, the thread has let go of the courier. False in a process that did not add it.
  [[nodiscard]] bool remove(DynamicCourier* courier);
  /// A courier has become busy.
  void wake();

  /// Drives couriers until none of them owes anything; false where that takes longer than 30 s.
  [[nodiscard]] static bool drain(std::span<DynamicCourier* const> couriers);

 private:
  CourierThread() = default;

  void start();
  void run() noexcept;
  void stop();
  /// Whether anything was done, and whether anything is left.
  struct Turn {
    bool hasMoved = false;
    bool isBusy = false;
  };
  [[nodiscard]] Turn takeTurn();

  const pid_t process_ = ::getpid();

  std::mutex turnMutex_;  ///< held while couriers are used; guards the list
  std::vector<DynamicCourier*> couriers_;

  std::mutex mutex_;  ///< guards what follows; taken after the other
  std::condition_variable wanted_;
  bool isWanted_ = false;
  bool isStopped_ = false;
  std::thread thread_;
};

}  // namespace zipccl::collectives
