// SPDX-License-Identifier: Apache-2.0
//
// The chunks of a message and their frames.

#include "collectives/chunk_frames.hpp"

#include <algorithm>

#include "policy/chunks.hpp"

namespace zipccl::collectives {

ChunkFrame chunkFrame(Datatype datatype, const policy::CallFacts& facts,
                      const policy::Decision& decision, std::uint64_t elementCount,
                      std::uint64_t chunk) {
  ChunkFrame frame;
  frame.firstElement = std::min(chunk * decision.chunkElements, elementCount);
  const std::uint64_t count = std::min(decision.chunkElements, elementCount - frame.firstElement);
  frame.sourceBytes = count * facts.geometry.elementBytes;
  frame.spec.datatype = *codedDatatype(datatype);
  frame.spec.layout =
      decision.layout == policy::FrameLayout::kWide ? codec::Layout::kWide : codec::Layout::kNarrow;
  frame.spec.elementCount = count;
  frame.spec.poolBytes =
      policy::poolBytes(facts.geometry, decision.layout, facts.statistics, count);
  frame.spec.checksum = facts.settings.checksum;
  frame.staticBytes = codec::staticBytes(frame.spec);
  return frame;
}

}  // namespace zipccl::collectives
