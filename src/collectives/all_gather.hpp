// SPDX-License-Identifier: Apache-2.0
//
// AllGather: every rank gives a shard and gets all of them, bit for bit.

#pragma once

#include <cstdint>

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

/// Runs the collective. Native, or staged: chunk after chunk, each rank encodes its own elements
/// once, all gather the static parts, which are of equal size; from their headers each learns
/// everybody's dynamic bytes, and only where there are any they gather these too, padded to the
/// largest; then each decodes the others' frames. Throws Error(kRemoteError) when a frame is
/// damaged, and names rank and status.
CallOutcome allGather(Engine& engine, const AllGatherArguments& arguments);

}  // namespace zipccl::collectives
