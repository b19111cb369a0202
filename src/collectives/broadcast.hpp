// SPDX-License-Identifier: Apache-2.0
//
// Broadcast: the elements of one rank for all, bit for bit.

#pragma once

#include <cstdint>

#include "collectives/communicator.hpp"
#include "collectives/datatype.hpp"
#include "transport/transport.hpp"

namespace zipccl::collectives {

/// `send` holds `elementCount` elements and counts on `root` only; `receive` gets as many on all
/// ranks; in place where they are equal.
struct BroadcastArguments {
  const void* send = nullptr;
  void* receive = nullptr;
  std::uint64_t elementCount = 0;
  Datatype datatype = Datatype::kBfloat16;
  int root = 0;
  transport::StreamHandle stream;
};

/// Throws Error(kInvalidArgument), naming value and expectation, for a null buffer, sizes beyond
/// the address space, buffers of the root that overlap but for the in-place form, a root that does
/// not exist.
void check(const BroadcastArguments& arguments, int rank, int rankCount);

/// Runs the collective. Native, or staged: the root encodes each chunk once and broadcasts its
/// static part, whose header tells all ranks whether to broadcast a dynamic part too.
CallOutcome run(Engine& engine, const BroadcastArguments& arguments);

}  // namespace zipccl::collectives
