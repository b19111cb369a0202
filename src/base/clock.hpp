// SPDX-License-Identifier: Apache-2.0
//
// Time: a monotonic clock in microseconds and a deadline.

#pragma once

#include <chrono>
#include <cstdint>
#include <limits>

namespace zipccl {

/// Microseconds of a monotonic clock whose start means nothing.
[[nodiscard]] inline std::int64_t nowUs() noexcept {
  return std::chrono::duration_cast<std::chrono::microseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

/// A point in time after which waiting ends, or never. What lies too far ahead for the clock, some
/// hundred years, is never.
class Deadline {
 public:
  /// Never.
  Deadline() noexcept = default;

  /// `timeout` from now; zero or less means never.
  explicit Deadline(std::chrono::milliseconds timeout) noexcept {
    if (timeout.count() <= 0) return;
    const std::int64_t startUs = nowUs();
    const std::int64_t roomMs = (kLatestUs - startUs) / 1000;
    if (timeout.count() < roomMs) atUs_ = startUs + timeout.count() * 1000;
  }

  /// One that has passed already.
  [[nodiscard]] static Deadline now() noexcept {
    Deadline deadline;
    deadline.atUs_ = nowUs();
    return deadline;
  }

  [[nodiscard]] bool isNever() const noexcept { return atUs_ == kNeverUs; }
  [[nodiscard]] bool hasPassed() const noexcept { return !isNever() && nowUs() >= atUs_; }

  /// The point on std::chrono::steady_clock; meaningful unless isNever().
  [[nodiscard]] std::chrono::steady_clock::time_point at() const noexcept {
    return std::chrono::steady_clock::time_point(
        std::chrono::duration_cast<std::chrono::steady_clock::duration>(
            std::chrono::microseconds(atUs_)));
  }

 private:
  static constexpr std::int64_t kNeverUs = std::numeric_limits<std::int64_t>::max();
  /// The last point that at() can express.
  static constexpr std::int64_t kLatestUs = std::chrono::duration_cast<std::chrono::microseconds>(
                                                std::chrono::steady_clock::duration::max())
                                                .count();

  std::int64_t atUs_ = kNeverUs;
};

}  // namespace zipccl
