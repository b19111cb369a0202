// SPDX-License-Identifier: Apache-2.0
//
// One Broadcast, Gather or Scatter whose result is compared, bit for bit, with what was sent.

#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "collectives/communicator.hpp"
#include "tensors.hpp"

namespace zipccl::collectives::testing {

enum class Rooted { kBroadcast, kGather, kScatter };
inline constexpr Rooted kAllRooted[] = {Rooted::kBroadcast, Rooted::kGather, Rooted::kScatter};

[[nodiscard]] std::string_view rootedName(Rooted kind) noexcept;

struct RootedCase {
  Rooted kind = Rooted::kBroadcast;
  Datatype datatype = Datatype::kBfloat16;
  std::uint64_t elementCount = 0;
  int root = 0;
  std::vector<Content> contents = {Content::kGaussian};  ///< of ranks 0, 1, ..., and again
  bool inPlace = false;
  std::uint64_t misalignedElements = 0;
  std::uint64_t seed = 0;
};

/// Makes the call on this rank, with poisoned output between guards, and adds a failure to the
/// running test for a wrong bit, a changed input or a write elsewhere. Throws what the call throws.
void checkRooted(Communicator& communicator, const RootedCase& test);

}  // namespace zipccl::collectives::testing
