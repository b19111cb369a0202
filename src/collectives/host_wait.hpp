// SPDX-License-Identifier: Apache-2.0
//
// How the host waits for what it has to ask for again and again: the device, other ranks.

#pragma once

#include <chrono>
#include <thread>

namespace zipccl::collectives {

/// One wait, from its construction on.
class HostWait {
 public:
  /// Between two looks that found nothing new. Returns whether it is time to ask for errors, too,
  /// which costs more.
  [[nodiscard]] bool pause() {
    // A transfer is worth a busy wait, for the device idles as long as the host sleeps; a rank that
    // is late is not.
    constexpr auto kBusy = std::chrono::milliseconds(20);
    constexpr auto kPause = std::chrono::microseconds(50);
    constexpr auto kAskEvery = std::chrono::milliseconds(20);
    const Clock::time_point now = Clock::now();
    if (now - start_ > kBusy) {
      std::this_thread::sleep_for(kPause);
    } else {
      std::this_thread::yield();
    }
    if (now - asked_ <= kAskEvery) return false;
    asked_ = now;
    return true;
  }

 private:
  using Clock = std::chrono::steady_clock;

  const Clock::time_point start_ = Clock::now();
  Clock::time_point asked_ = start_;
};

}  // namespace zipccl::collectives
