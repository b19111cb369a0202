// SPDX-License-Identifier: Apache-2.0
//
// ReduceScatter: every rank gives a part for every rank; each gets its parts of all ranks, reduced.

#pragma once

#include <cstdint>
#include <span>

#include "collectives/communicator.hpp"
#include "collectives/datatype.hpp"
#include "collectives/reduction.hpp"
#include "transport/transport.hpp"

namespace zipccl::collectives {

/// `send` holds `elementCount` elements for each rank, in rank order; `receive` gets as many.
struct ReduceScatterArguments {
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
void check(const ReduceScatterArguments& arguments, int rank, int rankCount);

/// Runs the collective by the arithmetic of reduction.hpp, native or staged with the same bits.
/// Staged: a PairExchange of the parts; as soon as the same chunk of all ranks is there, all are
/// decoded and added in rank order, this rank's own among them.
CallOutcome run(Engine& engine, const ReduceScatterArguments& arguments);

/// A reduce-scatter of parts of any size, for collectives that are made of one: rank r gets
/// elements firstElement[r] to firstElement[r + 1] of `send`, reduced, which come to `receive`;
/// this may be its part of `send`.
struct ReduceParts {
  CollectiveKind collective = CollectiveKind::kReduceScatter;
  const void* send = nullptr;
  std::span<const std::uint64_t> firstElement;  ///< of each rank, and the end
  void* receive = nullptr;
  Datatype datatype = Datatype::kBfloat16;
  Reduction reduction;
  transport::StreamHandle stream;
};

/// Reduces as `strategy` says; with kStaged the datatype has frames, and the reduction is a scaled
/// sum.
CallOutcome reduceParts(Engine& engine, const ReduceParts& parts, policy::Strategy strategy);

/// Notes in the outcome what was decided, and in the class of the call how it went, where that may
/// matter for later calls: on two ranks, which both have seen all frames. Above, no rank has, and
/// the decision comes from a table.
void endReduction(const Engine::Plan& plan, CallOutcome& outcome);

/// Throws Error(kInvalidArgument) for a datatype that cannot be reduced.
void checkReduction(const Reduction& reduction, Datatype datatype);

}  // namespace zipccl::collectives
