// SPDX-License-Identifier: Apache-2.0
//
// The lanes of calls over NCCL.

#include "collectives/nccl_lanes.hpp"

#include <algorithm>
#include <utility>

#include "base/error.hpp"
#include "collectives/buffers.hpp"
#include "collectives/frame_geometry.hpp"
#include "collectives/nccl_communicator.hpp"
#include "policy/chunks.hpp"

namespace zipccl::collectives {
namespace {

using transport::NcclLink;
using transport::StreamHandle;

/// Room for a frame of a plan's chunk, at which others may follow.
std::uint64_t roomBytes(const policy::CallFacts& facts, const policy::Decision& decision) {
  constexpr std::uint64_t kAlignment = 128;
  // The bound leaves room for this: it holds a frame rounded up.
  return policy::frameBoundBytes(facts.geometry, decision.chunkElements) / kAlignment * kAlignment;
}

void observe(policy::CallObservation& observation, const RoundFrame& frame,
             const policy::FrameGeometry& geometry) {
  observation.add({.layout = frame.chunk.spec.layout == codec::Layout::kWide
                                 ? policy::FrameLayout::kWide
                                 : policy::FrameLayout::kNarrow,
                   .tileCount = frame.chunk.tileCount(geometry),
                   .extraBytes = frame.report.extraBytes,
                   .lowTiles = frame.report.note.lowTiles});
}

/// The parts of a contiguous frame, as far as they are known.
FrameParts contiguousParts(const RoundFrame& frame) {
  return {{frame.at, frame.chunk.staticBytes},
          {frame.at + frame.chunk.staticBytes, frame.report.dynamicBytes}};
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
  const zipcclNcclCall& call_;
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
  const zipcclNcclCall& call_;
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
      const std::uint64_t bytes = message_.elementCount * message_.elementBytes;
      if (isOut_) {
        link->send(message_.source, bytes, peer_, stream);
      } else {
        link->receive(message_.target, bytes, peer_, stream);
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
      frames[0].at = room_.data();
    }

    void addEncodes(NcclCommunicator&, std::vector<EncodeJob>& jobs) override {
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

    void startDynamic(NcclLink& link) override {
      std::byte* const dynamic = room_.data() + frames[0].chunk.staticBytes;
      if (lane_.isOut_) {
        link.send(dynamic, frames[0].report.dynamicBytes, lane_.peer_, stream);
      } else {
        link.receive(dynamic, frames[0].report.dynamicBytes, lane_.peer_, stream);
      }
    }

    void decode(StreamCodec& codec, StreamHandle onStream, std::uint32_t* status) override {
      if (lane_.isOut_) return;
      const DecodeJob job{.spec = frames[0].chunk.spec,
                          .frame = contiguousParts(frames[0]),
                          .output = bytesAt(message_.target, offsetBytes()),
                          .status = status};
      codec.decode({&job, 1}, onStream);
    }

    void learnt() override { lane_.learn(*this); }

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
      history().endNative();
      hasPlan_ = false;
      ++message_;
      return std::make_unique<NativeMessage>(peer_, isOut_, message);
    }
    RoundFrame frame;
    frame.chunk = chunkFrame(*message.datatype, plan_.facts, plan_.decision, message.elementCount,
                             nextChunk_);
    frame.place = {.call = number_, .chunk = nextChunk_, .unit = "message"};
    frame.maker = isOut_ ? communicator_.rank() : peer_;
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

  void begin(const PairMessage& message) {
    const PairHistory::Message begun =
        history().begin(classOf(collective_, *message.datatype, message.elementCount));
    plan_ = communicator_.plan(collective_, *message.datatype, message.elementCount, begun.entry);
    number_ = begun.number;
    nextChunk_ = 0;
    hasPlan_ = true;
    observation_.emplace(plan_.facts.geometry);
    const bool isStaged = plan_.decision.strategy == policy::Strategy::kStaged;
    if (isStaged || outcome_->decision.strategy == policy::Strategy::kNative) {
      outcome_->decision = plan_.decision;
    }
    if (isStaged && isOut_) {
      outcome_->stagedInputBytes += message.elementCount * message.elementBytes;
    }
  }

  void learn(const Chunk& item) {
    observe(*observation_, item.frames[0], plan_.facts.geometry);
    if (isOut_) {
      outcome_->encodedBytes +=
          item.frames[0].chunk.staticBytes + item.frames[0].report.dynamicBytes;
    }
    outcome_->hadDynamicPart = outcome_->hadDynamicPart || item.hasDynamicPart();
    if (item.isLast) history().endStaged(observation_->extra());
  }

  [[nodiscard]] PairHistory& history() const {
    PeerHistories& peer = communicator_.peers[static_cast<std::size_t>(peer_)];
    return isOut_ ? peer.sent : peer.received;
  }

  NcclCommunicator& communicator_;
  CollectiveKind collective_;
  int peer_;
  bool isOut_;
  std::vector<PairMessage> messages_;
  SharedOutcome outcome_;

  std::size_t message_ = 0;  ///< the one whose turn it is
  bool hasPlan_ = false;
  Engine::Plan plan_;  ///< of the last message that began: all its items are learnt before the next
  std::uint64_t number_ = 0;
  std::uint64_t nextChunk_ = 0;
  std::optional<policy::CallObservation> observation_;
};

// -------------------------------------------------------------------------------------------------

class GatherLane final : public Lane {
 public:
  GatherLane(NcclCommunicator& communicator, GatherWork work, SharedOutcome outcome)
      : communicator_(communicator),
        work_(std::move(work)),
        outcome_(std::move(outcome)),
        observation_(work_.plan.facts.geometry),
        roomBytes_(roomBytes(work_.plan.facts, work_.plan.decision)) {}

 private:
  /// Scratch, as FrameGather has it: the own frame, static parts, dynamic parts; the root of a
  /// broadcast encodes where the one static part stands.
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
        staticBytes_ = std::max(staticBytes_, frame.chunk.staticBytes);
        frames.push_back(std::move(frame));
      }
      stream = work.stream;
      isLast = chunk + 1 == work.plan.decision.chunkCount;
    }

    [[nodiscard]] std::uint64_t scratchBytes() const override {
      return (frames.size() + (lane_.work_.root ? 0 : 1)) * lane_.roomBytes_;
    }

    void place(std::span<std::byte> scratch) override {
      own_ = scratch.data();
      parts_ = own_ + (lane_.work_.root ? 0 : lane_.roomBytes_);
      for (std::size_t i = 0; i < frames.size(); ++i) frames[i].at = parts_ + i * staticBytes_;
    }

    void addEncodes(NcclCommunicator& communicator, std::vector<EncodeJob>& jobs) override {
      const std::optional<std::size_t> part = ownPart();
      if (!part) return;
      const RoundFrame& frame = frames[*part];
      const std::byte* const source =
          bytesAt(lane_.work_.source, frame.chunk.firstElement * elementBytesOf());
      jobs.push_back(encodeJob(frame, source, {own_, lane_.roomBytes_}));
      if (std::byte* const target = output(*part); target != source) {
        communicator.device->copy(target, source, frame.chunk.sourceBytes,
                                  communicator.codecStream.get());
      }
    }

    [[nodiscard]] int startStatic(NcclLink* link) override {
      if (lane_.work_.root) {
        link->broadcast(parts_, staticBytes_, *lane_.work_.root, stream);
      } else {
        link->allGather(own_, parts_, staticBytes_, stream);
      }
      return transport::kNcclSuccess;
    }

    void learnt() override {
      for (const RoundFrame& frame : frames) {
        dynamicBytes_ = std::max(dynamicBytes_, frame.report.dynamicBytes);
      }
      lane_.learn(*this, ownPart());
    }

    void startDynamic(NcclLink& link) override {
      if (lane_.work_.root) {
        link.broadcast(dynamicParts(), dynamicBytes_, *lane_.work_.root, stream);
      } else {
        // What stands behind a smaller own part goes along.
        link.allGather(own_ + frames[*ownPart()].chunk.staticBytes, dynamicParts(), dynamicBytes_,
                       stream);
      }
    }

    void decode(StreamCodec& codec, StreamHandle onStream, std::uint32_t* status) override {
      std::vector<DecodeJob> jobs;
      const std::optional<std::size_t> own = ownPart();
      for (std::size_t part = 0; part < frames.size(); ++part) {
        if (part == own) continue;
        const RoundFrame& frame = frames[part];
        jobs.push_back(
            {.spec = frame.chunk.spec,
             .frame = {{frame.at, frame.chunk.staticBytes},
                       {dynamicParts() + part * dynamicBytes_, frame.report.dynamicBytes}},
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
    [[nodiscard]] std::byte* dynamicParts() const { return parts_ + frames.size() * staticBytes_; }
    [[nodiscard]] std::byte* output(std::size_t part) const {
      const std::uint64_t element =
          lane_.work_.firstElement[part] + frames[part].chunk.firstElement;
      return bytesAt(lane_.work_.target, element * elementBytesOf());
    }

    GatherLane& lane_;
    std::byte* own_ = nullptr;
    std::byte* parts_ = nullptr;
    std::uint64_t staticBytes_ = 0;   ///< of the largest frame
    std::uint64_t dynamicBytes_ = 0;  ///< of the largest frame, once known
  };

  [[nodiscard]] bool hasNext() const override {
    return nextChunk_ < work_.plan.decision.chunkCount;
  }
  [[nodiscard]] std::unique_ptr<RoundItem> next() override {
    ++outcome_->chunks;
    return std::make_unique<Chunk>(*this, nextChunk_++);
  }

  void learn(const Chunk& item, std::optional<std::size_t> ownPart) {
    for (const RoundFrame& frame : item.frames) {
      observe(observation_, frame, work_.plan.facts.geometry);
    }
    outcome_->hadDynamicPart = outcome_->hadDynamicPart || item.hasDynamicPart();
    if (ownPart) {
      const RoundFrame& own = item.frames[*ownPart];
      outcome_->encodedBytes += own.chunk.staticBytes + own.report.dynamicBytes;
    }
    if (item.isLast) work_.plan.endStaged(observation_.extra());
  }

  NcclCommunicator& communicator_;
  GatherWork work_;
  SharedOutcome outcome_;
  policy::CallObservation observation_;
  std::uint64_t roomBytes_;
  std::uint64_t nextChunk_ = 0;
};

// -------------------------------------------------------------------------------------------------

class ReduceLane final : public Lane {
 public:
  ReduceLane(NcclCommunicator& communicator, ReduceWork work, SharedOutcome outcome)
      : communicator_(communicator),
        work_(std::move(work)),
        outcome_(std::move(outcome)),
        roomBytes_(roomBytes(work_.plan.facts, work_.plan.decision)) {
    const int ranks = communicator_.rankCount();
    for (int rank = 0; rank < ranks; ++rank) {
      if (rank == communicator_.rank()) continue;
      if (partElements(rank) != 0) begin(outgoing_, rank, true);
      if (partElements(communicator_.rank()) != 0) begin(incoming_, rank, false);
    }
  }

 private:
  /// One pair and direction: a message of its history, of which this lane makes the chunks.
  struct Pair {
    int peer = 0;
    bool isOut = false;
    PairHistory* history = nullptr;
    std::uint64_t number = 0;
    policy::CallFacts facts;  ///< with the statistics of the pair
    policy::CallObservation observation;
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
      for (std::size_t i = 0; i < frames.size(); ++i) frames[i].at = room(i).data();
      if (hasOwn()) own_.at = room(frames.size()).data();
    }

    void addEncodes(NcclCommunicator&, std::vector<EncodeJob>& jobs) override {
      for (std::size_t i = 0; i < outCount_; ++i) {
        jobs.push_back(encodeJob(frames[i], source(frames[i], pairs_[i]->peer), room(i)));
      }
      // The own addend becomes a frame too, for one kernel to add up.
      if (hasOwn()) {
        jobs.push_back(encodeJob(own_, source(own_, own_.maker), room(frames.size())));
      }
    }

    [[nodiscard]] int startStatic(NcclLink* link) override {
      forParts(*link, [](const RoundFrame& frame) {
        return std::pair(std::uint64_t{0}, frame.chunk.staticBytes);
      });
      return transport::kNcclSuccess;
    }

    void startDynamic(NcclLink& link) override {
      forParts(link, [](const RoundFrame& frame) {
        return std::pair(frame.chunk.staticBytes, frame.report.dynamicBytes);
      });
    }

    void decode(StreamCodec& codec, StreamHandle onStream, std::uint32_t* status) override {
      if (!hasOwn()) return;
      std::vector<AddendFrame> addends(static_cast<std::size_t>(lane_.communicator_.rankCount()));
      for (std::size_t i = outCount_; i < frames.size(); ++i) {
        addends[static_cast<std::size_t>(frames[i].maker)] = {frames[i].chunk.spec.poolBytes,
                                                              contiguousParts(frames[i])};
      }
      addends[static_cast<std::size_t>(own_.maker)] = {
          own_.chunk.spec.poolBytes,
          {{own_.at, own_.chunk.staticBytes},
           {own_.at + own_.chunk.staticBytes, lane_.roomBytes_ - own_.chunk.staticBytes}}};
      codec.decodeReduce(
          {.spec = own_.chunk.spec,
           .addends = addends,
           .factor = lane_.work_.factor,
           .output = bytesAt(lane_.work_.receive, own_.chunk.firstElement * lane_.elementBytesOf()),
           .status = status},
          onStream);
    }

    void learnt() override {
      for (std::size_t i = 0; i < frames.size(); ++i) {
        observe(pairs_[i]->observation, frames[i], lane_.work_.plan.facts.geometry);
        if (i < outCount_) {
          lane_.outcome_->encodedBytes +=
              frames[i].chunk.staticBytes + frames[i].report.dynamicBytes;
        }
      }
      lane_.outcome_->hadDynamicPart = lane_.outcome_->hadDynamicPart || hasDynamicPart();
      if (isLast) lane_.end();
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

    void add(Pair& pair, std::uint64_t chunk) {
      RoundFrame frame;
      const int part = pair.isOut ? pair.peer : lane_.communicator_.rank();
      frame.chunk = chunkFrame(lane_.work_.datatype, pair.facts, lane_.work_.plan.decision,
                               lane_.partElements(part), chunk);
      if (frame.chunk.spec.elementCount == 0) return;
      frame.place = {.call = pair.number, .chunk = chunk, .unit = "message"};
      frame.maker = pair.isOut ? lane_.communicator_.rank() : pair.peer;
      frames.push_back(std::move(frame));
      pairs_.push_back(&pair);
      outCount_ += pair.isOut ? 1 : 0;
    }

    /// Sends or receives, of each frame, the bytes that `part` names by place and number.
    template <class Part>
    void forParts(NcclLink& link, const Part& part) {
      for (std::size_t i = 0; i < frames.size(); ++i) {
        const auto [at, bytes] = part(frames[i]);
        if (bytes == 0) continue;
        if (pairs_[i]->isOut) {
          link.send(room(i).data() + at, bytes, pairs_[i]->peer, stream);
        } else {
          link.receive(room(i).data() + at, bytes, pairs_[i]->peer, stream);
        }
      }
    }

    ReduceLane& lane_;
    std::vector<Pair*> pairs_;  ///< of each of the frames; the outgoing ones first
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

  void begin(std::vector<Pair>& pairs, int peer, bool isOut) {
    PeerHistories& histories = communicator_.peers[static_cast<std::size_t>(peer)];
    PairHistory& history = isOut ? histories.sent : histories.received;
    const std::uint64_t elements = partElements(isOut ? peer : communicator_.rank());
    const PairHistory::Message message =
        history.begin(classOf(work_.collective, work_.datatype, elements));
    policy::CallFacts facts = work_.plan.facts;
    facts.statistics = message.entry->statistics;
    pairs.push_back(
        {peer, isOut, &history, message.number, facts, policy::CallObservation(facts.geometry)});
    if (isOut) outcome_->stagedInputBytes += elements * elementBytesOf();
  }

  void end() {
    policy::ExtraSpace& seen = outcome_->extraSeen;
    for (auto* pairs : {&outgoing_, &incoming_}) {
      for (Pair& pair : *pairs) {
        pair.history->endStaged(pair.observation.extra());
        seen.narrow = std::max(seen.narrow, pair.observation.extra().narrow);
        seen.wide = std::max(seen.wide, pair.observation.extra().wide);
      }
    }
    // Only on two ranks have both seen all frames.
    if (communicator_.rankCount() == 2) work_.plan.endStaged(seen);
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

}  // namespace zipccl::collectives
