// SPDX-License-Identifier: Apache-2.0
//
// Processes of this program.

#include "perf_nccl/own_processes.hpp"

#include <arpa/inet.h>
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
#include <system_error>

namespace zipccl::tools::perf_nccl {
namespace {

std::string wordsOfErrno() { return std::generic_category().message(errno); }

/// A port that nobody has now.
int freePort() {
  const int socket = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t bytes = sizeof(address);
  const bool isFound = socket >= 0 &&
                       ::bind(socket, reinterpret_cast<sockaddr*>(&address), bytes) == 0 &&
                       ::getsockname(socket, reinterpret_cast<sockaddr*>(&address), &bytes) == 0;
  const std::string reason = wordsOfErrno();
  if (socket >= 0) ::close(socket);
  if (!isFound) throw Failure("no port of 127.0.0.1: " + reason);
  return ntohs(address.sin_port);
}

void set(const char* name, const std::string& value) { ::setenv(name, value.c_str(), 1); }

/// In the child. Ends with its parent.
[[noreturn]] void become(std::vector<std::string> arguments, pid_t parent) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() == parent) {
    std::vector<char*> words;
    for (std::string& argument : arguments) words.push_back(argument.data());
    words.push_back(nullptr);
    ::execv("/proc/self/exe", words.data());
  }
  ::_exit(static_cast<int>(ExitStatus::kFailure));
}

ExitStatus statusOf(int status) {
  if (!WIFEXITED(status)) return ExitStatus::kFailure;
  return static_cast<ExitStatus>(WEXITSTATUS(status));
}

}  // namespace

ExitStatus runProcesses(const std::vector<std::string>& arguments, int count) {
  set("MASTER_ADDR", "127.0.0.1");
  set("MASTER_PORT", std::to_string(freePort()));
  set("WORLD_SIZE", std::to_string(count));
  set("LOCAL_WORLD_SIZE", std::to_string(count));
  ::unsetenv("TORCHELASTIC_USE_AGENT_STORE");
  const pid_t parent = ::getpid();
  std::vector<pid_t> children;
  for (int rank = 0; rank < count; ++rank) {
    set("RANK", std::to_string(rank));
    set("LOCAL_RANK", std::to_string(rank));
    const pid_t child = ::fork();
    if (child == 0) become(arguments, parent);
    if (child < 0) {
      const std::string reason = wordsOfErrno();
      for (const pid_t each : children) ::kill(each, SIGKILL);
      throw Failure("fork: " + reason);
    }
    children.push_back(child);
  }
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
