// SPDX-License-Identifier: Apache-2.0
//
// The talk of ranks that are processes, on one host or many, by TCP: every rank has a connection to
// rank 0, which gives to all what each says.

#pragma once

#include <chrono>
#include <vector>

#include "perf/control.hpp"
#include "perf_nccl/launcher.hpp"

namespace zipccl::tools::perf_nccl {

/// Where a socket that already listens comes to a process whose `LISTEN_PID` is its own and whose
/// `LISTEN_FDS` is 1: sd_listen_fds(3).
inline constexpr int kInheritedSocket = 3;

class SocketControl final : public perf::Control {
 public:
  /// Meets the other ranks: rank 0 listens at the port of `root`, or by the socket that it
  /// inherited, the others connect to it, however late it comes within `timeout`. Throws Failure.
  SocketControl(int rank, int rankCount, const Endpoint& root, std::chrono::milliseconds timeout);
  ~SocketControl() override;

  [[nodiscard]] int rank() const override { return rank_; }
  [[nodiscard]] int rankCount() const override { return rankCount_; }
  void gatherBytes(std::span<const std::byte> mine, std::span<std::byte> all) override;
  /// On one host by the clock that its processes share, to the microsecond.
  void startTogether() override;
  void expectAll() override;
  void abort() noexcept override;

 private:
  using Clock = std::chrono::steady_clock;

  void acceptAll(const Endpoint& root, Clock::time_point deadline);
  void connectToRoot(const Endpoint& root, Clock::time_point deadline);
  [[nodiscard]] int& socketOf(int rank) { return sockets_[static_cast<std::size_t>(rank)]; }
  /// Of a whole message, with its size before it. Throws CallFailure when `peer` has left.
  void sendTo(int peer, std::span<const std::byte> bytes);
  void receiveFrom(int peer, std::span<std::byte> bytes);

  int rank_;
  int rankCount_;
  std::vector<int> sockets_;  ///< by rank; -1: none. Other ranks have one, to rank 0
  bool isOneHost_ = false;
};

/// Returns on all ranks of one host when their clock says so: a while after the last of them came.
void startByClock(perf::Control& control);

}  // namespace zipccl::tools::perf_nccl
