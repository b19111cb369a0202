// SPDX-License-Identifier: Apache-2.0
//
// The thread that drives the couriers.

#include "collectives/courier_thread.hpp"

#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <memory>
#include <system_error>
#include <utility>

#include "base/error.hpp"
#include "base/log.hpp"
#include "collectives/dynamic_courier.hpp"

namespace zipccl::collectives {

CourierThread& CourierThread::instance() {
  // Never destroyed. A forked child makes its own: what it has of its parent's is a thread that
  // does not exist, and locks that somebody may have held.
  static std::atomic<CourierThread*> current = nullptr;
  CourierThread* found = current.load(std::memory_order_acquire);
  if (found != nullptr && found->process_ == ::getpid()) return *found;
  auto made = std::unique_ptr<CourierThread>(new CourierThread);
  if (!current.compare_exchange_strong(found, made.get(), std::memory_order_acq_rel)) return *found;
  // What the device shares with the host goes with the driver, whose own handler was there before:
  // a courier exists, so the driver has been used.
  static_cast<void>(std::atexit([] { instance().stop(); }));
  return *made.release();
}

void CourierThread::add(DynamicCourier* courier) {
  const std::lock_guard turn(turnMutex_);
  couriers_.reserve(couriers_.size() + 1);
  start();
  couriers_.push_back(courier);
}

void CourierThread::start() {
  const std::lock_guard lock(mutex_);
  if (isStopped_ || thread_.joinable()) return;
  try {
    thread_ = std::thread([this] { run(); });
  } catch (const std::system_error& error) {
    fail(ErrorCode::kSystemError, "there can be no thread for dynamic parts: ", error.what());
  }
  static_cast<void>(::pthread_setname_np(thread_.native_handle(), "zipccl"));
}

bool CourierThread::remove(DynamicCourier* courier) {
  const std::lock_guard turn(turnMutex_);
  return std::erase(couriers_, courier) != 0;
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
    if (std::exchange(isStopped_, true)) return;
  }
  wanted_.notify_one();
  if (thread_.joinable()) thread_.join();
  // Communicators that the program never destroyed: their peers may wait for what is left here.
  const std::lock_guard turn(turnMutex_);
  if (!drain(couriers_)) logWarn("peers have not taken all that they need of this process");
}

bool CourierThread::drain(std::span<DynamicCourier* const> couriers) {
  constexpr auto kLongest = std::chrono::seconds(30);
  constexpr auto kPause = std::chrono::microseconds(100);
  const auto deadline = std::chrono::steady_clock::now() + kLongest;
  while (std::chrono::steady_clock::now() < deadline) {
    bool hasMoved = false;
    for (DynamicCourier* const courier : couriers) hasMoved |= courier->progress();
    const auto owes = [](const DynamicCourier* courier) { return courier->owes(); };
    if (hasMoved) continue;
    if (std::none_of(couriers.begin(), couriers.end(), owes)) return true;
    std::this_thread::sleep_for(kPause);
  }
  return false;
}

CourierThread::Turn CourierThread::takeTurn() {
  const std::lock_guard turn(turnMutex_);
  Turn result;
  for (DynamicCourier* const courier : couriers_) {
    result.hasMoved |= courier->progress();
    result.isBusy |= courier->isBusy();
  }
  return result;
}

void CourierThread::run() noexcept {
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
