// SPDX-License-Identifier: Apache-2.0
//
// The library's log in test programs: it goes to a file instead of the terminal, and can be read.

#pragma once

#include <string>

namespace zipccl::collectives::testing {

/// All that was logged so far. Programs that link this send the log to a file in their working
/// folder, which is removed when they end.
[[nodiscard]] std::string readLog();

/// How often `text` occurs in what was logged.
[[nodiscard]] int countInLog(const std::string& text);

}  // namespace zipccl::collectives::testing
