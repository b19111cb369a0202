// SPDX-License-Identifier: Apache-2.0
//
// Runs calls over NCCL in rounds. A round carries one item of each lane of a communicator; those of
// several communicators share groups of NCCL (docs/architecture.md).

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

/// Makes the calls of one group. Returns when all is on the callers' streams: until then a
/// communicator may have to wait for earlier calls of its own, and for no other one but those that
/// it shares a stream with. Returns NCCL's first result that was none of success. A failure of this
/// library ends the communicators of the calls, and is thrown.
int runRounds(const zipcclNcclApi& api, std::span<const RoundCall> calls);

}  // namespace zipccl::collectives
