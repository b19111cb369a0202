// SPDX-License-Identifier: Apache-2.0
//
// AllGather: every rank gives a shard and gets all of them, bit for bit.

#pragma once

#include <cstdint>
#include <span>

#include "collectives/communicator.hpp"
#include "collectives/datatype.hpp"
#include "transport/transport.hpp"

namespace zipccl::collectives {

/// `send` holds this rank's `elementCount` elements; `receive` gets those of rank r at element
/// r * elementCount.
struct AllGatherArguments {
  const void* send = nullptr;
  void* receive = nullptr;
  std::uint64_t elementCount = 0;
  Datatype datatype = Datatype::kBfloat16;
  transport::StreamHandle stream;
};

/// Throws Error(kInvalidArgument), naming value and expectation, for arguments that no call can
/// have: a null buffer, sizes beyond the address space, buffers that overlap but for the in-place
/// form.
void check(const AllGatherArguments& arguments, int rank, int rankCount);

/// Runs the collective: native, or staged as a FrameGather.
CallOutcome run(Engine& engine, const AllGatherArguments& arguments);

/// Parts of `buffer` that each rank has of its own: rank r has elements firstElement[r] to
/// firstElement[r + 1], the first rank a largest part.
struct PartsToGather {
  CollectiveKind collective = CollectiveKind::kAllGather;  ///< whose statistics count
  void* buffer = nullptr;
  std::span<const std::uint64_t> firstElement;  ///< of each rank, and the end
  Datatype datatype = Datatype::kBfloat16;
  transport::StreamHandle stream;
};

/// Gives all ranks all parts, as `strategy` says; with kStaged the datatype has frames.
CallOutcome gatherParts(Engine& engine, const PartsToGather& parts, policy::Strategy strategy);

}  // namespace zipccl::collectives
