// SPDX-License-Identifier: Apache-2.0
//
// Where lines of the log are put together and written, and where the process's settings and log are
// made, since each needs the other.

#include "base/log.hpp"

#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <zipccl/version.h>

#include <cerrno>
#include <exception>

#include "base/clock.hpp"
#include "base/text.hpp"

namespace zipccl {

namespace {

thread_local int logDevice = -1;

/// Writes all of `line`; what cannot be written is lost.
void writeAll(int fd, std::string_view line) noexcept {
  while (!line.empty()) {
    const ssize_t writtenBytes = ::write(fd, line.data(), line.size());
    if (writtenBytes < 0 && errno == EINTR) continue;
    if (writtenBytes <= 0) return;
    line.remove_prefix(static_cast<std::size_t>(writtenBytes));
  }
}

bool isControl(char c) noexcept {
  const auto code = static_cast<unsigned char>(c);
  return code < 0x20 || code == 0x7F;
}

std::string withSixDigits(std::int64_t elapsedUs) {
  std::string digits = concat(elapsedUs % 1000);
  digits.insert(0, 3 - digits.size(), '0');
  return concat(elapsedUs / 1000, '.', digits);
}

/// The settings of the process and its log; settings() and processLog() are its faces.
struct Process {
  Process() : parsed(readEnvironment()), log(parsed.settings) {
    if (!log.isEnabled(LogLevel::kWarn)) return;
    for (const std::string& problem : parsed.problems) {
      log.write(LogLevel::kWarn, problem, SourceLocation::current());
    }
  }

  const ParsedSettings parsed;
  Log log;
};

Process& process() {
  static Process& instance = *new Process();
  return instance;
}

}  // namespace

const Settings& settings() { return process().parsed.settings; }

Log& processLog() { return process().log; }

void setLogDevice(int device) noexcept { logDevice = device; }

Log::Log(const Settings& settings)
    : level_(settings.logLevel),
      subsystems_(settings.logSubsystems),
      filePattern_(settings.logFile),
      hostName_(shortHostName()),
      startUs_(nowUs()) {}

void Log::openFile() {
  if (filePattern_.empty()) return;
  const std::string path = expandFileName(filePattern_);
  // Without O_NONBLOCK the opening of a named pipe waits until somebody reads it.
  constexpr int kFlags = O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC;
  file_ = UniqueFd(::open(path.c_str(), kFlags | O_NONBLOCK, 0644));
  if (file_.isOpen()) {
    ::fcntl(file_.get(), F_SETFL, O_APPEND);
    return;
  }
  const int error = errno;
  writeLine(LogLevel::kWarn,
            concat("cannot open the log file ", path, ": ", errnoText(error),
                   "; the log goes to standard error"),
            SourceLocation::current());
}

void Log::writeLine(LogLevel level, std::string_view message, SourceLocation where) {
  const auto thread = static_cast<std::int64_t>(::syscall(SYS_gettid));
  std::string line = concat(hostName_, ':', static_cast<std::int64_t>(::getpid()), ':', thread,
                            " [", logDevice, "] ");
  switch (level) {
    case LogLevel::kWarn:
      line += concat(shortFileName(where.file), ':', where.line, ' ');
      break;
    case LogLevel::kTrace:
      line += concat(withSixDigits(nowUs() - startUs_), ' ');
      break;
    case LogLevel::kNone:
    case LogLevel::kVersion:
    case LogLevel::kInfo:
      break;
  }
  line += concat("ZIPCCL ", logLevelName(level), ' ');
  if (level == LogLevel::kVersion) line = "ZIPCCL version ";
  for (const char c : message) line += isControl(c) ? ' ' : c;
  line += '\n';
  writeAll(file_.isOpen() ? file_.get() : STDERR_FILENO, line);
}

void Log::write(LogLevel level, std::string_view message, SourceLocation where) noexcept {
  try {
    std::call_once(wasOpened_, [this] { openFile(); });
    writeLine(level, message, where);
  } catch (const std::exception&) {
    // Out of memory: the line is lost, the caller goes on.
  }
}

bool Log::warnOnce(std::string_view key, std::string_view message, SourceLocation where) noexcept {
  if (!isEnabled(LogLevel::kWarn)) return false;
  try {
    const std::lock_guard lock(mutex_);
    if (!seenKeys_.emplace(key).second) return false;
  } catch (const std::exception&) {
    return false;
  }
  write(LogLevel::kWarn, message, where);
  return true;
}

void logVersion() noexcept {
  if (!processLog().isEnabled(LogLevel::kVersion)) return;
  processLog().write(LogLevel::kVersion, ZIPCCL_VERSION_STRING, SourceLocation::current());
}

}  // namespace zipccl
