// SPDX-License-Identifier: Apache-2.0
//
// Frames that all ranks get: what AllGather, Broadcast and the second half of AllReduce are made
// of.

#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "collectives/chunk_frames.hpp"
#include "collectives/communicator.hpp"
#include "collectives/datatype.hpp"
#include "transport/transport.hpp"

namespace zipccl::collectives {

/// Parts of all ranks, or one of `root`, for all ranks.
struct GatherCall {
  const void* source = nullptr;  ///< this rank's part, where it has one; may be its place in target
  void* target = nullptr;        ///< of all parts, one after the other
  std::span<const std::uint64_t> firstElement;  ///< of each part in `target`, and the end
  Datatype datatype = Datatype::kBfloat16;
  std::optional<int> root;  ///< the rank whose part it is, where there is only one
  transport::StreamHandle stream;
};

/// Bytes in which a frame of a chunk stands, and to which padded parts of frames must fit together.
[[nodiscard]] std::uint64_t frameSlotBytes(const Engine::Plan& plan);

/// A staged call. Chunk after chunk, each rank with a part encodes its own elements once, and all
/// get the static parts, which are padded to one size that all know; from their headers each learns
/// everybody's dynamic bytes, and only where there are any they are moved too, padded to the
/// largest; then each decodes the others' frames. Where the plan has n chunks in flight, those
/// up to k + n - 1 are encoded and on their way before chunk k is decoded, on all ranks in one
/// order: static part k + n - 1, then dynamic part k.
class FrameGather {
 public:
  /// `plan` and what `call` refers to must stay.
  FrameGather(Engine& engine, const GatherCall& call, const Engine::Plan& plan);

  /// Throws Error(kRemoteError) for a damaged frame and Error(kInvalidUsage) when a rank is in
  /// another call.
  CallOutcome run();

  /// What the frames of all ranks needed: the same on all ranks.
  [[nodiscard]] const policy::ExtraSpace& extraSeen() const { return observation_.extra(); }

 private:
  /// A chunk in flight. Its scratch:
  ///
  ///   | own frame: static | dynamic ... | static parts 0, 1, ... | dynamic parts, padded ...
  ///   | 0                 staticBytes   | frameBytes_            | + parts * staticBytes
  ///
  /// A broadcast has no own frame apart: the root encodes in the place of the one part.
  struct Slot {
    std::span<std::byte> scratch;
    std::uint64_t chunk = 0;
    std::vector<ChunkFrame> frames;  ///< of each part
    std::uint64_t staticBytes = 0;   ///< of the largest frame
    std::uint64_t dynamicBytes = 0;  ///< of the largest frame
  };

  [[nodiscard]] std::size_t partCount() const noexcept { return call_.firstElement.size() - 1; }
  [[nodiscard]] int rankOf(std::size_t part) const noexcept {
    return call_.root.value_or(static_cast<int>(part));
  }
  [[nodiscard]] std::uint64_t elementsOf(std::size_t part) const noexcept {
    return call_.firstElement[part + 1] - call_.firstElement[part];
  }
  [[nodiscard]] std::optional<std::size_t> ownPart() const noexcept;
  [[nodiscard]] std::byte* ownFrame(const Slot& slot) const noexcept;
  [[nodiscard]] std::byte* staticParts(const Slot& slot) const noexcept;
  [[nodiscard]] std::byte* dynamicParts(const Slot& slot) const noexcept;
  [[nodiscard]] FrameParts frameOf(const Slot& slot, std::size_t part) const;
  [[nodiscard]] std::span<std::byte> output(const Slot& slot, std::size_t part) const;
  [[nodiscard]] Slot& slotOf(std::uint64_t chunk) noexcept { return slots_[chunk % slots_.size()]; }

  void start(std::uint64_t chunk);
  void encodeOwn(Slot& slot);
  void finish(std::uint64_t chunk);
  void readReports(Slot& slot);
  void moveDynamicParts(Slot& slot);
  void decodeOthers(const Slot& slot);
  void poll();

  Engine& engine_;
  const GatherCall& call_;
  const policy::CallFacts& facts_;
  const policy::Decision& decision_;
  std::uint64_t frameBytes_;
  std::vector<Slot> slots_;
  policy::CallObservation observation_;
  CallOutcome outcome_;
};

}  // namespace zipccl::collectives
