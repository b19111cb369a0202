// SPDX-License-Identifier: Apache-2.0
//
// What a call over NCCL is cut into: items, each of which is done with in one round, and lanes,
// which are items in an order that both ends of a message share.

#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "collectives/chunk_frames.hpp"
#include "collectives/dynamic_courier.hpp"
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
  int maker = 0;                            ///< rank whose frame it is
  std::vector<int> readers;                 ///< of a frame of this rank: who needs its dynamic part
  std::shared_ptr<FrameObserver> observer;  ///< hears of the header
  const std::byte* at = nullptr;            ///< its static part, once it is made or has come
  const std::byte* made = nullptr;          ///< of a frame of this rank: where it was made
  std::byte* dynamic = nullptr;             ///< where a dynamic part stands, or comes to
  std::uint64_t dynamicRoom = 0;
};

/// One round's part of a lane. A native item may outlive its lane, a staged one does not. The
/// functions are called in the order in which they stand here; all put work on streams and return
/// at once.
class RoundItem {
 public:
  RoundItem() = default;
  RoundItem(const RoundItem&) = delete;
  RoundItem& operator=(const RoundItem&) = delete;
  virtual ~RoundItem() = default;

  /// Scratch that the item needs until two rounds later.
  [[nodiscard]] virtual std::uint64_t scratchBytes() const { return 0; }
  virtual void place(std::span<std::byte> /*scratch*/) {}

  /// Adds the frames that this rank sends.
  virtual void addEncodes(std::vector<EncodeJob>& /*jobs*/) {}

  /// What both sides know the size of, inside a group of NCCL. Returns NCCL's result for a call
  /// that goes as it is; throws Error for others.
  [[nodiscard]] virtual int startStatic(transport::NcclLink* link) = 0;

  /// What this rank does with its own elements, on the codec's stream, while the frames travel.
  virtual void prepareOwn(NcclCommunicator& /*communicator*/) {}

  /// Decodes what has come, dynamic parts and all. `status` collects faults.
  virtual void decode(StreamCodec& /*codec*/, transport::StreamHandle /*stream*/,
                      std::uint32_t* /*status*/) {}

  [[nodiscard]] bool isStaged() const noexcept { return !frames.empty(); }

  std::vector<RoundFrame> frames;  ///< whose headers matter; none in a native item
  transport::StreamHandle stream;  ///< the caller's
  bool isLast = true;              ///< of its message or call
};

/// Items of one call, or of the messages of one pair and direction, in their order, which both ends
/// of a pair share. A round has one staged item of a lane, and the next has none before that is on
/// its streams where it ended a message: only then may anyone wait for what its headers say. But a
/// lane may let messages join a round that do not depend on each other's headers.
class Lane {
 public:
  Lane() = default;
  Lane(const Lane&) = delete;
  Lane& operator=(const Lane&) = delete;
  virtual ~Lane() = default;

  /// Whether there is a next item, and it belongs to the round that is being put together.
  [[nodiscard]] bool mayStart() const {
    return hasNext() && (isInRound_ ? joins(inFlight_) : !isHeld_);
  }
  /// Whether what the next item is decided on is known. If not, it will be: ask again, and leave no
  /// item out of the round for it.
  [[nodiscard]] bool isReady() const { return isNextKnown(); }
  [[nodiscard]] bool isDone() const { return !hasNext() && inFlight_ == 0; }

  /// The next item, which may start and is ready.
  [[nodiscard]] std::unique_ptr<RoundItem> start() {
    std::unique_ptr<RoundItem> item = next();
    if (item->isStaged()) {
      ++inFlight_;
      isHeld_ = item->isLast;
      isInRound_ = true;
    }
    return item;
  }

  /// The round is complete.
  void closeRound() noexcept { isInRound_ = false; }

  /// All of a staged item of this lane is on its streams.
  void finish(const RoundItem& item) {
    --inFlight_;
    if (item.isLast && inFlight_ == 0) isHeld_ = false;
  }

 private:
  [[nodiscard]] virtual bool hasNext() const = 0;
  [[nodiscard]] virtual std::unique_ptr<RoundItem> next() = 0;
  [[nodiscard]] virtual bool isNextKnown() const { return true; }
  /// Whether the next item may join a round, where `inFlight` staged items are not on their streams
  /// yet. Not a matter of time: what is left out of a round waits for that to end, and other ranks
  /// may wait for it.
  [[nodiscard]] virtual bool joins(std::uint64_t /*inFlight*/) const { return false; }

  std::uint64_t inFlight_ = 0;
  bool isHeld_ = false;
  bool isInRound_ = false;  ///< whether the round that is being put together has a staged one
};

}  // namespace zipccl::collectives
