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

/// How many times as fast as the link makes an all-gather of large messages the codec encodes one
/// frame and decodes those of all other ranks. `profile` must be usable.
[[nodiscard]] double codecLead(const Profile& profile, int rankCount) noexcept;

/// The call done natively.
[[nodiscard]] double nativeUs(const CallFacts& call, const Profile& profile) noexcept;

/// The call done staged in the chunks of `plan`: encode, send static parts, and decode what comes,
/// and what it costs besides.
/// Dynamic parts are expected to be empty, which the pool sees to. Of each chunk but the first, the
/// transfer or the codec's work, whichever is shorter, is hidden behind the other of its neighbours
/// as far as the profile says that the link works by itself; of a gather only where the plan has
/// several chunks in flight.
[[nodiscard]] double stagedUs(const CallFacts& call, const Profile& profile, const ChunkPlan& plan,
                              FrameLayout layout, const ClassStatistics& statistics) noexcept;

}  // namespace zipccl::policy
