// SPDX-License-Identifier: Apache-2.0
//
// What a call over NCCL is cut into: items, each of which is done with in one round, and lanes,
// which are items in an order that both ends of a message share.

#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "collectives/chunk_frames.hpp"
#include "collectives/frame_check.hpp"
#include "collectives/stream_codec.hpp"
#include "transport/nccl_link.hpp"
#include "transport/transport.hpp"

namespace zipccl::collectives {

class NcclCommunicator;

/// A frame that this rank makes or gets in a round.
struct RoundFrame {
  ChunkFrame chunk;
  FramePlace place;
  int maker = 0;                  ///< rank whose frame it is
  const std::byte* at = nullptr;  ///< its static part, once it is made or has come
  FrameReport report;             ///< known after the round; until then as if nothing was dynamic
};

/// One round's part of a lane. A native item may outlive its lane, a staged one does not. The
/// functions are called in the order in which they stand here; all
/// but learnt() put work on streams and return at once.
class RoundItem {
 public:
  RoundItem() = default;
  RoundItem(const RoundItem&) = delete;
  RoundItem& operator=(const RoundItem&) = delete;
  virtual ~RoundItem() = default;

  /// Scratch that the item needs until two rounds later.
  [[nodiscard]] virtual std::uint64_t scratchBytes() const { return 0; }
  virtual void place(std::span<std::byte> /*scratch*/) {}

  /// Adds the frames that this rank makes; copies of its own elements go to the codec's stream.
  virtual void addEncodes(NcclCommunicator& /*communicator*/, std::vector<EncodeJob>& /*jobs*/) {}

  /// What both sides know the size of, inside a group of NCCL. Returns NCCL's result for a call
  /// that goes as it is; throws Error for others.
  [[nodiscard]] virtual int startStatic(transport::NcclLink* link) = 0;

  /// Decodes what has come. Before learnt() it is taken for granted that there are no dynamic
  /// parts; where there are some it is done again afterwards.
  virtual void decode(StreamCodec& /*codec*/, transport::StreamHandle /*stream*/,
                      std::uint32_t* /*status*/) {}

  /// All reports are known and sound.
  virtual void learnt() {}

  /// What the headers tell of, inside a group.
  virtual void startDynamic(transport::NcclLink& /*link*/) {}

  [[nodiscard]] bool isStaged() const noexcept { return !frames.empty(); }
  [[nodiscard]] bool hasDynamicPart() const noexcept {
    return std::any_of(frames.begin(), frames.end(),
                       [](const RoundFrame& frame) { return frame.report.dynamicBytes != 0; });
  }

  std::vector<RoundFrame> frames;  ///< whose headers matter; none in a native item
  transport::StreamHandle stream;  ///< the caller's
  bool isLast = true;              ///< of its message or call
};

/// Items of one call, or of the messages of one pair and direction, in their order.
///
/// Both ends of a pair start the parts of their messages in one order: within a message the dynamic
/// part of a chunk follows the static part of the next one; at the end of a message it follows
/// directly, since the ends may group their messages differently.
class Lane {
 public:
  Lane() = default;
  Lane(const Lane&) = delete;
  Lane& operator=(const Lane&) = delete;
  virtual ~Lane() = default;

  /// Whether there is a next item, and it may start by the order above.
  [[nodiscard]] bool mayStart() const { return hasNext() && !isHeld_; }
  [[nodiscard]] bool isDone() const { return !hasNext() && inFlight_ == 0; }

  [[nodiscard]] std::unique_ptr<RoundItem> start() {
    std::unique_ptr<RoundItem> item = next();
    if (item->isStaged()) {
      ++inFlight_;
      isHeld_ = item->isLast;
    }
    return item;
  }

  /// A staged item of this lane is learnt and its dynamic parts are started.
  void finish(const RoundItem& item) {
    --inFlight_;
    if (item.isLast) isHeld_ = false;
  }

 private:
  [[nodiscard]] virtual bool hasNext() const = 0;
  [[nodiscard]] virtual std::unique_ptr<RoundItem> next() = 0;

  unsigned inFlight_ = 0;
  bool isHeld_ = false;
};

}  // namespace zipccl::collectives
