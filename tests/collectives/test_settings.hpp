// SPDX-License-Identifier: Apache-2.0
//
// Settings for tests of communicators, and how much work a test may do.

#pragma once

#include <chrono>
#include <cstdint>

#include "collectives/communicator.hpp"
#include "support/sanitized.hpp"

namespace zipccl::collectives::testing {

using zipccl::testing::kIsAddressSanitized;
using zipccl::testing::kIsThreadSanitized;

/// The given strategy, 256 MB of scratch, and a time limit that turns a hang into a failure.
[[nodiscard]] inline CommunicatorSettings testSettings(
    StrategyChoice strategy = StrategyChoice::kStaged) {
  CommunicatorSettings settings;
  settings.agreed.strategy = strategy;
  settings.agreed.maxScratchBytes = std::uint64_t{256} << 20;
  settings.timeout = std::chrono::seconds(60);
  return settings;
}

/// `full`, or a tenth of it under the thread sanitizer, which takes about ten times as long, and a
/// third under that of addresses.
[[nodiscard]] constexpr std::uint64_t scaled(std::uint64_t full) {
  return kIsThreadSanitized ? full / 10 : kIsAddressSanitized ? full / 3 : full;
}

}  // namespace zipccl::collectives::testing
