// SPDX-License-Identifier: Apache-2.0
//
// What the calls of this process were like, by collective and datatype, and how that reads in a
// file. Nothing here locks, allocates or throws, so that a signal handler may use all of it.

#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "base/collective_kind.hpp"
#include "collectives/communicator.hpp"
#include "collectives/datatype.hpp"

namespace zipccl::collectives {

/// Text in memory of another's. What does not fit is left out, and isWhole() says so.
class SignalSafeText {
 public:
  explicit SignalSafeText(std::span<char> memory) noexcept : memory_(memory) {}

  SignalSafeText& operator<<(std::string_view text) noexcept;
  SignalSafeText& operator<<(std::uint64_t number) noexcept;
  SignalSafeText& operator<<(std::int64_t number) noexcept;
  /// `numerator / denominator` with three digits behind the point, the last rounded down.
  SignalSafeText& ratio(std::uint64_t numerator, std::uint64_t denominator) noexcept;
  /// The text as a string of JSON.
  SignalSafeText& quoted(std::string_view text) noexcept;

  [[nodiscard]] std::string_view text() const noexcept { return {memory_.data(), used_}; }
  [[nodiscard]] bool isWhole() const noexcept { return isWhole_; }

 private:
  std::span<char> memory_;
  std::size_t used_ = 0;
  bool isWhole_ = true;
};

/// Whose calls they are.
struct CallTableOwner {
  std::string_view host;
  std::int64_t process = 0;
  int rank = 0;
  int rankCount = 0;
};

/// Any thread may add; who reads meanwhile may find a call counted in part.
class CallTable {
 public:
  void add(const CallOutcome& outcome) noexcept;

  /// The file of docs/settings.md.
  void write(SignalSafeText& out, const CallTableOwner& owner) const noexcept;

  /// Room for any table.
  static constexpr std::size_t kMostTextBytes = 64 * 1024;

 private:
  static constexpr std::size_t kDatatypes = kDatatypeCount;

  struct Row {
    std::atomic<std::uint64_t> calls;
    std::atomic<std::uint64_t> stagedCalls;
    std::atomic<std::uint64_t> inputBytes;
    std::atomic<std::uint64_t> plainBytes;
    std::atomic<std::uint64_t> encodedBytes;
    std::atomic<std::int64_t> savedNs;
  };
  static_assert(std::atomic<std::uint64_t>::is_always_lock_free);

  static void writeRow(SignalSafeText& out, const Row& row, CollectiveKind collective,
                       Datatype datatype) noexcept;

  std::array<std::array<Row, kDatatypes>, kAllCollectiveKinds.size()> rows_{};
};

}  // namespace zipccl::collectives
