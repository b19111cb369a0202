// SPDX-License-Identifier: Apache-2.0
//
// `zipccl doctor`: what stands in front of NCCL here, and what a program made of it.

#pragma once

#include <iosfwd>
#include <istream>
#include <string>
#include <vector>

#include "run/launch.hpp"
#include "support/failure.hpp"

namespace zipccl::tools::doctor {

/// What the interposer noted of one process.
struct Process {
  int pid = 0;
  std::string program;     ///< empty if it did not end by itself
  std::string mappedNccl;  ///< the NCCL that it had loaded at its end, if any
  std::string nccl;        ///< the NCCL behind the hooks; empty if none was ever called
  std::string how;         ///< how that was found
  int version = 0;
  bool isDisabled = false;
  std::string engine;  ///< the engine that was loaded
  std::string engineProblem;
  int attached = 0;                    ///< communicators
  std::vector<std::string> leftAlone;  ///< why, of each other communicator
};

/// Reads the notes that ZIPCCL_REPORT gathers, in the order of the processes' first notes. Lines
/// that are none are skipped.
[[nodiscard]] std::vector<Process> readReport(std::istream& in);

/// One sentence or more on a process that had NCCL.
[[nodiscard]] std::string verdict(const Process& process);

/// Prints what is installed, the settings, and what is intercepted; runs the program if there is
/// one, and prints what came of it.
[[nodiscard]] ExitStatus run(const launch::Options& options, std::ostream& out);

}  // namespace zipccl::tools::doctor
