// SPDX-License-Identifier: Apache-2.0
//
// Gather and Scatter: parts of all ranks to one rank, and back, bit for bit.

#pragma once

#include <cstdint>

#include "collectives/communicator.hpp"
#include "collectives/datatype.hpp"
#include "transport/transport.hpp"

namespace zipccl::collectives {

/// `send` holds this rank's `elementCount` elements; `receive`, which counts on `root` only, gets
/// those of rank r at element r * elementCount.
struct GatherArguments {
  const void* send = nullptr;
  void* receive = nullptr;
  std::uint64_t elementCount = 0;
  Datatype datatype = Datatype::kBfloat16;
  int root = 0;
  transport::StreamHandle stream;
};

/// `send`, which counts on `root` only, holds at element r * elementCount what rank r gets in
/// `receive`.
struct ScatterArguments {
  const void* send = nullptr;
  void* receive = nullptr;
  std::uint64_t elementCount = 0;
  Datatype datatype = Datatype::kBfloat16;
  int root = 0;
  transport::StreamHandle stream;
};

/// Throw Error(kInvalidArgument), naming value and expectation, for a null buffer, sizes beyond the
/// address space, buffers of the root that overlap but for the in-place form, a root that does not
/// exist.
void check(const GatherArguments& arguments, int rank, int rankCount);
void check(const ScatterArguments& arguments, int rank, int rankCount);

/// Run the collective, as a PairExchange in which each ordered pair of ranks decides for itself.
CallOutcome run(Engine& engine, const GatherArguments& arguments);
CallOutcome run(Engine& engine, const ScatterArguments& arguments);

}  // namespace zipccl::collectives
