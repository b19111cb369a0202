// SPDX-License-Identifier: Apache-2.0
//
// The lanes of calls over NCCL.

#include "collectives/nccl_lanes.hpp"

#include <algorithm>
#include <functional>
#include <utility>

#include "base/error.hpp"
#include "codec/layout.hpp"
#include "collectives/buffers.hpp"
#include "collectives/frame_geometry.hpp"
#include "collectives/nccl_communicator.hpp"
#include "policy/chunks.hpp"

namespace zipccl::collectives {
namespace {

using transport::NcclLink;
using transport::StreamHandle;

constexpr std::uint64_t kFrameAlignment = 128;

/// Room for a frame of a plan's chunk, at which others may follow.
std::uint64_t roomBytes(const policy::CallFacts& facts, const policy::Decision& decision) {
  // The bound leaves room for this: it holds a frame rounded up.
  return policy::frameBoundBytes(facts.geometry, decision.chunkElements) / kFrameAlignment *
         kFrameAlignment;
}

PairHistory& historyOf(NcclCommunicator& communicator, int peer, bool isOut) {
  PeerHistories& histories = communicator.peers[static_cast<std::size_t>(peer)];
  return isOut ? histories.sent : histories.received;
}

/// Collects what the frames of one message, or of one call, needed, and tells it once all have been
/// seen.
class MessageObserver final : public FrameObserver {
 public:
  using AtEnd = std::function<void(const policy::ExtraSpace& seen)>;

  MessageObserver(int rank, const policy::FrameGeometry& geometry, std::uint64_t frameCount,
                  SharedOutcome outcome, AtEnd atEnd)
      : rank_(rank),
        geometry_(geometry),
        framesLeft_(frameCount),
        outcome_(std::move(outcome)),
        observation_(geometry),
        atEnd_(std::move(atEnd)) {}

  void observe(const codec::FrameSpec& spec, const FrameReport& report, int maker) override {
    observation_.add({.layout = spec.layout == codec::Layout::kWide ? policy::FrameLayout::kWide
                                                                    : policy::FrameLayout::kNarrow,
                      .tileCount = spec.elementCount / geometry_.tileElements,
                      .extraBytes = report.extraBytes,
                      .lowTiles = report.note.lowTiles});
    outcome_->hadDynamicPart = outcome_->hadDynamicPart || report.dynamicBytes != 0;
    if (maker == rank_) {
      outcome_->encodedBytes += codec::staticBytes(spec) + report.dynamicBytes;
      outcome_->plainBytes += spec.elementCount * codec::elementBytes(spec.datatype);
    }
    if (--framesLeft_ == 0) atEnd_(observation_.extra());
  }

 private:
  int rank_;
  policy::FrameGeometry geometry_;
  std::uint64_t framesLeft_;
  SharedOutcome outcome_;
  policy::CallObservation observation_;
  AtEnd atEnd_;
};

/// A frame in `room`: its static part, and behind it as much of the rest as there may be.
FrameParts contiguousParts(const RoundFrame& frame, std::uint64_t roomBytes) {
  const std::uint64_t staticBytes = frame.chunk.staticBytes;
  return {{frame.at, staticBytes}, {frame.at + staticBytes, roomBytes - staticBytes}};
}

/// Says that a contiguous frame stands in `room`, or comes to it.
void placeFrame(RoundFrame& frame, std::span<std::byte> room, bool isMade) {
  frame.at = room.data();
  frame.made = isMade ? room.data() : nullptr;
  frame.dynamic = room.data() + frame.chunk.staticBytes;
  frame.dynamicRoom = room.size() - frame.chunk.staticBytes;
}

EncodeJob encodeJob(const RoundFrame& frame, const void* source, std::span<std::byte> room) {
  return {.spec = frame.chunk.spec,
          .source = source,
          .frame = room,
          .note = {.call = frame.place.call, .chunk = frame.place.chunk}};
}

// -------------------------------------------------------------------------------------------------

class NativeItem final : public RoundItem {
 public:
  NativeItem(const zipcclNcclApi& api, const zipcclNcclCall& call) : api_(api), call_(call) {
    stream = {call.stream};
  }
  [[nodiscard]] int startStatic(NcclLink*) override { return transport::callNative(api_, call_); }

 private:
  const zipcclNcclApi& api_;
  zipcclNcclCall call_;
};

class NativeLane final : public Lane {
 public:
  NativeLane(const zipcclNcclApi& api, const zipcclNcclCall& call) : api_(api), call_(call) {}

 private:
  [[nodiscard]] bool hasNext() const override { return !isStarted_; }
  [[nodiscard]] std::unique_ptr<RoundItem> next() override {
    isStarted_ = true;
    return std::make_unique<NativeItem>(api_, call_);
  }

  const zipcclNcclApi& api_;
  zipcclNcclCall call_;
  bool isStarted_ = false;
};

// -------------------------------------------------------------------------------------------------

class PairLane final : public Lane {
 public:
  PairLane(NcclCommunicator& communicator, CollectiveKind collective, int peer, bool isOut,
           std::vector<PairMessage> messages, SharedOutcome outcome)
      : communicator_(communicator),
        collective_(collective),
        peer_(peer),
        isOut_(isOut),
        messages_(std::move(messages)),
        outcome_(std::move(outcome)) {}

 private:
  /// Its lane may have ended when it starts.
  class NativeMessage final : public RoundItem {
   public:
    NativeMessage(int peer, bool isOut, const PairMessage& message)
        : peer_(peer), isOut_(isOut), message_(message) {
      stream = message.stream;
    }
    [[nodiscard]] int startStatic(NcclLink* link) override {
      const transport::NcclElements elements{.count = message_.elementCount,
                                             .elementBytes = message_.elementBytes,
                                             .datatype = message_.ncclDatatype};
      if (isOut_) {
        link->send(message_.source, elements, peer_, stream);
      } else {
        link->receive(message_.target, elements, peer_, stream);
      }
      return transport::kNcclSuccess;
    }

   private:
    int peer_;
    bool isOut_;
    PairMessage message_;
  };

  class Chunk final : public RoundItem {
   public:
    Chunk(PairLane& lane, const PairMessage& message, RoundFrame frame, std::uint64_t bytes)
        : lane_(lane), message_(message), bytes_(bytes) {
      frames.push_back(std::move(frame));
      stream = message.stream;
    }

    [[nodiscard]] std::uint64_t scratchBytes() const override { return bytes_; }
    void place(std::span<std::byte> scratch) override {
      room_ = scratch.first(bytes_);
      placeFrame(frames[0], room_, lane_.isOut_);
    }

    void addEncodes(std::vector<EncodeJob>& jobs) override {
      if (!lane_.isOut_) return;
      jobs.push_back(encodeJob(frames[0], bytesAt(message_.source, offsetBytes()), room_));
    }

    [[nodiscard]] int startStatic(NcclLink* link) override {
      if (lane_.isOut_) {
        link->send(room_.data(), frames[0].chunk.staticBytes, lane_.peer_, stream);
      } else {
        link->receive(room_.data(), frames[0].chunk.staticBytes, lane_.peer_, stream);
      }
      return transport::kNcclSuccess;
    }

    void decode(StreamCodec& codec, StreamHandle onStream, std::uint32_t* status) override {
      if (lane_.isOut_) return;
      const DecodeJob job{.spec = frames[0].chunk.spec,
                          .frame = contiguousParts(frames[0], bytes_),
                          .output = bytesAt(message_.target, offsetBytes()),
                          .status = status};
      codec.decode({&job, 1}, onStream);
    }

   private:
    [[nodiscard]] std::uint64_t offsetBytes() const {
      return frames[0].chunk.firstElement * message_.elementBytes;
    }

    PairLane& lane_;
    const PairMessage& message_;
    std::uint64_t bytes_;
    std::span<std::byte> room_;
  };

  [[nodiscard]] bool hasNext() const override { return message_ < messages_.size(); }

  [[nodiscard]] std::unique_ptr<RoundItem> next() override {
    const PairMessage& message = messages_[message_];
    if (!message.datatype) {
      ++message_;
      return std::make_unique<NativeMessage>(peer_, isOut_, message);
    }
    if (!hasPlan_) begin(message);
    if (plan_.decision.strategy == policy::Strategy::kNative) {
      history().endNative(number_);
      hasPlan_ = false;
      ++message_;
      return std::make_unique<NativeMessage>(peer_, isOut_, message);
    }
    if (nativeForm_) {
      // Its first chunk joins the round, and nothing is decoded before all of that has arrived.
      return std::make_unique<NativeMessage>(peer_, isOut_,
                                             *std::exchange(nativeForm_, std::nullopt));
    }
    RoundFrame frame;
    frame.chunk = chunkFrame(*message.datatype, plan_.facts, plan_.decision, message.elementCount,
                             nextChunk_);
    frame.place = {.call = number_, .chunk = nextChunk_, .unit = "message"};
    frame.maker = isOut_ ? communicator_.rank() : peer_;
    if (isOut_) frame.readers = {peer_};
    frame.observer = observer_;
    auto item = std::make_unique<Chunk>(*this, message, std::move(frame),
                                        roomBytes(plan_.facts, plan_.decision));
    ++outcome_->chunks;
    item->isLast = ++nextChunk_ == plan_.decision.chunkCount;
    if (item->isLast) {
      ++message_;
      hasPlan_ = false;
    }
    return item;
  }

  [[nodiscard]] bool joins(std::uint64_t inFlight) const override {
    if (collective_ != CollectiveKind::kSendRecv) return false;
    return hasPlan_ || inFlight < NcclCommunicator::kLag.sendsAndReceives;
  }

  [[nodiscard]] bool isNextKnown() const override {
    const PairMessage& message = messages_[message_];
    return !message.datatype || hasPlan_ || communicator_.mayBegin(history(), keyOf(message));
  }

  [[nodiscard]] ClassKey keyOf(const PairMessage& message) const {
    return classOf(collective_, *message.datatype, message.elementCount);
  }

  void begin(const PairMessage& message) {
    const PairHistory::Message begun = history().begin(keyOf(message));
    plan_ = communicator_.plan(collective_, *message.datatype, message.elementCount, begun.entry);
    number_ = begun.number;
    nextChunk_ = 0;
    hasPlan_ = true;
    const bool isStaged = plan_.decision.strategy == policy::Strategy::kStaged;
    if (isStaged || outcome_->decision.strategy == policy::Strategy::kNative) {
      outcome_->decision = plan_.decision;
    }
    if (!isStaged) return;
    if (isOut_) outcome_->stagedInputBytes += message.elementCount * message.elementBytes;
    observer_ = std::make_shared<MessageObserver>(
        communicator_.rank(), plan_.facts.geometry, plan_.decision.chunkCount, outcome_,
        [&history = history(), number = number_](const policy::ExtraSpace& seen) {
          history.endStaged(number, seen);
        });
    verify(message);
  }

  void verify(const PairMessage& message) {
    NcclVerifier* const verifier = communicator_.verifier.get();
    if (verifier == nullptr || !verifier->takesMessage(peer_, isOut_)) return;
    nativeForm_ = message;
    if (isOut_) return;
    nativeForm_->target =
        verifier->expect({.collective = collective_,
                          .datatype = *message.datatype,
                          .elementCount = message.elementCount,
                          .maker = peer_},
                         message.target, message.elementCount * message.elementBytes);
  }

  [[nodiscard]] PairHistory& history() const { return historyOf(communicator_, peer_, isOut_); }

  NcclCommunicator& communicator_;
  CollectiveKind collective_;
  int peer_;
  bool isOut_;
  std::vector<PairMessage> messages_;
  SharedOutcome outcome_;

  std::size_t message_ = 0;  ///< the one whose turn it is
  bool hasPlan_ = false;
  Engine::Plan plan_;  ///< of the last message that began
  std::uint64_t number_ = 0;
  std::uint64_t nextChunk_ = 0;
  std::shared_ptr<MessageObserver> observer_;
  std::optional<PairMessage> nativeForm_;  ///< of a message that is verified, before its chunks
};

// -------------------------------------------------------------------------------------------------

class GatherLane final : public Lane {
 public:
  GatherLane(NcclCommunicator& communicator, GatherWork work, SharedOutcome outcome)
      : communicator_(communicator),
        work_(std::move(work)),
        outcome_(std::move(outcome)),
        roomBytes_(roomBytes(work_.plan.facts, work_.plan.decision)),
        observer_(std::make_shared<MessageObserver>(
            communicator_.rank(), work_.plan.facts.geometry,
            work_.plan.decision.chunkCount * (work_.firstElement.size() - 1), outcome_,
            [&history = *work_.history, number = work_.number](const policy::ExtraSpace& seen) {
              history.endStaged(number, seen);
            })) {
    for (int rank = 0; rank < communicator_.rankCount(); ++rank) {
      if (rank != communicator_.rank()) others_.push_back(rank);
    }
  }

 private:
  /// Scratch: the own frame, static parts, room for dynamic parts; the root of a broadcast encodes
  /// where the one static part stands.
  class Chunk final : public RoundItem {
   public:
    Chunk(GatherLane& lane, std::uint64_t chunk) : lane_(lane) {
      const GatherWork& work = lane.work_;
      for (std::size_t part = 0; part + 1 < work.firstElement.size(); ++part) {
        RoundFrame frame;
        frame.chunk = chunkFrame(work.datatype, work.plan.facts, work.plan.decision,
                                 work.firstElement[part + 1] - work.firstElement[part], chunk);
        frame.place = {.call = work.call, .chunk = chunk};
        frame.maker = work.root.value_or(static_cast<int>(part));
        frame.observer = lane.observer_;
        // Parts may differ, and the room that a smaller one needs here may be the larger one.
        const std::uint64_t most =
            codec::maxFrameBytes(frame.chunk.spec.datatype, frame.chunk.spec.elementCount);
        frame.dynamicRoom =
            codec::alignUp(most - std::min(most, frame.chunk.staticBytes), kFrameAlignment);
        staticBytes_ = std::max(staticBytes_, frame.chunk.staticBytes);
        frames.push_back(std::move(frame));
      }
      if (const std::optional<std::size_t> own = ownPart()) frames[*own].readers = lane.others_;
      stream = work.stream;
      isLast = chunk + 1 == work.plan.decision.chunkCount;
    }

    [[nodiscard]] std::uint64_t scratchBytes() const override {
      std::uint64_t bytes = lane_.work_.root ? 0 : lane_.roomBytes_;
      for (const RoundFrame& frame : frames) bytes += staticBytes_ + frame.dynamicRoom;
      return bytes;
    }

    void place(std::span<std::byte> scratch) override {
      own_ = scratch.data();
      parts_ = own_ + (lane_.work_.root ? 0 : lane_.roomBytes_);
      std::byte* dynamic = parts_ + frames.size() * staticBytes_;
      const std::optional<std::size_t> own = ownPart();
      for (std::size_t part = 0; part < frames.size(); ++part) {
        RoundFrame& frame = frames[part];
        frame.at = parts_ + part * staticBytes_;
        frame.dynamic = dynamic;
        dynamic += frame.dynamicRoom;
        if (part != own) continue;
        frame.made = own_;
        frame.dynamic = own_ + frame.chunk.staticBytes;
      }
    }

    void addEncodes(std::vector<EncodeJob>& jobs) override {
      const std::optional<std::size_t> part = ownPart();
      if (!part) return;
      const RoundFrame& frame = frames[*part];
      const std::uint64_t room =
          lane_.work_.root ? frame.chunk.staticBytes + frame.dynamicRoom : lane_.roomBytes_;
      jobs.push_back(encodeJob(frame, source(frame), {own_, room}));
    }

    void prepareOwn(NcclCommunicator& communicator) override {
      const std::optional<std::size_t> part = ownPart();
      if (!part) return;
      const RoundFrame& frame = frames[*part];
      std::byte* const target = output(*part);
      if (target == source(frame)) return;
      communicator.device->copy(target, source(frame), frame.chunk.sourceBytes,
                                communicator.codecStream.get());
    }

    [[nodiscard]] int startStatic(NcclLink* link) override {
      if (lane_.work_.root) {
        link->broadcast(parts_, staticBytes_, *lane_.work_.root, stream);
      } else {
        link->allGather(own_, parts_, staticBytes_, stream);
      }
      return transport::kNcclSuccess;
    }

    void decode(StreamCodec& codec, StreamHandle onStream, std::uint32_t* status) override {
      std::vector<DecodeJob> jobs;
      const std::optional<std::size_t> own = ownPart();
      for (std::size_t part = 0; part < frames.size(); ++part) {
        if (part == own) continue;
        const RoundFrame& frame = frames[part];
        jobs.push_back(
            {.spec = frame.chunk.spec,
             .frame = {{frame.at, frame.chunk.staticBytes}, {frame.dynamic, frame.dynamicRoom}},
             .output = output(part),
             .status = status});
      }
      codec.decode(jobs, onStream);
    }

   private:
    [[nodiscard]] std::uint64_t elementBytesOf() const {
      return lane_.work_.plan.facts.geometry.elementBytes;
    }
    [[nodiscard]] std::optional<std::size_t> ownPart() const {
      const int rank = lane_.communicator_.rank();
      if (!lane_.work_.root) return static_cast<std::size_t>(rank);
      return *lane_.work_.root == rank ? std::optional<std::size_t>(0) : std::nullopt;
    }
    [[nodiscard]] const std::byte* source(const RoundFrame& frame) const {
      return bytesAt(lane_.work_.source, frame.chunk.firstElement * elementBytesOf());
    }
    [[nodiscard]] std::byte* output(std::size_t part) const {
      const std::uint64_t element =
          lane_.work_.firstElement[part] + frames[part].chunk.firstElement;
      return bytesAt(lane_.work_.target, element * elementBytesOf());
    }

    GatherLane& lane_;
    std::byte* own_ = nullptr;
    std::byte* parts_ = nullptr;
    std::uint64_t staticBytes_ = 0;  ///< of the largest frame
  };

  [[nodiscard]] bool hasNext() const override {
    return nextChunk_ < work_.plan.decision.chunkCount;
  }
  [[nodiscard]] std::unique_ptr<RoundItem> next() override {
    ++outcome_->chunks;
    return std::make_unique<Chunk>(*this, nextChunk_++);
  }

  NcclCommunicator& communicator_;
  GatherWork work_;
  SharedOutcome outcome_;
  std::uint64_t roomBytes_;
  std::shared_ptr<MessageObserver> observer_;
  std::vector<int> others_;  ///< all ranks but this one
  std::uint64_t nextChunk_ = 0;
};

// -------------------------------------------------------------------------------------------------

/// A message of each reducing rank from each other one: those to or from `rank`.
struct ReduceMessage {
  int peer = 0;
  bool isOut = false;
  std::uint64_t elementCount = 0;
};

std::vector<ReduceMessage> reduceMessages(int rank,
                                          const std::vector<std::uint64_t>& firstElement) {
  const auto part = [&](int of) {
    const auto at = static_cast<std::size_t>(of);
    return firstElement[at + 1] - firstElement[at];
  };
  std::vector<ReduceMessage> messages;
  for (int peer = 0; peer + 1 < static_cast<int>(firstElement.size()); ++peer) {
    if (peer == rank) continue;
    if (part(peer) != 0) messages.push_back({peer, true, part(peer)});
    if (part(rank) != 0) messages.push_back({peer, false, part(rank)});
  }
  return messages;
}

class ReduceLane final : public Lane {
 public:
  ReduceLane(NcclCommunicator& communicator, ReduceWork work, SharedOutcome outcome)
      : communicator_(communicator),
        work_(std::move(work)),
        outcome_(std::move(outcome)),
        roomBytes_(roomBytes(work_.plan.facts, work_.plan.decision)) {
    const int ranks = communicator_.rankCount();
    // Only on two ranks have both seen all frames.
    const auto all = ranks == 2 ? std::make_shared<WholeCall>() : nullptr;
    for (const ReduceMessage& message : reduceMessages(communicator_.rank(), work_.firstElement)) {
      begin(message, all);
    }
    if (all == nullptr) work_.history->endUnseen(work_.number);
  }

 private:
  /// One pair and direction: a message of its history, of which this lane makes the chunks.
  struct Pair {
    int peer = 0;
    bool isOut = false;
    std::uint64_t number = 0;
    policy::CallFacts facts;  ///< with the statistics of the pair
    std::shared_ptr<MessageObserver> observer;
  };

  /// What the pairs of a call saw, until all have ended.
  struct WholeCall {
    std::size_t pairsLeft = 0;
    policy::ExtraSpace seen;
  };

  class Chunk final : public RoundItem {
   public:
    Chunk(ReduceLane& lane, std::uint64_t chunk) : lane_(lane) {
      for (auto* pairs : {&lane.outgoing_, &lane.incoming_}) {
        for (std::size_t i = 0; i < pairs->size(); ++i) add((*pairs)[i], chunk);
      }
      const int rank = lane.communicator_.rank();
      own_.chunk = chunkFrame(lane.work_.datatype, lane.work_.plan.facts, lane.work_.plan.decision,
                              lane.partElements(rank), chunk);
      own_.place = {.call = 0, .chunk = chunk};
      own_.maker = rank;
      stream = lane.work_.stream;
      isLast = chunk + 1 == lane.work_.plan.decision.chunkCount;
    }

    [[nodiscard]] std::uint64_t scratchBytes() const override {
      return (frames.size() + (hasOwn() ? 1 : 0)) * lane_.roomBytes_;
    }

    void place(std::span<std::byte> scratch) override {
      rooms_ = scratch;
      for (std::size_t i = 0; i < frames.size(); ++i) placeFrame(frames[i], room(i), i < outCount_);
      if (hasOwn()) own_.at = room(frames.size()).data();
    }

    void addEncodes(std::vector<EncodeJob>& jobs) override {
      for (std::size_t i = 0; i < outCount_; ++i) {
        jobs.push_back(encodeJob(frames[i], source(frames[i], peers_[i]), room(i)));
      }
    }

    void prepareOwn(NcclCommunicator& communicator) override {
      // The own addend becomes a frame too, for one kernel to add up.
      if (!hasOwn()) return;
      const EncodeJob job = encodeJob(own_, source(own_, own_.maker), room(frames.size()));
      communicator.codec->encode({&job, 1}, communicator.codecStream.get());
    }

    [[nodiscard]] int startStatic(NcclLink* link) override {
      for (std::size_t i = 0; i < frames.size(); ++i) {
        const std::uint64_t bytes = frames[i].chunk.staticBytes;
        if (i < outCount_) {
          link->send(room(i).data(), bytes, peers_[i], stream);
        } else {
          link->receive(room(i).data(), bytes, peers_[i], stream);
        }
      }
      return transport::kNcclSuccess;
    }

    void decode(StreamCodec& codec, StreamHandle onStream, std::uint32_t* status) override {
      if (!hasOwn()) return;
      std::vector<AddendFrame> addends(static_cast<std::size_t>(lane_.communicator_.rankCount()));
      for (std::size_t i = outCount_; i < frames.size(); ++i) {
        addends[static_cast<std::size_t>(frames[i].maker)] = {
            frames[i].chunk.spec.poolBytes, contiguousParts(frames[i], lane_.roomBytes_)};
      }
      addends[static_cast<std::size_t>(own_.maker)] = {own_.chunk.spec.poolBytes,
                                                       contiguousParts(own_, lane_.roomBytes_)};
      codec.decodeReduce(
          {.spec = own_.chunk.spec,
           .addends = addends,
           .factor = lane_.work_.factor,
           .output = bytesAt(lane_.work_.receive, own_.chunk.firstElement * lane_.elementBytesOf()),
           .status = status},
          onStream);
    }

   private:
    [[nodiscard]] bool hasOwn() const { return own_.chunk.spec.elementCount != 0; }
    [[nodiscard]] std::span<std::byte> room(std::size_t i) const {
      return rooms_.subspan(i * lane_.roomBytes_, lane_.roomBytes_);
    }
    [[nodiscard]] const std::byte* source(const RoundFrame& frame, int part) const {
      return bytesAt(lane_.work_.send, (lane_.work_.firstElement[static_cast<std::size_t>(part)] +
                                        frame.chunk.firstElement) *
                                           lane_.elementBytesOf());
    }

    void add(const Pair& pair, std::uint64_t chunk) {
      RoundFrame frame;
      const int part = pair.isOut ? pair.peer : lane_.communicator_.rank();
      frame.chunk = chunkFrame(lane_.work_.datatype, pair.facts, lane_.work_.plan.decision,
                               lane_.partElements(part), chunk);
      if (frame.chunk.spec.elementCount == 0) return;
      frame.place = {.call = pair.number, .chunk = chunk, .unit = "message"};
      frame.maker = pair.isOut ? lane_.communicator_.rank() : pair.peer;
      if (pair.isOut) frame.readers = {pair.peer};
      frame.observer = pair.observer;
      frames.push_back(std::move(frame));
      peers_.push_back(pair.peer);
      outCount_ += pair.isOut ? 1 : 0;
    }

    ReduceLane& lane_;
    std::vector<int> peers_;  ///< of each of the frames; the outgoing ones first
    std::size_t outCount_ = 0;
    RoundFrame own_;
    std::span<std::byte> rooms_;
  };

  [[nodiscard]] bool hasNext() const override {
    return nextChunk_ < work_.plan.decision.chunkCount;
  }
  [[nodiscard]] std::unique_ptr<RoundItem> next() override {
    ++outcome_->chunks;
    return std::make_unique<Chunk>(*this, nextChunk_++);
  }

  [[nodiscard]] std::uint64_t partElements(int rank) const {
    const auto at = static_cast<std::size_t>(rank);
    return work_.firstElement[at + 1] - work_.firstElement[at];
  }
  [[nodiscard]] std::uint64_t elementBytesOf() const {
    return work_.plan.facts.geometry.elementBytes;
  }

  void begin(const ReduceMessage& message, const std::shared_ptr<WholeCall>& all) {
    PairHistory& history = historyOf(communicator_, message.peer, message.isOut);
    const PairHistory::Message begun =
        history.begin(classOf(work_.collective, work_.datatype, message.elementCount));
    policy::CallFacts facts = work_.plan.facts;
    facts.statistics = begun.entry->statistics;
    if (all) ++all->pairsLeft;
    const auto atEnd = [&history, number = begun.number, all, callHistory = work_.history,
                        call = work_.number](const policy::ExtraSpace& seen) {
      history.endStaged(number, seen);
      if (!all) return;
      all->seen.narrow = std::max(all->seen.narrow, seen.narrow);
      all->seen.wide = std::max(all->seen.wide, seen.wide);
      if (--all->pairsLeft == 0) callHistory->endStaged(call, all->seen);
    };
    std::vector<Pair>& pairs = message.isOut ? outgoing_ : incoming_;
    pairs.push_back(
        {message.peer, message.isOut, begun.number, facts,
         std::make_shared<MessageObserver>(communicator_.rank(), facts.geometry,
                                           framesOf(message.elementCount), outcome_, atEnd)});
    if (message.isOut) outcome_->stagedInputBytes += message.elementCount * elementBytesOf();
  }

  /// Chunks of a part that are not empty.
  [[nodiscard]] std::uint64_t framesOf(std::uint64_t elements) const {
    const std::uint64_t chunk = work_.plan.decision.chunkElements;
    return (elements + chunk - 1) / chunk;
  }

  NcclCommunicator& communicator_;
  ReduceWork work_;
  SharedOutcome outcome_;
  std::uint64_t roomBytes_;
  std::vector<Pair> outgoing_;
  std::vector<Pair> incoming_;
  std::uint64_t nextChunk_ = 0;
};

}  // namespace

std::unique_ptr<Lane> makeNativeLane(const zipcclNcclApi& api, const zipcclNcclCall& call) {
  return std::make_unique<NativeLane>(api, call);
}

std::unique_ptr<Lane> makePairLane(NcclCommunicator& communicator, CollectiveKind collective,
                                   int peer, bool isOut, std::vector<PairMessage> messages,
                                   SharedOutcome outcome) {
  return std::make_unique<PairLane>(communicator, collective, peer, isOut, std::move(messages),
                                    std::move(outcome));
}

std::unique_ptr<Lane> makeGatherLane(NcclCommunicator& communicator, GatherWork work,
                                     SharedOutcome outcome) {
  return std::make_unique<GatherLane>(communicator, std::move(work), std::move(outcome));
}

std::unique_ptr<Lane> makeReduceLane(NcclCommunicator& communicator, ReduceWork work,
                                     SharedOutcome outcome) {
  return std::make_unique<ReduceLane>(communicator, std::move(work), std::move(outcome));
}

bool mayReduce(NcclCommunicator& communicator, CollectiveKind collective, Datatype datatype,
               const std::vector<std::uint64_t>& firstElement) {
  const std::vector<ReduceMessage> messages = reduceMessages(communicator.rank(), firstElement);
  return std::all_of(messages.begin(), messages.end(), [&](const ReduceMessage& message) {
    return communicator.mayBegin(historyOf(communicator, message.peer, message.isOut),
                                 classOf(collective, datatype, message.elementCount));
  });
}

}  // namespace zipccl::collectives
