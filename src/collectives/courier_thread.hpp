// SPDX-License-Identifier: Apache-2.0
//
// The thread that drives the couriers of a process while no thread of the program waits for them.

#pragma once

#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <thread>
#include <vector>

namespace zipccl::collectives {

class DynamicCourier;

/// One a process, started with the first courier. It sleeps while no courier is busy, and looks
/// every 50 us otherwise, without a pause while bytes move.
class CourierThread {
 public:
  /// Ends with the process, before what the couriers work on does: by std::atexit.
  [[nodiscard]] static CourierThread& instance();

  void add(DynamicCourier* courier);
  /// When it returns, the thread has let go of the courier.
  void remove(DynamicCourier* courier);
  /// A courier has become busy.
  void wake();

 private:
  CourierThread() = default;

  void run();
  void stop();
  /// Whether anything was done, and whether anything is left.
  struct Turn {
    bool hasMoved = false;
    bool isBusy = false;
  };
  [[nodiscard]] Turn takeTurn();

  std::mutex mutex_;      ///< guards what follows
  std::mutex turnMutex_;  ///< held while couriers are used; taken before mutex_
  std::condition_variable wanted_;
  std::vector<DynamicCourier*> couriers_;
  bool isWanted_ = false;
  bool isStopped_ = false;
  std::thread thread_;
};

}  // namespace zipccl::collectives
