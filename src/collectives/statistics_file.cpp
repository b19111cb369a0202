// SPDX-License-Identifier: Apache-2.0
//
// The file of ZIPCCL_STATS. It is made by the same steps at exit and in the handler of SIGTERM,
// all of which POSIX allows in a handler: numbers are atomic, the names were made at the start, the
// text is put together in memory that is there from the start. No thread has to be woken, so it
// does not matter what the interrupted one holds.
//
// What SIGTERM does stays what it was: after the file, the handler that the program had is called,
// or the default action ends the process. A program that ignores the signal, or sets its handler
// later without calling the one before, never comes here by it, and writes at its exit.

#include "collectives/statistics_file.hpp"

#include <dlfcn.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <mutex>
#include <string>

#include "base/log.hpp"
#include "base/settings.hpp"
#include "base/text.hpp"
#include "collectives/call_table.hpp"

namespace zipccl::collectives {
namespace {

/// Static, and never destroyed: a handler may run at any time.
struct File {
  std::array<char, 4096> name{};
  std::array<char, 4096> unfinishedName{};
  std::array<char, 256> host{};
  std::array<char, CallTable::kMostTextBytes> text{};
  pid_t process = 0;
  int rank = 0;
  int rankCount = 0;
  struct sigaction previous {};
  std::atomic_flag isBusy;
};

constinit CallTable processTable;
constinit File processFile;
constinit std::atomic<bool> isCounting = false;

bool putName(std::array<char, 4096>& name, const std::string& text) noexcept {
  if (text.size() >= name.size()) return false;
  std::memcpy(name.data(), text.c_str(), text.size() + 1);
  return true;
}

bool writeAll(int descriptor, std::string_view text) noexcept {
  while (!text.empty()) {
    const ssize_t written = ::write(descriptor, text.data(), text.size());
    if (written < 0 && errno != EINTR) return false;
    if (written > 0) text.remove_prefix(static_cast<std::size_t>(written));
  }
  return true;
}

/// A reader of the file finds all of it, whenever it looks.
bool writeFile() noexcept {
  SignalSafeText text(processFile.text);
  processTable.write(text, {processFile.host.data(), processFile.process, processFile.rank,
                            processFile.rankCount});
  const int descriptor =
      ::open(processFile.unfinishedName.data(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (descriptor < 0) return false;
  const bool isWritten = text.isWhole() && writeAll(descriptor, text.text());
  return ::close(descriptor) == 0 && isWritten &&
         ::rename(processFile.unfinishedName.data(), processFile.name.data()) == 0;
}

/// A child that was forked is another process, and has no file.
bool isOwner() noexcept { return ::getpid() == processFile.process; }

void writeAtExit() noexcept {
  if (!isOwner()) return;
  // A handler in this thread would wait for what this thread does.
  sigset_t terminate;
  sigset_t before;
  ::sigemptyset(&terminate);
  ::sigaddset(&terminate, SIGTERM);
  ::pthread_sigmask(SIG_BLOCK, &terminate, &before);
  if (!processFile.isBusy.test_and_set()) {
    if (!writeFile()) {
      const int error = errno;
      logWarn("ZIPCCL_STATS: cannot write ", processFile.name.data(), ": ", errnoText(error));
    }
    processFile.isBusy.clear();
  }
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

void writeInHandler() noexcept {
  if (!isOwner()) return;
  // Another thread may be at it, for the same reason or for an exit.
  constexpr int kMostWaits = 1000;
  bool isMine = !processFile.isBusy.test_and_set();
  for (int wait = 0; !isMine && wait < kMostWaits; ++wait) {
    static_cast<void>(::poll(nullptr, 0, 1));
    isMine = !processFile.isBusy.test_and_set();
  }
  if (!isMine) return;
  static_cast<void>(writeFile());
  processFile.isBusy.clear();
}

/// What the signal would have done.
void passOn(int signal, siginfo_t* info, void* context) noexcept {
  const struct sigaction& previous = processFile.previous;
  const bool isDefault = (previous.sa_flags & SA_SIGINFO) == 0 && previous.sa_handler == SIG_DFL;
  if (isDefault || (previous.sa_flags & static_cast<int>(SA_RESETHAND)) != 0) {
    struct sigaction standard {};
    standard.sa_handler = SIG_DFL;
    ::sigemptyset(&standard.sa_mask);
    static_cast<void>(::sigaction(signal, &standard, nullptr));
  }
  if (isDefault) {
    // Blocked while this handler runs: the process ends when it returns.
    static_cast<void>(::raise(signal));
  } else if ((previous.sa_flags & SA_SIGINFO) != 0) {
    previous.sa_sigaction(signal, info, context);
  } else {
    previous.sa_handler(signal);
  }
}

extern "C" void zipcclOnTerminate(int signal, siginfo_t* info, void* context) {
  const int error = errno;
  writeInHandler();
  errno = error;
  passOn(signal, info, context);
}

void installHandler() noexcept {
  if (::sigaction(SIGTERM, nullptr, &processFile.previous) != 0) return;
  const struct sigaction& previous = processFile.previous;
  if ((previous.sa_flags & SA_SIGINFO) == 0 && previous.sa_handler == SIG_IGN) return;
  struct sigaction own {};
  own.sa_sigaction = zipcclOnTerminate;
  own.sa_mask = previous.sa_mask;
  // SA_RESETHAND is left to passOn().
  own.sa_flags = SA_SIGINFO | (previous.sa_flags & (SA_ONSTACK | SA_RESTART | SA_NODEFER));
  static_cast<void>(::sigaction(SIGTERM, &own, nullptr));
}

/// The handler, which others may have kept to call it, must stay where it is.
void keepLoaded() noexcept {
  Dl_info info{};
  if (::dladdr(reinterpret_cast<const void*>(&zipcclOnTerminate), &info) == 0) return;
  static_cast<void>(::dlopen(info.dli_fname, RTLD_NOW | RTLD_NOLOAD | RTLD_NODELETE));
}

/// The names of %r, then those of all file names of settings.
std::string nameOf(const std::string& pattern, int rank) {
  std::string named;
  for (std::size_t i = 0; i < pattern.size(); ++i) {
    const bool hasKind = pattern[i] == '%' && i + 1 < pattern.size();
    if (hasKind && pattern[i + 1] == 'r') {
      named += concat(rank);
      ++i;
    } else if (hasKind) {
      named.append(pattern, i++, 2);
    } else {
      named += pattern[i];
    }
  }
  return expandFileName(named);
}

void beginFile(int rank, int rankCount) {
  const std::string& pattern = settings().statisticsFile;
  if (pattern.empty()) return;
  const std::string name = nameOf(pattern, rank);
  processFile.process = ::getpid();
  const std::string unfinished =
      concat(name, ".", std::int64_t{processFile.process}, ".unfinished");
  if (!putName(processFile.name, name) || !putName(processFile.unfinishedName, unfinished)) {
    logWarn("ZIPCCL_STATS: a file name of ", name.size(), " bytes is too long");
    return;
  }
  const std::string host = shortHostName();
  std::memcpy(processFile.host.data(), host.c_str(),
              std::min(host.size(), processFile.host.size() - 1));
  processFile.rank = rank;
  processFile.rankCount = rankCount;
  keepLoaded();
  isCounting.store(true, std::memory_order_release);
  static_cast<void>(std::atexit(writeAtExit));
  installHandler();
}

}  // namespace

void startStatistics(int rank, int rankCount) noexcept {
  static std::once_flag once;
  try {
    std::call_once(once, [&] { beginFile(rank, rankCount); });
  } catch (const std::exception& error) {
    logWarn("ZIPCCL_STATS: ", error.what());
  }
}

void recordCall(const CallOutcome& outcome) noexcept {
  if (isCounting.load(std::memory_order_relaxed)) processTable.add(outcome);
}

}  // namespace zipccl::collectives
