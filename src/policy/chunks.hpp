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
  std::uint64_t chunksInFlight = 1;  ///< for which there is room in the scratch at a time

  friend bool operator==(const ChunkPlan&, const ChunkPlan&) = default;
};

/// Bytes that suffice for a frame of `elementCount` elements, whatever they are.
[[nodiscard]] std::uint64_t frameBoundBytes(const FrameGeometry& geometry,
                                            std::uint64_t elementCount) noexcept;

/// Frames that a rank holds for each peer in an exchange between pairs: two that it sends and two
/// that it receives, so that one of each is in the codec while the other travels.
inline constexpr std::uint64_t kFramesOfPair = 4;

/// Frames that a staged call holds at a time, or as many bytes, for each chunk in flight where all
/// ranks get the frames: one for each part and an own one; for an exchange between pairs
/// altogether; for messages that go whole, one to and one from each peer; for an exchange whose
/// frames are then reduced, with what that needs besides.
[[nodiscard]] std::uint64_t framesOfAllGather(int rankCount) noexcept;
[[nodiscard]] std::uint64_t framesOfExchange(int rankCount) noexcept;
[[nodiscard]] std::uint64_t framesOfMessages(int rankCount) noexcept;
[[nodiscard]] std::uint64_t framesOfReduction(int rankCount) noexcept;

/// The chunks of a contribution, or of one message of a pair, in a call of `collective`: as few as
/// let the frames above fit in `maxScratchBytes` even if nothing compresses, of about equal size,
/// and more of them where that lets encoding, transfer and decoding overlap.
[[nodiscard]] ChunkPlan planChunks(CollectiveKind collective, const FrameGeometry& geometry,
                                   int rankCount, std::uint64_t maxScratchBytes,
                                   std::uint64_t elementCount,
                                   const OverlapGoal& overlap = {}) noexcept;

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
