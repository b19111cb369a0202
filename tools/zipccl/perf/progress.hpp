// SPDX-License-Identifier: Apache-2.0
//
// One line on a terminal that says how far a run is; nothing where stderr is no terminal.

#pragma once

#include <cstdint>
#include <iosfwd>
#include <string>

namespace zipccl::tools::perf {

class Progress {
 public:
  /// Writes to `stream` when `isTerminal`.
  Progress(std::ostream& stream, bool isTerminal) : stream_(stream), isTerminal_(isTerminal) {}
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;
  ~Progress() { clear(); }

  void show(const std::string& text);
  /// Makes room for other output.
  void clear();

 private:
  std::ostream& stream_;
  bool isTerminal_;
  bool isShown_ = false;
};

}  // namespace zipccl::tools::perf
