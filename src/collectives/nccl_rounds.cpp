// SPDX-License-Identifier: Apache-2.0
//
// Rounds. On this rank, for each communicator, with one stream besides the callers':
//
//   codec stream     encode 0 | export 0 | encode 1 | export 1 | import 0 | decode 0 | encode 2 ...
//   caller's stream             group 0  |            group 1             |            group 2  ...
//
// Group k waits for encode k, import k for group k; encode k + 2 uses the scratch of decode k,
// behind which it stands. The host puts all of it on the streams and waits for nothing. Import k
// passes at once where no frame has a dynamic part, which the device sees from the headers, and
// otherwise once the courier has brought them (dynamic_courier.hpp).

#include "collectives/nccl_rounds.hpp"

#include <algorithm>
#include <array>
#include <deque>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "base/error.hpp"
#include "codec/layout.hpp"
#include "collectives/nccl_calls.hpp"
#include "collectives/nccl_communicator.hpp"

namespace zipccl::collectives {
namespace {

using transport::CurrentDevice;
using transport::StreamHandle;

constexpr std::size_t kInFlight = 2;

/// The calls of one communicator; of one that is not attached they go as they are.
class CommunicatorRun {
 public:
  CommunicatorRun(const zipcclNcclApi& api, NcclCommunicator* communicator,
                  std::span<const zipcclNcclCall* const> calls)
      : communicator_(communicator), makers_(makePhases(api, communicator, calls)) {
    for (const zipcclNcclCall* call : calls) streams_.push_back(call->stream);
    if (communicator_ != nullptr && communicator_->hasRetiredMemory()) freeRetired();
  }

  [[nodiscard]] NcclCommunicator* communicator() const noexcept { return communicator_; }

  /// Whether all of it is on its streams, at the beginning of round `number`: what goes as it is
  /// may have come to its end there, and be put on its stream only when the round starts.
  [[nodiscard]] bool isOver(std::uint64_t number) const noexcept {
    return makers_.empty() && !phase_ && rounds_[number % kInFlight].items.empty();
  }

  /// Whether the two may have a stream in common. The default streams of two devices have one
  /// handle; which device an unattached communicator has is not known.
  [[nodiscard]] bool sharesStream(const CommunicatorRun& other) const {
    if (communicator_ != nullptr && other.communicator_ != nullptr &&
        communicator_->link.deviceNumber() != other.communicator_->link.deviceNumber()) {
      return false;
    }
    return std::find_first_of(streams_.begin(), streams_.end(), other.streams_.begin(),
                              other.streams_.end()) != streams_.end();
  }

  /// Chooses what travels in the next round, and encodes it. Returns whether there is anything.
  [[nodiscard]] bool begin(std::uint64_t number) {
    Round& round = roundOf(number);
    round = Round{};
    const std::optional<CurrentDevice> current = enter();
    while (true) {
      if (!phase_ && !beginPhase()) break;
      bool isStaged = false;
      for (const std::unique_ptr<Lane>& lane : phase_->lanes) isStaged |= startItems(round, *lane);
      if (isStaged || !isPhaseDone()) break;
      endPhase();  // it has only native items, or had ended: the next one may join this round
    }
    if (!round.frames.empty()) encode(round, number);
    return !round.items.empty();
  }

  /// Inside a group.
  [[nodiscard]] int start(std::uint64_t number) {
    const std::optional<CurrentDevice> current = enter();
    int first = transport::kNcclSuccess;
    for (Entry& entry : roundOf(number).items) {
      const int result = entry.item->startStatic(link());
      if (first == transport::kNcclSuccess) first = result;
    }
    return first;
  }

  /// The group has been started: notes when it will be done, and does meanwhile what nobody waits
  /// for. Not before: what the host puts on streams first, the other ranks wait for.
  void noteStarted(std::uint64_t number) {
    Round& round = roundOf(number);
    if (round.frames.empty()) return;
    const std::optional<CurrentDevice> current = enter();
    NcclCommunicator& c = *communicator_;
    for (const StreamHandle stream : round.streams) {
      const transport::OwnedEvent& moved = c.movedEvent(number, round.moved.size());
      c.device->record(moved.get(), stream);
      round.moved.push_back(&moved);
    }
    for (const Entry& entry : round.items) entry.item->prepareOwn(c);
    copyOwn();
  }

  /// Has the codec's stream wait for the round that has been started, then for what its headers
  /// tell of; then decodes.
  void decode(std::uint64_t number) {
    Round& round = roundOf(number);
    if (round.frames.empty()) return;
    const std::optional<CurrentDevice> current = enter();
    NcclCommunicator& c = *communicator_;
    for (const transport::OwnedEvent* moved : round.moved) {
      c.device->wait(c.codecStream.get(), moved->get());
    }
    importParts(round);
    for (Entry& entry : round.items) {
      if (!entry.item->isStaged()) continue;
      const RoundFrame& frame = entry.item->frames.back();
      entry.item->decode(*c.codec, c.codecStream.get(), c.takeStatus(frame.place, frame.maker));
    }
  }

  /// All of the round is on its streams.
  void finish(std::uint64_t number) {
    Round& round = roundOf(number);
    for (Entry& entry : round.items) {
      if (entry.item->isStaged()) entry.lane->finish(*entry.item);
    }
    round = Round{};
    const std::optional<CurrentDevice> current = enter();
    if (phase_ && isPhaseDone()) endPhase();
  }

 private:
  struct Entry {
    std::unique_ptr<RoundItem> item;
    Lane* lane = nullptr;
  };
  struct Round {
    std::vector<Entry> items;
    std::vector<RoundFrame*> frames;                  ///< of staged items
    std::vector<StreamHandle> streams;                ///< of staged items, each once
    std::vector<const transport::OwnedEvent*> moved;  ///< static parts, on each of the streams
  };

  [[nodiscard]] Round& roundOf(std::uint64_t number) { return rounds_[number % kInFlight]; }
  [[nodiscard]] transport::NcclLink* link() {
    return communicator_ != nullptr ? &communicator_->link : nullptr;
  }
  [[nodiscard]] std::optional<CurrentDevice> enter() const {
    if (communicator_ == nullptr) return std::nullopt;
    return std::optional<CurrentDevice>(std::in_place, *communicator_->device);
  }

  /// Calls `put(parts, atGate)` for frames of which `wants` says so, as many as a gate takes.
  template <class Wants, class Describe, class Put>
  static void forGates(const Round& round, const Wants& wants, const Describe& describe,
                       const Put& put) {
    std::vector<codec::DynamicPart> parts;
    std::vector<GateFrame> atGate;
    const auto flush = [&] {
      if (parts.empty()) return;
      put(std::span<const codec::DynamicPart>(parts), std::exchange(atGate, {}));
      parts.clear();
    };
    for (RoundFrame* const frame : round.frames) {
      if (!wants(*frame)) continue;
      GateFrame& same = atGate.emplace_back();
      same.spec = frame->chunk.spec;
      same.place = frame->place;
      same.maker = frame->maker;
      parts.push_back(describe(*frame, same));
      if (parts.size() == codec::kMostGateFrames) flush();
    }
    flush();
  }

  /// Hands the dynamic parts of frames of this rank to the courier, and tells it of their headers.
  void exportParts(const Round& round) {
    NcclCommunicator& c = *communicator_;
    forGates(
        round, [](const RoundFrame& frame) { return frame.made != nullptr; },
        [](RoundFrame& frame, GateFrame& atGate) -> codec::DynamicPart {
          atGate.readers = std::move(frame.readers);
          atGate.observer = std::move(frame.observer);
          return {frame.made, frame.dynamic, frame.dynamicRoom};
        },
        [&](std::span<const codec::DynamicPart> parts, std::vector<GateFrame> atGate) {
          c.codec->exportDynamic(parts, c.openExport(std::move(atGate)), c.codecStream.get());
        });
  }

  /// The same the other way round, of frames of other ranks.
  void importParts(const Round& round) {
    NcclCommunicator& c = *communicator_;
    forGates(
        round, [](const RoundFrame& frame) { return frame.made == nullptr; },
        [](RoundFrame& frame, GateFrame& atGate) -> codec::DynamicPart {
          atGate.observer = std::move(frame.observer);
          return {frame.at, frame.dynamic, frame.dynamicRoom};
        },
        [&](std::span<const codec::DynamicPart> parts, std::vector<GateFrame> atGate) {
          c.codec->importDynamic(parts, c.openImport(std::move(atGate)), c.codecStream.get());
        });
  }

  [[nodiscard]] bool isPhaseDone() const {
    return std::all_of(phase_->lanes.begin(), phase_->lanes.end(),
                       [](const std::unique_ptr<Lane>& lane) { return lane->isDone(); });
  }

  [[nodiscard]] bool beginPhase() {
    if (makers_.empty()) return false;
    phase_ = makers_.front()();
    makers_.pop_front();
    wasStaged_ = false;
    return true;
  }

  /// The codec's stream follows the callers'. Once a phase, and not for native calls.
  void fork() {
    if (std::exchange(wasStaged_, true)) return;
    NcclCommunicator& c = *communicator_;
    for (const StreamHandle stream : phase_->streams) {
      c.device->record(c.begun.get(), stream);
      c.device->wait(c.codecStream.get(), c.begun.get());
    }
  }

  void freeRetired() {
    const std::optional<CurrentDevice> current = enter();
    NcclCommunicator& c = *communicator_;
    c.device->record(c.decoded.get(), c.codecStream.get());
    c.await(c.decoded.get());
    c.scratch.freeRetired();
    if (c.verifier) c.verifier->freeRetired();
  }

  void endPhase() {
    copyOwn();  // where nothing was encoded
    if (wasStaged_) {
      NcclCommunicator& c = *communicator_;
      c.scratch.releaseAll();
      if (c.verifier && !phase_->isContinued) c.verifier->compare(*c.codec, c.codecStream.get());
      c.device->record(c.decoded.get(), c.codecStream.get());
      for (const StreamHandle stream : phase_->streams) c.device->wait(stream, c.decoded.get());
    }
    phase_.reset();
  }

  /// Native items up to a staged one, and what may join that; whether there was one.
  [[nodiscard]] bool startItems(Round& round, Lane& lane) {
    bool hasStaged = false;
    while (hasStaged ? lane.mayJoin() : lane.mayStart()) {
      Entry entry{.item = lane.start(), .lane = &lane};
      RoundItem& item = *entry.item;
      const bool isStaged = item.isStaged();
      if (isStaged) {
        for (RoundFrame& frame : item.frames) round.frames.push_back(&frame);
        const auto same = [&](StreamHandle each) { return each.native == item.stream.native; };
        if (std::none_of(round.streams.begin(), round.streams.end(), same)) {
          round.streams.push_back(item.stream);
        }
      }
      round.items.push_back(std::move(entry));
      hasStaged |= isStaged;
    }
    return hasStaged;
  }

  void encode(Round& round, std::uint64_t number) {
    NcclCommunicator& c = *communicator_;
    fork();
    std::uint64_t bytes = 0;
    for (const Entry& entry : round.items) bytes += entry.item->scratchBytes();
    std::span<std::byte> scratch = c.scratch.reserve(number, bytes);
    std::vector<EncodeJob> jobs;
    for (const Entry& entry : round.items) {
      const std::uint64_t itsBytes = entry.item->scratchBytes();
      entry.item->place(scratch.first(itsBytes));
      scratch = scratch.subspan(itsBytes);
      entry.item->addEncodes(jobs);
    }
    c.codec->encode(jobs, c.codecStream.get());
    // Also where there is nothing to encode: what is received goes where the frames of two rounds
    // ago were, which have then been decoded.
    c.device->record(c.encoded.get(), c.codecStream.get());
    for (const StreamHandle stream : round.streams) c.device->wait(stream, c.encoded.get());
    // Before the round begins: nobody can then wait for a part whose maker waits for the round.
    exportParts(round);
  }

  void copyOwn() {
    if (!phase_->copyOwn) return;
    fork();
    std::exchange(phase_->copyOwn, nullptr)();
  }

  NcclCommunicator* communicator_;
  std::deque<PhaseMaker> makers_;
  std::vector<void*> streams_;  ///< the callers'
  std::optional<Phase> phase_;
  bool wasStaged_ = false;  ///< whether the codec's stream has work of this phase
  std::array<Round, kInFlight> rounds_;
};

/// Runs that stand in the order of their first calls.
std::vector<std::unique_ptr<CommunicatorRun>> makeRuns(const zipcclNcclApi& api,
                                                       std::span<const RoundCall> calls) {
  struct Group {
    NcclCommunicator* communicator;
    std::vector<const zipcclNcclCall*> calls;
  };
  std::vector<Group> groups;
  for (const RoundCall& call : calls) {
    auto group = std::find_if(groups.begin(), groups.end(), [&](const Group& each) {
      return each.calls.front()->comm == call.call->comm;
    });
    if (group == groups.end()) group = groups.insert(groups.end(), {call.communicator, {}});
    group->calls.push_back(call.call);
  }
  std::vector<std::unique_ptr<CommunicatorRun>> runs;
  runs.reserve(groups.size());
  for (const Group& group : groups) {
    runs.push_back(std::make_unique<CommunicatorRun>(api, group.communicator, group.calls));
  }
  return runs;
}

/// The group as the program made it.
int callAllNative(const zipcclNcclApi& api, std::span<const RoundCall> calls) {
  for (const RoundCall& call : calls) {
    if (call.communicator != nullptr) call.communicator->recordNative(*call.call);
  }
  if (calls.size() == 1) return transport::callNative(api, *calls[0].call);
  transport::NcclGroup group(api);
  int first = transport::kNcclSuccess;
  for (const RoundCall& call : calls) {
    const int result = transport::callNative(api, *call.call);
    if (first == transport::kNcclSuccess) first = result;
  }
  const int atEnd = group.end();
  return first == transport::kNcclSuccess ? atEnd : first;
}

class Driver {
 public:
  Driver(const zipcclNcclApi& api, std::vector<std::unique_ptr<CommunicatorRun>>& runs)
      : api_(api), runs_(runs) {}

  [[nodiscard]] int run() {
    bool hasPrevious = false;
    for (std::uint64_t number = 0;; ++number) {
      bool hasItems = false;
      for (std::size_t i = 0; i < runs_.size(); ++i) {
        if (mayBegin(i, number)) hasItems |= runs_[i]->begin(number);
      }
      if (hasItems) start(number);
      if (hasPrevious) {
        for (const auto& run : runs_) run->decode(number - 1);
        for (const auto& run : runs_) run->finish(number - 1);
      }
      if (!hasItems && !hasPrevious) return firstResult_;
      hasPrevious = hasItems;
    }
  }

 private:
  /// A stream that two communicators share has first all of one, then all of the other, as without
  /// rounds: other ranks may have called them one by one.
  [[nodiscard]] bool mayBegin(std::size_t i, std::uint64_t number) const {
    return std::all_of(runs_.begin(), runs_.begin() + static_cast<std::ptrdiff_t>(i),
                       [&](const std::unique_ptr<CommunicatorRun>& earlier) {
                         return earlier->isOver(number) || !earlier->sharesStream(*runs_[i]);
                       });
  }

  void start(std::uint64_t number) {
    transport::NcclGroup group(api_);
    for (const auto& run : runs_) note(run->start(number));
    note(group.end());
    for (const auto& run : runs_) run->noteStarted(number);
  }

  void note(int result) {
    if (firstResult_ == transport::kNcclSuccess) firstResult_ = result;
  }

  const zipcclNcclApi& api_;
  std::vector<std::unique_ptr<CommunicatorRun>>& runs_;
  int firstResult_ = transport::kNcclSuccess;
};

}  // namespace

int runRounds(const zipcclNcclApi& api, std::span<const RoundCall> calls) {
  const auto isWanted = [](const RoundCall& call) {
    return call.communicator != nullptr && call.communicator->wants(*call.call);
  };
  if (std::none_of(calls.begin(), calls.end(), isWanted)) return callAllNative(api, calls);
  std::vector<std::unique_ptr<CommunicatorRun>> runs = makeRuns(api, calls);
  try {
    return Driver(api, runs).run();
  } catch (const Error& error) {
    for (const auto& run : runs) {
      if (run->communicator() != nullptr) run->communicator()->fail(error);
    }
    throw;
  }
}

}  // namespace zipccl::collectives
