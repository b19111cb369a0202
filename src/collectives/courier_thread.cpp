// SPDX-License-Identifier: Apache-2.0
//
// The thread that drives the couriers.

#include "collectives/courier_thread.hpp"

#include <pthread.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>

#include "collectives/dynamic_courier.hpp"

namespace zipccl::collectives {

CourierThread& CourierThread::instance() {
  static CourierThread* const thread = [] {
    auto* const made = new CourierThread;
    // What the device shares with the host goes with the driver, whose own handler was there
    // before: a courier exists, so the driver has been used.
    static_cast<void>(std::atexit([] { instance().stop(); }));
    return made;
  }();
  return *thread;
}

void CourierThread::add(DynamicCourier* courier) {
  const std::lock_guard lock(mutex_);
  if (isStopped_) return;
  couriers_.push_back(courier);
  if (!thread_.joinable()) {
    thread_ = std::thread([this] { run(); });
    static_cast<void>(::pthread_setname_np(thread_.native_handle(), "zipccl"));
  }
}

void CourierThread::remove(DynamicCourier* courier) {
  const std::lock_guard turn(turnMutex_);
  const std::lock_guard lock(mutex_);
  std::erase(couriers_, courier);
}

void CourierThread::wake() {
  {
    const std::lock_guard lock(mutex_);
    if (isWanted_) return;
    isWanted_ = true;
  }
  wanted_.notify_one();
}

void CourierThread::stop() {
  {
    const std::lock_guard lock(mutex_);
    isStopped_ = true;
  }
  wanted_.notify_one();
  if (thread_.joinable()) thread_.join();
  // Communicators that the program never destroyed: their peers may wait for what is left here.
  for (DynamicCourier* const courier : couriers_) courier->flush();
}

CourierThread::Turn CourierThread::takeTurn() {
  const std::lock_guard turn(turnMutex_);
  std::vector<DynamicCourier*> couriers;
  {
    const std::lock_guard lock(mutex_);
    couriers = couriers_;
  }
  Turn result;
  for (DynamicCourier* const courier : couriers) {
    result.hasMoved |= courier->progress();
    result.isBusy |= courier->isBusy();
  }
  return result;
}

void CourierThread::run() {
  constexpr auto kPause = std::chrono::microseconds(50);
  while (true) {
    {
      std::unique_lock lock(mutex_);
      wanted_.wait(lock, [this] { return isWanted_ || isStopped_; });
      if (isStopped_) return;
      isWanted_ = false;
    }
    const Turn turn = takeTurn();
    if (!turn.isBusy) continue;
    {
      const std::lock_guard lock(mutex_);
      isWanted_ = true;
    }
    if (!turn.hasMoved) std::this_thread::sleep_for(kPause);
  }
}

}  // namespace zipccl::collectives
