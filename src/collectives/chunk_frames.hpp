// SPDX-License-Identifier: Apache-2.0
//
// The frames of one message or shard: which elements its chunks hold, and what sender and receivers
// agree on for the frame of each.

#pragma once

#include <cstdint>

#include "collectives/datatype.hpp"
#include "policy/decide.hpp"
#include "policy/facts.hpp"
#include "zipccl/codec.hpp"

namespace zipccl::collectives {

/// One chunk of a staged message.
struct ChunkFrame {
  std::uint64_t firstElement = 0;
  std::uint64_t sourceBytes = 0;  ///< of its elements, uncompressed
  codec::FrameSpec spec;
  std::uint64_t staticBytes = 0;

  /// Whole tiles, as statistics count them.
  [[nodiscard]] std::uint64_t tileCount(const policy::FrameGeometry& geometry) const noexcept {
    return spec.elementCount / geometry.tileElements;
  }
};

/// Chunk number `chunk` of `elementCount` elements of a datatype that has frames, as `decision`,
/// made on `facts`, cuts them. A chunk behind the end of a message that is shorter than the
/// decision was made for is empty.
[[nodiscard]] ChunkFrame chunkFrame(Datatype datatype, const policy::CallFacts& facts,
                                    const policy::Decision& decision, std::uint64_t elementCount,
                                    std::uint64_t chunk);

}  // namespace zipccl::collectives
