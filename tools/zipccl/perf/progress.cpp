// SPDX-License-Identifier: Apache-2.0
//
// One line on a terminal that says how far a run is.

#include "perf/progress.hpp"

#include <ostream>

namespace zipccl::tools::perf {
namespace {

constexpr const char* kClearLine = "\r\033[K";

}  // namespace

void Progress::show(const std::string& text) {
  if (!isTerminal_) return;
  stream_ << kClearLine << text << std::flush;
  isShown_ = true;
}

void Progress::clear() {
  if (isShown_) stream_ << kClearLine << std::flush;
  isShown_ = false;
}

}  // namespace zipccl::tools::perf
