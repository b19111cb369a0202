// SPDX-License-Identifier: Apache-2.0
//
// One AllGather whose result is compared, bit for bit, with the shards it was made of.

#pragma once

#include <cstdint>
#include <vector>

#include "collectives/communicator.hpp"
#include "tensors.hpp"

namespace zipccl::collectives::testing {

struct AllGatherCase {
  Datatype datatype = Datatype::kBfloat16;
  std::uint64_t elementCount = 0;
  std::vector<Content> contents = {
      Content::kGaussian};  ///< of ranks 0, 1, ..., again from the start
  bool inPlace = false;
  std::uint64_t misalignedElements = 0;  ///< how far the buffers are off a multiple of 64 bytes
  std::uint64_t seed = 0;

  [[nodiscard]] Content contentOf(int rank) const {
    return contents[static_cast<std::size_t>(rank) % contents.size()];
  }
};

/// The shards of all ranks, in rank order.
[[nodiscard]] std::vector<Shard> makeShards(const AllGatherCase& test, int rankCount);

/// Makes the call on this rank, with poisoned output between guards, and adds a failure to the
/// running test for every wrong shard, a changed input or a broken guard. Throws what the call
/// throws.
void checkAllGather(Communicator& communicator, const AllGatherCase& test,
                    const std::vector<Shard>& shards);

}  // namespace zipccl::collectives::testing
