// SPDX-License-Identifier: Apache-2.0
//
// How the command ends: its exit statuses, and the exceptions that lead to them.

#pragma once

#include <exception>
#include <stdexcept>

namespace zipccl::tools {

enum class ExitStatus : int {
  kSuccess = 0,
  kWrongBits = 1,  ///< a collective delivered other bits than were sent
  kUsage = 2,      ///< the command line cannot be carried out as it stands
  kFailure = 3,    ///< something failed on the way
};

/// Ends the command with kUsage.
class UsageError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Ends the command with kFailure.
class Failure : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Ends the command with `status` and without a word: another process has said it.
class SilentExit : public std::exception {
 public:
  explicit SilentExit(ExitStatus status) noexcept : status_(status) {}

  [[nodiscard]] ExitStatus status() const noexcept { return status_; }
  [[nodiscard]] const char* what() const noexcept override { return "reported elsewhere"; }

 private:
  ExitStatus status_;
};

}  // namespace zipccl::tools
