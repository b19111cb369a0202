// SPDX-License-Identifier: Apache-2.0
//
// How long a call takes, by strategy. Plain arithmetic on doubles, without library functions: the
// same inputs give the same bits on every rank, so the comparison of two predictions is an agreed
// fact.

#pragma once

#include <cstdint>

#include "policy/chunks.hpp"
#include "policy/facts.hpp"
#include "policy/profile.hpp"

namespace zipccl::policy {

/// Time of a native collective in which every rank gives `bytesPerRank`: the points of `link`,
/// straight lines between them, the first time below the first point, the last slope above the last
/// point. Never falls as bytes rise. `link` must have two points at least.
[[nodiscard]] double linkUs(const LinkProfile& link, std::uint64_t bytesPerRank) noexcept;

/// A native all-gather of the call's elements.
[[nodiscard]] double nativeAllGatherUs(const CallFacts& call, const Profile& profile) noexcept;

/// A staged all-gather in the chunks of `plan`, one after the other: encode, gather static parts,
/// and decode those of all other ranks. Dynamic parts are expected to be empty, which the pool sees
/// to.
[[nodiscard]] double stagedAllGatherUs(const CallFacts& call, const Profile& profile,
                                       const ChunkPlan& plan, FrameLayout layout,
                                       const ClassStatistics& statistics) noexcept;

}  // namespace zipccl::policy
