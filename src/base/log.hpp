// SPDX-License-Identifier: Apache-2.0
//
// The log, in the shape of NCCL's lines. It goes to standard error or to a file, never to standard
// output, and never throws.
//
//   host:pid:tid [device] src/base/settings.cpp:42 ZIPCCL WARN message
//   host:pid:tid [device] ZIPCCL INFO message
//   host:pid:tid [device] 12.345678 ZIPCCL TRACE message          (milliseconds since the first
//   line)

#pragma once

#include <concepts>
#include <cstdint>
#include <functional>
#include <mutex>
#include <set>
#include <string>
#include <string_view>

#include "base/error.hpp"
#include "base/settings.hpp"
#include "base/text.hpp"
#include "base/unique_fd.hpp"

namespace zipccl {

/// One log with a level, a choice of subsystems and a destination. The process has one, which the
/// functions below use; tests make their own. Any thread may call it. Each line is written by one
/// call of the system, so that lines of several processes in one file do not mix.
class Log {
 public:
  /// Takes logLevel, logSubsystems and logFile. The file is opened at the first line, for
  /// appending; where that fails the log goes to standard error, with a warning that tells why.
  explicit Log(const Settings& settings);

  [[nodiscard]] bool isEnabled(LogLevel level) const noexcept { return level <= level_; }

  /// Whether a line of that level and subsystem is written. Subsystems matter above kWarn only.
  [[nodiscard]] bool isEnabled(LogLevel level, LogSubsystem subsystem) const noexcept {
    return level <= level_ &&
           (level <= LogLevel::kWarn || (subsystems_ & static_cast<std::uint32_t>(subsystem)) != 0);
  }

  /// Writes one line without looking at level and subsystem. Control characters in `message`, which
  /// may hold what a peer sent, become spaces.
  void write(LogLevel level, std::string_view message, SourceLocation where) noexcept;

  /// Writes a warning, if warnings are enabled and none with the same `key` was written before.
  /// Returns whether it was written.
  bool warnOnce(std::string_view key, std::string_view message, SourceLocation where) noexcept;

 private:
  void writeLine(LogLevel level, std::string_view message, SourceLocation where);
  void openFile();

  LogLevel level_;
  std::uint32_t subsystems_;
  std::string filePattern_;
  std::string hostName_;
  std::int64_t startUs_;
  std::once_flag wasOpened_;
  UniqueFd file_;
  std::mutex mutex_;
  std::set<std::string, std::less<>> seenKeys_;
};

/// The log of the process, made from settings() at its first use; never destroyed.
[[nodiscard]] Log& processLog();

/// The number in brackets in this thread's lines: the CUDA device in use, or -1, the default.
void setLogDevice(int device) noexcept;

namespace detail {

/// The first part of a message together with the place that wrote it.
struct TextAt {
  std::string_view text;
  SourceLocation where;

  template <std::convertible_to<std::string_view> Text>
  constexpr TextAt(const Text& firstPart,
                   SourceLocation place = SourceLocation::current()) noexcept  // implicit
      : text(firstPart), where(place) {}
};

template <class... Parts>
void logParts(LogLevel level, const TextAt& first, const Parts&... parts) noexcept {
  try {
    processLog().write(level, concat(first.text, parts...), first.where);
  } catch (...) {
    // A log that cannot be written is no reason to fail.
  }
}

}  // namespace detail

/// Writes a warning: something is wrong, and what is done about it. The parts are joined by
/// concat().
template <detail::TextPart... Parts>
void logWarn(detail::TextAt first, const Parts&... parts) noexcept {
  if (processLog().isEnabled(LogLevel::kWarn)) detail::logParts(LogLevel::kWarn, first, parts...);
}

/// Writes a warning once in the life of the process for each `key`.
template <detail::TextPart... Parts>
void warnOnce(std::string_view key, detail::TextAt first, const Parts&... parts) noexcept {
  if (!processLog().isEnabled(LogLevel::kWarn)) return;
  try {
    processLog().warnOnce(key, concat(first.text, parts...), first.where);
  } catch (...) {
    // As above.
  }
}

/// Writes a line for users who want to know what happens.
template <detail::TextPart... Parts>
void logInfo(LogSubsystem subsystem, detail::TextAt first, const Parts&... parts) noexcept {
  if (processLog().isEnabled(LogLevel::kInfo, subsystem)) {
    detail::logParts(LogLevel::kInfo, first, parts...);
  }
}

/// Writes a line for developers, with a time.
template <detail::TextPart... Parts>
void logTrace(LogSubsystem subsystem, detail::TextAt first, const Parts&... parts) noexcept {
  if (processLog().isEnabled(LogLevel::kTrace, subsystem)) {
    detail::logParts(LogLevel::kTrace, first, parts...);
  }
}

/// Writes `ZIPCCL version ...`, unless the level is NONE.
void logVersion() noexcept;

}  // namespace zipccl
