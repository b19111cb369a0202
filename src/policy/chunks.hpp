// SPDX-License-Identifier: Apache-2.0
//
// Sizes of a staged call: how many elements go in one frame, and how large its pool is. All of it
// follows from agreed facts, in integers.

#pragma once

#include <cstdint>

#include "policy/facts.hpp"

namespace zipccl::policy {

/// How a contribution of `elementCount` elements is cut: `chunkCount - 1` chunks of `chunkElements`
/// and a last one with the rest, which is not empty. No chunks when not one group of tiles fits the
/// scratch.
struct ChunkPlan {
  std::uint64_t chunkElements = 0;
  std::uint64_t chunkCount = 0;

  friend bool operator==(const ChunkPlan&, const ChunkPlan&) = default;
};

/// Bytes that suffice for a frame of `elementCount` elements, whatever they are.
[[nodiscard]] std::uint64_t frameBoundBytes(const FrameGeometry& geometry,
                                            std::uint64_t elementCount) noexcept;

/// The chunks of an all-gather: the fewest, of about equal size, such that one own frame and one
/// frame of each rank fit in `maxScratchBytes` even if nothing compresses.
[[nodiscard]] ChunkPlan planAllGatherChunks(const FrameGeometry& geometry, int rankCount,
                                            std::uint64_t maxScratchBytes,
                                            std::uint64_t elementCount) noexcept;

/// The pool of a frame of `elementCount` elements: what the most demanding of the recent calls
/// needed and a margin of 1/64, or the default when nothing was observed; within what a frame may
/// have.
[[nodiscard]] std::uint64_t poolBytes(const FrameGeometry& geometry, FrameLayout layout,
                                      const ClassStatistics& statistics,
                                      std::uint64_t elementCount) noexcept;

/// The static part of that frame, at most.
[[nodiscard]] std::uint64_t staticBoundBytes(const FrameGeometry& geometry, FrameLayout layout,
                                             const ClassStatistics& statistics,
                                             std::uint64_t elementCount) noexcept;

}  // namespace zipccl::policy
