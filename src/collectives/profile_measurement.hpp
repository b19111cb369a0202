// SPDX-License-Identifier: Apache-2.0
//
// Measures what the policy must know of codec and link, at the creation of a communicator whose
// ranks brought no profile.

#pragma once

#include "collectives/frame_codec.hpp"
#include "policy/profile.hpp"
#include "transport/transport.hpp"

namespace zipccl::collectives {

/// Times the codec on a Gaussian sample, all ranks at once, the transport's all-gather and an
/// exchange with all at a few sizes, two at least, and how far either goes on while the ranks
/// encode. All of it has one budget of a quarter of a second, which two sizes of each may exceed
/// where the link is slower than 1 MB/s or its latency above some milliseconds. Collective; every
/// rank gets the same profile, in which each figure is the slowest rank's. Not usable, on all
/// ranks, where `maxScratchBytes` leaves no room. Throws Error(kInternalError) where the codec
/// cannot read its own frame.
[[nodiscard]] policy::Profile measureProfile(transport::Transport& transport, FrameCodec& codec,
                                             std::uint64_t maxScratchBytes);

}  // namespace zipccl::collectives
