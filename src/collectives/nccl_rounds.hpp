// SPDX-License-Identifier: Apache-2.0
//
// Runs calls over NCCL in rounds. A round is one group of NCCL that carries one item of each lane
// of each communicator; what headers tell of, the dynamic parts, follows in a group of its own,
// where there is any, while the next round travels (docs/architecture.md).

#pragma once

#include <zipccl/nccl_engine.h>

#include <span>

namespace zipccl::collectives {

class NcclCommunicator;

/// A call, and its communicator where it has one that is attached.
struct RoundCall {
  const zipcclNcclCall* call = nullptr;
  NcclCommunicator* communicator = nullptr;
};

/// Makes the calls of one group. Returns when all is on the callers' streams: everything that reads
/// headers has been waited for by then. Returns NCCL's first result that was none of success. A
/// failure of this library ends the communicators of the calls, and is thrown.
int runRounds(const zipcclNcclApi& api, std::span<const RoundCall> calls);

}  // namespace zipccl::collectives
