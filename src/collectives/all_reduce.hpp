// SPDX-License-Identifier: Apache-2.0
//
// AllReduce: the elements of all ranks, reduced, for all ranks.

#pragma once

#include <cstdint>

#include "collectives/communicator.hpp"
#include "collectives/datatype.hpp"
#include "collectives/reduction.hpp"
#include "transport/transport.hpp"

namespace zipccl::collectives {

/// `send` holds `elementCount` elements, `receive` gets as many; in place where they are equal.
struct AllReduceArguments {
  const void* send = nullptr;
  void* receive = nullptr;
  std::uint64_t elementCount = 0;
  Datatype datatype = Datatype::kBfloat16;
  Reduction reduction;
  transport::StreamHandle stream;
};

/// Throws Error(kInvalidArgument), naming value and expectation, for a null buffer, sizes beyond
/// the address space, buffers that overlap but for the in-place form, a datatype that cannot be
/// reduced.
void check(const AllReduceArguments& arguments, int rank, int rankCount);

/// A reduce-scatter of about equal parts, then an all-gather of them, both native or both staged.
/// All ranks get the same bits, since one rank makes each.
CallOutcome run(Engine& engine, const AllReduceArguments& arguments);

}  // namespace zipccl::collectives
