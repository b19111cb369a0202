// SPDX-License-Identifier: Apache-2.0
//
// Sockets of TCP that never block, and one epoll instance that watches them. Every descriptor is
// closed on exec. No call raises SIGPIPE.

#pragma once

#include <sys/epoll.h>
#include <sys/types.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "base/unique_fd.hpp"
#include "transport/network_interface.hpp"

namespace zipccl::transport {

/// What one read or write came to.
struct Transfer {
  enum class State {
    kMoved,    ///< `bytes` bytes, at least one
    kBlocked,  ///< nothing for now
    kEnded,    ///< the other end has ended the connection in order
    kBroken,   ///< the connection is gone, for `error`
  };
  State state = State::kBlocked;
  std::size_t bytes = 0;
  int error = 0;
};

/// Reads what is there, at most `into`, which is not empty.
[[nodiscard]] Transfer receiveSome(int fd, std::span<std::byte> into) noexcept;

/// Writes as much as there is room for of `first` and then `second`, which are not both empty.
[[nodiscard]] Transfer sendSome(int fd, std::span<const std::byte> first,
                                std::span<const std::byte> second = {}) noexcept;

/// A listening socket on a port of the system's choice, which it stores. Throws
/// Error(kSystemError).
[[nodiscard]] UniqueFd openListener(const IpAddress& address, std::uint16_t& port);

/// A socket, not connected yet. Throws Error(kSystemError).
[[nodiscard]] UniqueFd openSocket(std::uint16_t family);

/// Starts to connect. Zero when connected, EINPROGRESS when it will be or fail later, else why not.
[[nodiscard]] int startConnect(int fd, const IpAddress& address, std::uint16_t port) noexcept;

/// What a connect that was in progress came to, zero for success.
[[nodiscard]] int connectResult(int fd) noexcept;

/// One connection that waits to be accepted; empty where there is none now. Throws
/// Error(kSystemError) where this process can have no more descriptors or memory.
[[nodiscard]] UniqueFd acceptOne(int listener);

/// An epoll instance.
class Poller {
 public:
  /// Throws Error(kSystemError), as watch().
  Poller();
  Poller(const Poller&) = delete;
  Poller& operator=(const Poller&) = delete;

  /// The events (EPOLLIN, EPOLLOUT) of `fd` are reported with `id`, beside that it is broken.
  void watch(int fd, std::uint32_t events, std::uint64_t id, bool isWatched);
  void forget(int fd) noexcept;

  /// Whether this is the process that made it, and not a child that fork() gave a copy: what such a
  /// child would change here, it would change for its parent.
  [[nodiscard]] bool isOwn() const noexcept;

  /// The events that there are; does not wait.
  [[nodiscard]] std::span<const epoll_event> look(std::span<epoll_event> into) const;

  /// Waits until there are events, `timeout` has passed, or a signal comes.
  void wait(std::chrono::microseconds timeout) const noexcept;

 private:
  UniqueFd fd_;
  pid_t process_;
};

/// A socket that a Poller, which outlives it, watches. Neither copied nor moved.
class WatchedSocket {
 public:
  WatchedSocket() noexcept = default;
  WatchedSocket(const WatchedSocket&) = delete;
  WatchedSocket& operator=(const WatchedSocket&) = delete;
  ~WatchedSocket() { close(); }

  /// Takes over `fd`, in place of what it had.
  void open(UniqueFd fd, Poller& poller, std::uint64_t id) noexcept;

  /// Watches for `events`, or with zero no more.
  void watch(std::uint32_t events);

  /// Gives the descriptor away, watched no more.
  [[nodiscard]] UniqueFd release() noexcept;

  /// Ends the connection, for copies of the descriptor in forked children too; what was written
  /// before is still delivered. In such a child it closes the child's copy and nothing else.
  void close() noexcept;

  [[nodiscard]] int fd() const noexcept { return fd_.get(); }
  [[nodiscard]] bool isOpen() const noexcept { return fd_.isOpen(); }

 private:
  void stopWatching() noexcept;

  UniqueFd fd_;
  Poller* poller_ = nullptr;
  std::uint64_t id_ = 0;
  std::uint32_t events_ = 0;
};

}  // namespace zipccl::transport
