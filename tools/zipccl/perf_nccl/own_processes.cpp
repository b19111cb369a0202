// SPDX-License-Identifier: Apache-2.0
//
// Processes of this program.

#include "perf_nccl/own_processes.hpp"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <optional>
#include <string_view>
#include <system_error>
#include <utility>

#include "perf_nccl/socket_control.hpp"
#include "support/text.hpp"

namespace zipccl::tools::perf_nccl {
namespace {

const std::string kHostIdStart = "zipccl-perf-";

std::string wordsOfErrno() { return std::generic_category().message(errno); }

/// A socket of this host that listens at a port of its own, for rank 0 to inherit: a port that is
/// only looked up may be another's by the time that rank 0 has started.
class Listener {
 public:
  Listener() : socket_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t bytes = sizeof(address);
    auto* const place = reinterpret_cast<sockaddr*>(&address);
    if (socket_ >= 0 && ::bind(socket_, place, bytes) == 0 && ::listen(socket_, SOMAXCONN) == 0 &&
        ::getsockname(socket_, place, &bytes) == 0) {
      port_ = ntohs(address.sin_port);
      return;
    }
    const std::string reason = wordsOfErrno();
    close();
    throw Failure("no port of 127.0.0.1: " + reason);
  }
  Listener(const Listener&) = delete;
  Listener& operator=(const Listener&) = delete;
  ~Listener() { close(); }

  [[nodiscard]] int port() const { return port_; }
  /// In the child that is to have it.
  void handDown() const {
    if (socket_ == kInheritedSocket) {
      ::fcntl(socket_, F_SETFD, 0);
    } else {
      ::dup2(socket_, kInheritedSocket);
    }
    ::setenv("LISTEN_PID", std::to_string(::getpid()).c_str(), 1);
    ::setenv("LISTEN_FDS", "1", 1);
  }

 private:
  void close() const {
    if (socket_ >= 0) ::close(socket_);
  }

  int socket_;
  int port_ = 0;
};

void set(const char* name, const std::string& value) { ::setenv(name, value.c_str(), 1); }

/// In the child. Ends with its parent.
[[noreturn]] void become(std::vector<std::string> arguments, pid_t parent) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() == parent) {
    ::execv("/proc/self/exe", argumentPointers(arguments).data());
  }
  ::_exit(static_cast<int>(ExitStatus::kFailure));
}

ExitStatus statusOf(int status) {
  if (!WIFEXITED(status)) return ExitStatus::kFailure;
  return static_cast<ExitStatus>(WEXITSTATUS(status));
}

}  // namespace

std::optional<std::string> ownHostId(int rank, int ranks, int devices) {
  if (ranks <= devices) return std::nullopt;
  return kHostIdStart + std::to_string(rank / devices);
}

bool isOwnHostId(const char* hostId) {
  return hostId != nullptr && std::string_view(hostId).starts_with(kHostIdStart);
}

ExitStatus runProcesses(const std::vector<std::string>& arguments, int count, int devices) {
  set("MASTER_ADDR", "127.0.0.1");
  std::optional<Listener> listener(std::in_place);
  set("MASTER_PORT", std::to_string(listener->port()));
  set("WORLD_SIZE", std::to_string(count));
  set("LOCAL_WORLD_SIZE", std::to_string(count));
  ::unsetenv("TORCHELASTIC_USE_AGENT_STORE");
  const pid_t parent = ::getpid();
  std::vector<pid_t> children;
  for (int rank = 0; rank < count; ++rank) {
    set("RANK", std::to_string(rank));
    set("LOCAL_RANK", std::to_string(rank));
    if (const auto hostId = ownHostId(rank, count, devices)) set("NCCL_HOSTID", *hostId);
    const pid_t child = ::fork();
    if (child == 0) {
      if (rank == 0) listener->handDown();
      become(arguments, parent);
    }
    if (child < 0) {
      const std::string reason = wordsOfErrno();
      for (const pid_t each : children) ::kill(each, SIGKILL);
      throw Failure("fork: " + reason);
    }
    children.push_back(child);
  }
  // Rank 0 alone has it now, and others are refused when that has ended.
  listener.reset();
  std::optional<ExitStatus> bad;
  while (!children.empty()) {
    int status = 0;
    const pid_t ended = ::wait(&status);
    if (ended < 0) {
      if (errno == EINTR) continue;
      throw Failure("wait: " + wordsOfErrno());
    }
    if (std::erase(children, ended) == 0) continue;
    // Wrong bits are found by all together, and no reason to end anybody.
    if (statusOf(status) == ExitStatus::kSuccess || bad) continue;
    bad = statusOf(status);
    if (*bad == ExitStatus::kWrongBits || *bad == ExitStatus::kUsage) continue;
    // Who waits for it would wait for ever; who has a word to say has a second for it.
    ::sleep(1);
    for (const pid_t each : children) ::kill(each, SIGKILL);
  }
  return bad.value_or(ExitStatus::kSuccess);
}

}  // namespace zipccl::tools::perf_nccl
