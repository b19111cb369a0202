// SPDX-License-Identifier: Apache-2.0
//
// One ReduceScatter or AllReduce whose result is compared, bit for bit, with the reference.

#pragma once

#include <cstdint>
#include <vector>

#include "collectives/communicator.hpp"
#include "collectives/reduction.hpp"
#include "tensors.hpp"

namespace zipccl::collectives::testing {

struct ReduceCase {
  bool isAllReduce = false;
  Datatype datatype = Datatype::kBfloat16;
  Reduction reduction = {};
  std::uint64_t elementCount = 0;  ///< recvcount of ReduceScatter, count of AllReduce
  std::vector<Content> contents = {Content::kGaussian};  ///< of ranks 0, 1, ..., and again
  bool inPlace = false;
  std::uint64_t misalignedElements = 0;
  std::uint64_t seed = 0;

  /// What `rank` gives.
  [[nodiscard]] Shard input(int rank, int rankCount) const;
};

/// The reduced elements of all inputs: the ranks' parts of a ReduceScatter one after the other.
[[nodiscard]] Shard expectedResult(const ReduceCase& test, int rankCount);

/// Makes the call on this rank, with poisoned output between guards, and adds a failure to the
/// running test for a wrong bit, a changed input or a write elsewhere. Throws what the call throws.
void checkReduce(Communicator& communicator, const ReduceCase& test, const Shard& expected);

}  // namespace zipccl::collectives::testing
