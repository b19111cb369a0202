// SPDX-License-Identifier: Apache-2.0
//
// Exchanges between pairs of ranks whose results are compared, bit for bit, with what was sent: by
// AlltoAll, by AlltoAllv, and by a group of Send and Recv.

#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "collectives/communicator.hpp"
#include "tensors.hpp"

namespace zipccl::collectives::testing {

enum class Way { kAllToAll, kAllToAllv, kGroup };
inline constexpr Way kAllWays[] = {Way::kAllToAll, Way::kAllToAllv, Way::kGroup};

[[nodiscard]] std::string_view wayName(Way way) noexcept;

struct PairCase {
  Way way = Way::kAllToAll;
  Datatype datatype = Datatype::kBfloat16;
  std::uint64_t elementCount = 0;                        ///< of every part, unless counts are given
  std::vector<std::vector<std::uint64_t>> counts = {};   ///< counts[i][j]: from rank i to rank j
  std::vector<Content> contents = {Content::kGaussian};  ///< of senders 0, 1, ..., and again
  std::uint64_t misalignedElements = 0;
  std::uint64_t seed = 0;

  [[nodiscard]] std::uint64_t count(int from, int to) const {
    return counts.empty() ? elementCount
                          : counts[static_cast<std::size_t>(from)][static_cast<std::size_t>(to)];
  }
  /// What rank `from` sends to rank `to`.
  [[nodiscard]] Shard part(int from, int to) const;
};

/// Makes the call on this rank, with poisoned output between guards, and adds a failure to the
/// running test for every wrong part, a changed input or a write elsewhere. Throws what the call
/// throws.
void checkPairs(Communicator& communicator, const PairCase& test);

}  // namespace zipccl::collectives::testing
