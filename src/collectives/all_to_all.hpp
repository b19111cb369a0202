// SPDX-License-Identifier: Apache-2.0
//
// AlltoAll and AlltoAllv: every rank gives every rank a part of its own, bit for bit.

#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "collectives/communicator.hpp"
#include "collectives/datatype.hpp"
#include "transport/transport.hpp"

namespace zipccl::collectives {

/// `send` holds `elementCount` elements for each rank, `receive` gets as many from each, both in
/// rank order.
struct AllToAllArguments {
  const void* send = nullptr;
  void* receive = nullptr;
  std::uint64_t elementCount = 0;  ///< of one part
  Datatype datatype = Datatype::kBfloat16;
  transport::StreamHandle stream;
};

/// The same with parts of any size: rank r is sent sendCounts[r] elements from element
/// sendOffsets[r] of `send`; what it sends goes to element receiveOffsets[r] of `receive`.
struct AllToAllvArguments {
  const void* send = nullptr;
  std::vector<std::size_t> sendCounts;
  std::vector<std::size_t> sendOffsets;
  void* receive = nullptr;
  std::vector<std::size_t> receiveCounts;
  std::vector<std::size_t> receiveOffsets;
  Datatype datatype = Datatype::kBfloat16;
  transport::StreamHandle stream;
};

/// Throw Error(kInvalidArgument), naming value and expectation, for a null buffer, sizes beyond the
/// address space, buffers that overlap.
void check(const AllToAllArguments& arguments, int rank, int rankCount);
void check(const AllToAllvArguments& arguments, int rank, int rankCount);

/// Run the collective, as a PairExchange in which each ordered pair of ranks decides for itself.
CallOutcome run(Engine& engine, const AllToAllArguments& arguments);
CallOutcome run(Engine& engine, const AllToAllvArguments& arguments);

}  // namespace zipccl::collectives
