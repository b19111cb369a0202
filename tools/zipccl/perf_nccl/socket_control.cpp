// SPDX-License-Identifier: Apache-2.0
//
// TCP between processes.

#include "perf_nccl/socket_control.hpp"

#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <thread>

#include "perf/communicator.hpp"
#include "perf/data_pools.hpp"
#include "support/failure.hpp"

namespace zipccl::tools::perf_nccl {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::uint64_t kMagic = 0x6C63636E7A697031ULL;

/// What a rank says first.
struct Hello {
  std::uint64_t magic = kMagic;
  std::uint32_t rank = 0;
  std::uint32_t rankCount = 0;
};

std::string reasonOfErrno() { return std::generic_category().message(errno); }

/// A number that processes which share a clock have in common.
std::uint64_t thisHost() {
  std::ifstream file("/proc/sys/kernel/random/boot_id");
  std::string id;
  std::getline(file, id);
  return perf::fingerprint(std::as_bytes(std::span<const char>(id)));
}

void setOptions(int socket) {
  const int yes = 1;
  static_cast<void>(::setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof(yes)));
  static_cast<void>(::setsockopt(socket, SOL_SOCKET, SO_KEEPALIVE, &yes, sizeof(yes)));
}

void closeSocket(int& socket) noexcept {
  if (socket >= 0) ::close(socket);
  socket = -1;
}

/// Whether all bytes went, or came.
bool sendAll(int socket, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t sent = ::send(socket, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent <= 0) return false;
    bytes = bytes.subspan(static_cast<std::size_t>(sent));
  }
  return true;
}

bool receiveAll(int socket, std::span<std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t received = ::recv(socket, bytes.data(), bytes.size(), 0);
    if (received < 0 && errno == EINTR) continue;
    if (received <= 0) return false;
    bytes = bytes.subspan(static_cast<std::size_t>(received));
  }
  return true;
}

template <class Item>
std::span<std::byte> bytesOf(Item& item) {
  return std::as_writable_bytes(std::span(&item, 1));
}

std::chrono::milliseconds left(Clock::time_point deadline) {
  return std::max(std::chrono::milliseconds(0),
                  std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now()));
}

/// Waits until there is something to read.
bool awaitInput(int socket, Clock::time_point deadline) {
  pollfd entry = {socket, POLLIN, 0};
  for (;;) {
    const int ready = ::poll(&entry, 1, static_cast<int>(left(deadline).count()));
    if (ready > 0) return true;
    if (ready == 0 || errno != EINTR) return false;
  }
}

using Addresses = std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)>;

/// `host` empty: this one's, to listen at.
Addresses lookUp(const std::string& host, std::uint16_t port, std::string& why) {
  addrinfo hints = {};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = host.empty() ? AI_PASSIVE : 0;
  addrinfo* found = nullptr;
  const int error = ::getaddrinfo(host.empty() ? nullptr : host.c_str(),
                                  std::to_string(port).c_str(), &hints, &found);
  if (error != 0) why = ::gai_strerror(error);
  return {found, &::freeaddrinfo};
}

/// The socket that a parent opened for this process, as systemd's services get theirs.
std::optional<int> inheritedListener() {
  const char* const owner = std::getenv("LISTEN_PID");
  const char* const count = std::getenv("LISTEN_FDS");
  if (owner == nullptr || count == nullptr) return std::nullopt;
  if (owner != std::to_string(::getpid()) || std::string_view(count) != "1") return std::nullopt;
  static_cast<void>(::fcntl(kInheritedSocket, F_SETFD, FD_CLOEXEC));
  return kInheritedSocket;
}

int listenAt(std::uint16_t port) {
  if (const std::optional<int> inherited = inheritedListener()) return *inherited;
  std::string why;
  const Addresses addresses = lookUp("", port, why);
  // The wildcard of IPv6 takes both families.
  for (const int family : {AF_INET6, AF_INET}) {
    for (const addrinfo* at = addresses.get(); at != nullptr; at = at->ai_next) {
      if (at->ai_family != family) continue;
      int socket = ::socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0);
      if (socket < 0) continue;
      const int yes = 1;
      const int no = 0;
      static_cast<void>(::setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes)));
      if (family == AF_INET6) {
        static_cast<void>(::setsockopt(socket, IPPROTO_IPV6, IPV6_V6ONLY, &no, sizeof(no)));
      }
      if (::bind(socket, at->ai_addr, at->ai_addrlen) == 0 && ::listen(socket, SOMAXCONN) == 0) {
        return socket;
      }
      why = reasonOfErrno();
      closeSocket(socket);
    }
  }
  throw Failure("rank 0 cannot listen at port " + std::to_string(port) + ": " + why +
                "; --rendezvous HOST:PORT names another");
}

/// Where nobody listens at a port that the system gives away, a socket may be given that very port
/// and reach itself, which keeps rank 0 from listening there.
bool isConnectedToItself(int socket) {
  const auto addressBy = [socket](auto ask) {
    sockaddr_storage address = {};
    socklen_t bytes = sizeof(address);
    if (ask(socket, reinterpret_cast<sockaddr*>(&address), &bytes) != 0) bytes = 0;
    return std::string(reinterpret_cast<const char*>(&address), bytes);
  };
  const std::string own = addressBy(&::getsockname);
  return !own.empty() && own == addressBy(&::getpeername);
}

int connectOnce(const Endpoint& root, std::string& why) {
  const Addresses addresses = lookUp(root.host, root.port, why);
  for (const addrinfo* at = addresses.get(); at != nullptr; at = at->ai_next) {
    int socket = ::socket(at->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (socket < 0) continue;
    if (::connect(socket, at->ai_addr, at->ai_addrlen) != 0) {
      why = reasonOfErrno();
    } else if (!isConnectedToItself(socket)) {
      return socket;
    } else {
      // The port is to be free at once, not in a minute.
      const linger none = {.l_onoff = 1, .l_linger = 0};
      static_cast<void>(::setsockopt(socket, SOL_SOCKET, SO_LINGER, &none, sizeof(none)));
    }
    closeSocket(socket);
  }
  return -1;
}

}  // namespace

SocketControl::SocketControl(int rank, int rankCount, const Endpoint& root,
                             std::chrono::milliseconds timeout)
    : rank_(rank), rankCount_(rankCount), sockets_(static_cast<std::size_t>(rankCount), -1) {
  const Clock::time_point deadline = Clock::now() + timeout;
  try {
    if (rank_ == 0) {
      acceptAll(root, deadline);
    } else {
      connectToRoot(root, deadline);
    }
  } catch (...) {
    abort();
    throw;
  }
  const std::vector<std::uint64_t> hosts = gather(thisHost());
  isOneHost_ = std::all_of(hosts.begin(), hosts.end(),
                           [&](std::uint64_t host) { return host == hosts.front(); });
}

SocketControl::~SocketControl() {
  for (int& socket : sockets_) closeSocket(socket);
}

void SocketControl::acceptAll(const Endpoint& root, Clock::time_point deadline) {
  int listener = listenAt(root.port);
  const std::unique_ptr<int, void (*)(int*)> closing(&listener,
                                                     [](int* socket) { closeSocket(*socket); });
  int missing = rankCount_ - 1;
  while (missing != 0) {
    if (!awaitInput(listener, deadline)) {
      throw Failure(std::to_string(missing) + " of " + std::to_string(rankCount_) +
                    " ranks have not come to rank 0 at port " + std::to_string(root.port));
    }
    int socket = ::accept4(listener, nullptr, nullptr, SOCK_CLOEXEC);
    if (socket < 0) continue;
    setOptions(socket);
    Hello hello;
    // Who else comes is sent away.
    const auto brief = std::min(deadline, Clock::now() + std::chrono::seconds(5));
    const bool isRank = awaitInput(socket, brief) && receiveAll(socket, bytesOf(hello)) &&
                        hello.magic == kMagic && hello.rank > 0 &&
                        hello.rankCount == static_cast<std::uint32_t>(rankCount_) &&
                        hello.rank < hello.rankCount && socketOf(static_cast<int>(hello.rank)) < 0;
    if (!isRank) {
      closeSocket(socket);
      continue;
    }
    socketOf(static_cast<int>(hello.rank)) = socket;
    --missing;
  }
}

void SocketControl::connectToRoot(const Endpoint& root, Clock::time_point deadline) {
  constexpr auto kPause = std::chrono::milliseconds(50);
  std::string why = "nobody is there";
  const Hello hello{.rank = static_cast<std::uint32_t>(rank_),
                    .rankCount = static_cast<std::uint32_t>(rankCount_)};
  while (socketOf(0) < 0) {
    socketOf(0) = connectOnce(root, why);
    if (socketOf(0) >= 0) break;
    if (Clock::now() >= deadline) {
      throw Failure("rank " + std::to_string(rank_) + " cannot reach rank 0 at " + root.host +
                    " port " + std::to_string(root.port) + ": " + why);
    }
    std::this_thread::sleep_for(kPause);
  }
  setOptions(socketOf(0));
  static_cast<void>(sendAll(socketOf(0), std::as_bytes(std::span(&hello, 1))));
}

void SocketControl::sendTo(int peer, std::span<const std::byte> bytes) {
  const std::uint64_t size = bytes.size();
  const int socket = socketOf(peer);
  if (socket >= 0 && sendAll(socket, std::as_bytes(std::span(&size, 1))) &&
      sendAll(socket, bytes)) {
    return;
  }
  throw perf::CallFailure(zipcclRemoteError, "rank " + std::to_string(peer) + " has left");
}

void SocketControl::receiveFrom(int peer, std::span<std::byte> bytes) {
  std::uint64_t size = 0;
  const int socket = socketOf(peer);
  if (socket < 0 || !receiveAll(socket, bytesOf(size)) || size != bytes.size() ||
      !receiveAll(socket, bytes)) {
    throw perf::CallFailure(zipcclRemoteError, "rank " + std::to_string(peer) + " has left");
  }
}

void SocketControl::gatherBytes(std::span<const std::byte> mine, std::span<std::byte> all) {
  if (rank_ != 0) {
    sendTo(0, mine);
    receiveFrom(0, all);
    return;
  }
  std::copy(mine.begin(), mine.end(), all.begin());
  for (int peer = 1; peer < rankCount_; ++peer) {
    receiveFrom(peer, all.subspan(static_cast<std::size_t>(peer) * mine.size(), mine.size()));
  }
  for (int peer = 1; peer < rankCount_; ++peer) sendTo(peer, all);
}

void SocketControl::startTogether() {
  if (isOneHost_) {
    startByClock(*this);
  } else {
    barrier();
  }
}

void SocketControl::expectAll() {
  std::vector<pollfd> entries;
  for (const int socket : sockets_) {
    if (socket >= 0) entries.push_back({socket, POLLRDHUP, 0});
  }
  if (::poll(entries.data(), entries.size(), 0) <= 0) return;
  throw perf::CallFailure(zipcclRemoteError, "another rank has left");
}

void SocketControl::abort() noexcept {
  for (const int socket : sockets_) {
    if (socket >= 0) ::shutdown(socket, SHUT_RDWR);
  }
}

void startByClock(perf::Control& control) {
  constexpr auto kMargin = std::chrono::microseconds(300);
  using Ns = std::chrono::nanoseconds;
  const auto now = [] {
    return std::chrono::duration_cast<Ns>(Clock::now().time_since_epoch()).count();
  };
  const std::vector<std::int64_t> came = control.gather(std::int64_t{now()});
  const std::int64_t start = *std::max_element(came.begin(), came.end()) + Ns(kMargin).count();
  while (now() < start) std::this_thread::yield();
}

}  // namespace zipccl::tools::perf_nccl
