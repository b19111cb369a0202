// SPDX-License-Identifier: Apache-2.0
//
// Messages between pairs of ranks, each native or staged as its pair decides: the exchange that all
// collectives but AllGather and Broadcast are made of.

#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/collective_kind.hpp"
#include "collectives/chunk_frames.hpp"
#include "collectives/communicator.hpp"
#include "collectives/datatype.hpp"
#include "collectives/frame_check.hpp"
#include "transport/transport.hpp"

namespace zipccl::collectives {

/// Elements to be sent to, or received from, `peer`. Null data where there are none.
struct OutMessage {
  int peer = 0;
  const void* data = nullptr;
  std::uint64_t elementCount = 0;
  Datatype datatype = Datatype::kBfloat16;
};
struct InMessage {
  int peer = 0;
  void* data = nullptr;
  std::uint64_t elementCount = 0;
  Datatype datatype = Datatype::kBfloat16;
};

/// One exchange: any number of messages for each peer, in order, and to oneself. Messages without
/// elements are none. Both ends name the same messages of a pair in the same order, but not
/// necessarily in the same exchange.
///
/// A staged message goes in chunks. The static part of a chunk is sent at once, since both ends
/// know its size; its header tells the receiver whether a dynamic part follows. Each pair of ranks
/// goes its own way: one whose peer is late holds up nobody else. Of each pair and direction up to
/// two chunks are in flight, so that encoding, transfer and decoding overlap.
///
/// Both ends start the parts of a pair in one order: within a message the dynamic part of a chunk
/// follows the static part of the next one, so that this can be on its way before it is known
/// whether there is a dynamic part; at the end of a message it follows directly, since the ends may
/// group their messages differently.
class PairExchange {
 public:
  /// The spans must stay until run() returns. `strategy` replaces the agreed one where a collective
  /// decides for all of its pairs.
  PairExchange(Engine& engine, CollectiveKind collective, std::span<const OutMessage> sends,
               std::span<const InMessage> receives, transport::StreamHandle stream,
               std::optional<StrategyChoice> strategy = {});
  PairExchange(const PairExchange&) = delete;
  PairExchange& operator=(const PairExchange&) = delete;
  virtual ~PairExchange() = default;

  /// Returns when all messages are sent and received. Throws Error(kRemoteError) for a damaged
  /// frame and Error(kInvalidUsage) for ends that do not fit each other; then no buffer is touched
  /// any more once this object is gone.
  CallOutcome run();

 protected:
  /// What is in flight of one pair and direction: one chunk of a staged message, or all of a native
  /// one.
  struct Item {
    std::size_t message = 0;          ///< among those of the pair
    std::uint64_t messageNumber = 0;  ///< among all of the ordered pair of ranks
    std::uint64_t chunk = 0;
    bool isStaged = false;
    bool isLast = false;  ///< of its message
    ChunkFrame frame;     ///< staged only
    FrameReport report;   ///< staged only, once the header is known
    bool isHeaderKnown = false;
    bool isDynamicStarted = false;

    [[nodiscard]] bool hasDynamicPart() const noexcept {
      return isHeaderKnown && report.dynamicBytes != 0;
    }
    /// Whether the next item may start: see the order of parts above.
    [[nodiscard]] bool mayBeFollowed() const noexcept {
      return !isStaged || !isLast || (isHeaderKnown && (!hasDynamicPart() || isDynamicStarted));
    }
  };

  static constexpr std::uint64_t kInFlight = 2;

  /// One pair and direction.
  struct Pair {
    int peer = 0;
    bool isOut = false;
    std::size_t place = 0;              ///< among the pairs of this exchange, both directions
    std::vector<std::size_t> messages;  ///< places in sends_ or receives_
    std::array<Item, kInFlight> items;
    std::uint64_t startedCount = 0;   ///< items started
    std::uint64_t finishedCount = 0;  ///< items done with, the first of them

    // Of the message whose turn it is.
    std::size_t message = 0;
    bool hasPlan = false;
    Engine::Plan plan;
    std::uint64_t messageNumber = 0;
    std::uint64_t nextChunk = 0;

    /// What the finished items of the oldest message needed.
    std::optional<policy::CallObservation> observation;

    [[nodiscard]] bool hasNext() const noexcept { return message < messages.size(); }
    [[nodiscard]] bool mayStart() const noexcept {
      if (!hasNext() || startedCount - finishedCount == kInFlight) return false;
      return startedCount == finishedCount || items[(startedCount - 1) % kInFlight].mayBeFollowed();
    }
    [[nodiscard]] bool isDone() const noexcept {
      return !hasNext() && finishedCount == startedCount;
    }
    [[nodiscard]] Item& item(std::uint64_t number) { return items[number % kInFlight]; }
  };

  /// Whether the oldest item of an incoming pair is all there.
  [[nodiscard]] bool isOldestComplete(const Pair& pair) const;
  /// The frame of a complete staged item.
  [[nodiscard]] FrameParts frameOf(const Pair& pair, const Item& item) const;
  /// Throws Error(kRemoteError) unless `status`, of the oldest item's frame, is kOk.
  void checkFrame(Pair& pair, codec::DecodeStatus status);
  /// Marks the oldest item as done with: its slot may be used again.
  void finishOldest(Pair& pair);

  /// Takes one complete item out of the way, where there is one, and returns whether there was.
  /// Here it is decoded into its message's buffer.
  [[nodiscard]] virtual bool takeComplete();

  Engine& engine_;
  transport::StreamHandle stream_;
  std::vector<Pair> incoming_;

 private:
  [[nodiscard]] static FramePlace placeOfFrame(const Item& item);
  [[nodiscard]] std::size_t placeOf(const Pair& pair, std::uint64_t item, std::size_t part) const;
  [[nodiscard]] std::span<std::byte> slotOf(const Pair& pair, std::uint64_t item);
  [[nodiscard]] std::span<const std::byte> slotOf(const Pair& pair, std::uint64_t item) const;

  void addPairs();
  static void addToPair(std::vector<Pair>& pairs, bool isOut, int peer, std::size_t message);
  void copyOwnMessages();
  void reserveScratch();
  [[nodiscard]] std::uint64_t slotBytesNeeded() const;

  void beginMessage(Pair& pair);
  Item& beginItem(Pair& pair);
  void startSend(Pair& pair);
  void startReceive(Pair& pair);
  void startDynamicParts(Pair& pair);
  void readHeader(Pair& pair, std::uint64_t number);
  void observe(Pair& pair, const Item& item);
  [[nodiscard]] PairHistory& historyOf(const Pair& pair) const;
  [[nodiscard]] Datatype datatypeOf(const Pair& pair, std::size_t message) const;
  [[nodiscard]] std::uint64_t elementCountOf(const Pair& pair, std::size_t message) const;
  [[nodiscard]] bool isItemComplete(const Pair& pair, std::uint64_t number) const;

  void advance();
  [[nodiscard]] bool startOneSend();
  [[nodiscard]] bool isDone() const;
  void poll();

  CollectiveKind collective_;
  std::optional<StrategyChoice> strategy_;
  std::span<const OutMessage> sends_;
  std::span<const InMessage> receives_;
  std::vector<Pair> outgoing_;
  std::size_t nextSender_ = 0;
  std::uint64_t slotBytes_ = 0;
  std::span<std::byte> scratch_;
  CallOutcome outcome_;
  std::uint64_t decidedBytes_ = 0;  ///< of the message that outcome_.decision is about
  std::vector<codec::DecodeStatus> statuses_;
  std::vector<transport::Request>& requests_;  ///< of the communicator, which ends them on failure
};

}  // namespace zipccl::collectives
