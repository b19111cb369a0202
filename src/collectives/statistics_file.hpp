// SPDX-License-Identifier: Apache-2.0
//
// ZIPCCL_STATS: the calls of this process, as a file, at its end.

#pragma once

#include "collectives/communicator.hpp"

namespace zipccl::collectives {

/// A communicator was made on which this process has that rank. The first one, where the settings
/// name a file, has it written when the process exits and when it gets SIGTERM, and gives %r its
/// value.
void startStatistics(int rank, int rankCount) noexcept;

/// Counts a call of any communicator.
void recordCall(const CallOutcome& outcome) noexcept;

}  // namespace zipccl::collectives
