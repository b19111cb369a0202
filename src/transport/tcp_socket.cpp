// SPDX-License-Identifier: Apache-2.0
//
// Sockets of TCP by the system's calls.

#include "transport/tcp_socket.hpp"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <utility>

#include "base/error.hpp"
#include "base/text.hpp"

namespace zipccl::transport {

namespace {

/// Connections that may wait to be accepted; the system takes less where it allows less.
constexpr int kBacklog = 4096;

[[noreturn]] void failOnErrno(const char* call, int error,
                              SourceLocation where = SourceLocation::current()) {
  std::string message = concat(call, " failed: ", errnoText(error));
  if (error == EMFILE) {
    message += ". This process has no file descriptor left: raise the limit (ulimit -n)";
  } else if (error == ENFILE) {
    message += ". This host has no file descriptor left: raise fs.file-max";
  }
  throw Error(ErrorCode::kSystemError, std::move(message), where);
}

bool isForNow(int error) {
  return error == EAGAIN || error == EWOULDBLOCK || error == ENOBUFS || error == ENOMEM;
}

/// A socket address of the system's form.
struct SystemAddress {
  sockaddr_storage storage{};
  socklen_t bytes = 0;

  [[nodiscard]] const sockaddr* get() const noexcept {
    return reinterpret_cast<const sockaddr*>(&storage);
  }
};

SystemAddress systemAddress(const IpAddress& address, std::uint16_t port) noexcept {
  SystemAddress out;
  if (address.family == AF_INET6) {
    sockaddr_in6 v6{};
    v6.sin6_family = AF_INET6;
    v6.sin6_port = htons(port);
    v6.sin6_scope_id = address.scope;
    std::memcpy(&v6.sin6_addr, address.bytes.data(), sizeof(v6.sin6_addr));
    std::memcpy(&out.storage, &v6, sizeof(v6));
    out.bytes = sizeof(v6);
  } else {
    sockaddr_in v4{};
    v4.sin_family = AF_INET;
    v4.sin_port = htons(port);
    std::memcpy(&v4.sin_addr, address.bytes.data(), sizeof(v4.sin_addr));
    std::memcpy(&out.storage, &v4, sizeof(v4));
    out.bytes = sizeof(v4);
  }
  return out;
}

std::uint16_t portOf(int fd) {
  sockaddr_storage storage{};
  socklen_t bytes = sizeof(storage);
  if (::getsockname(fd, reinterpret_cast<sockaddr*>(&storage), &bytes) != 0) {
    failOnErrno("getsockname", errno);
  }
  if (storage.ss_family == AF_INET6) {
    sockaddr_in6 v6{};
    std::memcpy(&v6, &storage, sizeof(v6));
    return ntohs(v6.sin6_port);
  }
  sockaddr_in v4{};
  std::memcpy(&v4, &storage, sizeof(v4));
  return ntohs(v4.sin_port);
}

/// What a connection of ours has. A system that lacks one of these serves too, so errors are
/// ignored.
void setOptions(int fd) noexcept {
  const auto set = [fd](int level, int option, int value) {
    static_cast<void>(::setsockopt(fd, level, option, &value, sizeof(value)));
  };
  set(IPPROTO_TCP, TCP_NODELAY, 1);
  // A host that vanished is found after a minute and a half. Not by TCP_USER_TIMEOUT, which ends
  // connections to processes that are stopped, too.
  set(SOL_SOCKET, SO_KEEPALIVE, 1);
  set(IPPROTO_TCP, TCP_KEEPIDLE, 30);
  set(IPPROTO_TCP, TCP_KEEPINTVL, 10);
  set(IPPROTO_TCP, TCP_KEEPCNT, 6);
}

}  // namespace

Transfer receiveSome(int fd, std::span<std::byte> into) noexcept {
  for (;;) {
    const ssize_t got = ::recv(fd, into.data(), into.size(), MSG_DONTWAIT);
    if (got > 0) return {Transfer::State::kMoved, static_cast<std::size_t>(got), 0};
    if (got == 0) return {Transfer::State::kEnded, 0, 0};
    if (errno == EINTR) continue;
    if (isForNow(errno)) return {};
    return {Transfer::State::kBroken, 0, errno};
  }
}

Transfer sendSome(int fd, std::span<const std::byte> first,
                  std::span<const std::byte> second) noexcept {
  // The system's struct has no const, yet it only reads.
  const auto part = [](std::span<const std::byte> bytes) {
    return iovec{const_cast<std::byte*>(bytes.data()), bytes.size()};
  };
  std::array<iovec, 2> parts = {part(first), part(second)};
  msghdr message{};
  message.msg_iov = parts.data();
  message.msg_iovlen = parts.size();
  for (;;) {
    const ssize_t sent = ::sendmsg(fd, &message, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (sent > 0) return {Transfer::State::kMoved, static_cast<std::size_t>(sent), 0};
    if (sent == 0) return {};
    if (errno == EINTR) continue;
    if (isForNow(errno)) return {};
    return {Transfer::State::kBroken, 0, errno};
  }
}

UniqueFd openSocket(std::uint16_t family) {
  UniqueFd fd(::socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, IPPROTO_TCP));
  if (!fd.isOpen()) failOnErrno("socket", errno);
  setOptions(fd.get());
  return fd;
}

UniqueFd openListener(const IpAddress& address, std::uint16_t& port) {
  UniqueFd fd = openSocket(address.family);
  const SystemAddress any = systemAddress(address, 0);
  if (::bind(fd.get(), any.get(), any.bytes) != 0) failOnErrno("bind", errno);
  if (::listen(fd.get(), kBacklog) != 0) failOnErrno("listen", errno);
  port = portOf(fd.get());
  return fd;
}

int startConnect(int fd, const IpAddress& address, std::uint16_t port) noexcept {
  const SystemAddress to = systemAddress(address, port);
  if (::connect(fd, to.get(), to.bytes) == 0) return 0;
  // A connect that a signal interrupted goes on.
  return errno == EINTR ? EINPROGRESS : errno;
}

int connectResult(int fd) noexcept {
  int error = 0;
  socklen_t bytes = sizeof(error);
  return ::getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &bytes) == 0 ? error : errno;
}

UniqueFd acceptOne(int listener) {
  for (;;) {
    UniqueFd fd(::accept4(listener, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (fd.isOpen()) {
      setOptions(fd.get());
      return fd;
    }
    switch (errno) {
      case EINTR:
        continue;
      case EMFILE:
      case ENFILE:
      case ENOBUFS:
      case ENOMEM:
        failOnErrno("accept", errno);
      default:
        // None, or one that broke while it waited: the next look tells of those behind it.
        return {};
    }
  }
}

Poller::Poller() : fd_(::epoll_create1(EPOLL_CLOEXEC)), process_(::getpid()) {
  if (!fd_.isOpen()) failOnErrno("epoll_create1", errno);
}

void Poller::watch(int fd, std::uint32_t events, std::uint64_t id, bool isWatched) {
  epoll_event event{};
  event.events = events;
  event.data.u64 = id;
  if (::epoll_ctl(fd_.get(), isWatched ? EPOLL_CTL_MOD : EPOLL_CTL_ADD, fd, &event) != 0) {
    failOnErrno("epoll_ctl", errno);
  }
}

void Poller::forget(int fd) noexcept {
  epoll_event unused{};
  static_cast<void>(::epoll_ctl(fd_.get(), EPOLL_CTL_DEL, fd, &unused));
}

bool Poller::isOwn() const noexcept { return ::getpid() == process_; }

std::span<const epoll_event> Poller::look(std::span<epoll_event> into) const {
  const int count = ::epoll_wait(fd_.get(), into.data(), static_cast<int>(into.size()), 0);
  if (count >= 0) return into.first(static_cast<std::size_t>(count));
  if (errno != EINTR) failOnErrno("epoll_wait", errno);
  return {};
}

void Poller::wait(std::chrono::microseconds timeout) const noexcept {
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(timeout);
  timespec rest{};
  rest.tv_sec = static_cast<std::time_t>(seconds.count());
  rest.tv_nsec = static_cast<long>(std::chrono::nanoseconds(timeout - seconds).count());
  pollfd entry{fd_.get(), POLLIN, 0};
  static_cast<void>(::ppoll(&entry, 1, &rest, nullptr));
}

void WatchedSocket::open(UniqueFd fd, Poller& poller, std::uint64_t id) noexcept {
  close();
  fd_ = std::move(fd);
  poller_ = &poller;
  id_ = id;
}

void WatchedSocket::watch(std::uint32_t events) {
  if (events == events_) return;
  if (events == 0) {
    stopWatching();
    return;
  }
  poller_->watch(fd_.get(), events, id_, events_ != 0);
  events_ = events;
}

void WatchedSocket::stopWatching() noexcept {
  // A copy of the descriptor in a forked child would keep it watched beyond close().
  if (events_ != 0) poller_->forget(fd_.get());
  events_ = 0;
}

UniqueFd WatchedSocket::release() noexcept {
  stopWatching();
  return std::move(fd_);
}

void WatchedSocket::close() noexcept {
  if (!fd_.isOpen()) return;
  if (poller_->isOwn()) {
    stopWatching();
    static_cast<void>(::shutdown(fd_.get(), SHUT_RDWR));
  }
  events_ = 0;
  fd_.reset();
}

}  // namespace zipccl::transport
