// SPDX-License-Identifier: Apache-2.0
//
// Rounds. On this rank, for each communicator, with one stream besides the callers':
//
//   codec stream     encode 0 | export 0 | encode 1 | export 1 | import 0 | decode 0 | encode 2 ...
//   caller's stream             group 0  |            group 1             |            group 2  ...
//
// Group k waits for encode k, import k for group k; encode k + 2 uses the scratch of decode k,
// behind which it stands. Import k passes at once where no frame has a dynamic part, which the
// device sees from the headers, and otherwise once the courier has brought them
// (dynamic_courier.hpp).
//
// The host puts all of it on the streams and mostly waits for nothing. Where it must, for what
// earlier calls of a communicator tell, or for gates of that to pass, the calls of the others go
// on: on another rank those may come first (decision 0012).

#include "collectives/nccl_rounds.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <deque>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "base/error.hpp"
#include "codec/layout.hpp"
#include "collectives/host_wait.hpp"
#include "collectives/nccl_calls.hpp"
#include "collectives/nccl_communicator.hpp"

namespace zipccl::collectives {
namespace {

using transport::CurrentDevice;
using transport::StreamHandle;

constexpr std::size_t kInFlight = 2;

/// The calls of one rank of a communicator; of one that is not attached they go as they are. What
/// is [[nodiscard]] bool says whether it is done: otherwise it must wait, for something that comes
/// by itself, and goes on when called again.
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

  /// Chooses what travels in round `number`, and encodes it. What that is does not depend on how
  /// often it had to wait.
  [[nodiscard]] bool begin(std::uint64_t number) {
    Round& round = roundOf(number);
    const std::optional<CurrentDevice> current = enter();
    if (round.isOpen) {
      if (!choose(round)) return false;
      round.isOpen = false;
      if (!round.frames.empty()) encode(round, number);
    }
    return exportParts(round);
  }

  /// Whether round `number`, which has begun, has anything.
  [[nodiscard]] bool hasItems(std::uint64_t number) const noexcept {
    return !rounds_[number % kInFlight].items.empty();
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
  /// tell of.
  [[nodiscard]] bool awaitParts(std::uint64_t number) {
    Round& round = roundOf(number);
    if (round.frames.empty()) return true;
    const std::optional<CurrentDevice> current = enter();
    NcclCommunicator& c = *communicator_;
    for (const transport::OwnedEvent* moved : std::exchange(round.moved, {})) {
      c.device->wait(c.codecStream.get(), moved->get());
    }
    return importParts(round);
  }

  void decode(std::uint64_t number) {
    Round& round = roundOf(number);
    if (round.frames.empty()) return;
    const std::optional<CurrentDevice> current = enter();
    NcclCommunicator& c = *communicator_;
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
  /// Frames whose headers pass gates, in their order.
  struct AtGates {
    std::vector<RoundFrame*> frames;
    std::size_t putCount = 0;  ///< of them, whose gates are on the codec's stream
  };
  struct Round {
    bool isOpen = true;  ///< it is being put together
    std::vector<Entry> items;
    std::vector<RoundFrame*> frames;                  ///< of staged items
    AtGates exports;                                  ///< frames of this rank
    AtGates imports;                                  ///< frames of others
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

  /// Calls `put(parts, atGate)` for each gate of frames that have none yet, while the courier has
  /// room for one. `headerOf` says where the header of a frame stands.
  template <class HeaderOf, class Put>
  [[nodiscard]] bool putGates(AtGates& which, const HeaderOf& headerOf, const Put& put) {
    while (which.putCount != which.frames.size()) {
      if (!communicator_->courier().mayOpen()) return false;
      const std::size_t end =
          std::min(which.frames.size(), which.putCount + codec::kMostGateFrames);
      std::vector<codec::DynamicPart> parts;
      std::vector<GateFrame> atGate;
      for (; which.putCount != end; ++which.putCount) {
        RoundFrame& frame = *which.frames[which.putCount];
        parts.push_back({headerOf(frame), frame.dynamic, frame.dynamicRoom});
        GateFrame& same = atGate.emplace_back();
        same.spec = frame.chunk.spec;
        same.place = frame.place;
        same.maker = frame.maker;
        same.readers = std::move(frame.readers);
        same.observer = std::move(frame.observer);
      }
      put(std::span<const codec::DynamicPart>(parts), std::move(atGate));
    }
    return true;
  }

  /// Hands the dynamic parts of frames of this rank to the courier, and tells it of their headers.
  /// Before the round begins: nobody can then wait for a part whose maker waits for the round.
  [[nodiscard]] bool exportParts(Round& round) {
    return putGates(
        round.exports, [](const RoundFrame& frame) { return frame.made; },
        [&](std::span<const codec::DynamicPart> parts, std::vector<GateFrame> atGate) {
          NcclCommunicator& c = *communicator_;
          const codec::Gate gate = c.courier().openExport(std::move(atGate));
          c.codec->exportDynamic(parts, gate, c.codecStream.get());
        });
  }

  /// The same the other way round, of frames of other ranks.
  [[nodiscard]] bool importParts(Round& round) {
    return putGates(
        round.imports, [](const RoundFrame& frame) { return frame.at; },
        [&](std::span<const codec::DynamicPart> parts, std::vector<GateFrame> atGate) {
          NcclCommunicator& c = *communicator_;
          const codec::Gate gate = c.courier().openImport(std::move(atGate));
          c.codec->importDynamic(parts, gate, c.codecStream.get());
        });
  }

  [[nodiscard]] bool isPhaseDone() const {
    return std::all_of(phase_->lanes.begin(), phase_->lanes.end(),
                       [](const std::unique_ptr<Lane>& lane) { return lane->isDone(); });
  }

  void beginPhase() {
    phase_ = makers_.front().make();
    makers_.pop_front();
    wasStaged_ = false;
  }

  [[nodiscard]] bool choose(Round& round) {
    while (true) {
      if (!phase_) {
        if (makers_.empty()) return true;
        if (!makers_.front().mayMake()) return false;
        beginPhase();
      }
      for (const std::unique_ptr<Lane>& lane : phase_->lanes) {
        if (!startItems(round, *lane)) return false;
      }
      if (!round.frames.empty() || !isPhaseDone()) break;
      endPhase();  // it has only native items, or had ended: the next one may join this round
    }
    for (const std::unique_ptr<Lane>& lane : phase_->lanes) lane->closeRound();
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

  /// Native items up to a staged one, and what may join that.
  [[nodiscard]] bool startItems(Round& round, Lane& lane) {
    while (lane.mayStart()) {
      if (!lane.isReady()) return false;
      Entry entry{.item = lane.start(), .lane = &lane};
      RoundItem& item = *entry.item;
      if (item.isStaged()) {
        for (RoundFrame& frame : item.frames) round.frames.push_back(&frame);
        const auto same = [&](StreamHandle each) { return each.native == item.stream.native; };
        if (std::none_of(round.streams.begin(), round.streams.end(), same)) {
          round.streams.push_back(item.stream);
        }
      }
      round.items.push_back(std::move(entry));
    }
    return true;
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
    for (RoundFrame* const frame : round.frames) {
      (frame->made != nullptr ? round.exports : round.imports).frames.push_back(frame);
    }
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

/// The runs of those ranks of one communicator that this thread drives, which is mostly one. They
/// are in the same round at any time: NCCL may want to hear of an operation from all ranks of a
/// thread before it comes back from the group of one of them.
class Team {
 public:
  /// `id` of the communicator: 0 where nothing is compressed, so that nothing parts its ranks.
  explicit Team(std::uint64_t id) noexcept : id_(id) {}

  [[nodiscard]] bool isOf(std::uint64_t id) const noexcept { return id != 0 && id == id_; }

  void add(std::unique_ptr<CommunicatorRun> run) { runs_.push_back(std::move(run)); }

  [[nodiscard]] const std::vector<std::unique_ptr<CommunicatorRun>>& runs() const noexcept {
    return runs_;
  }

  [[nodiscard]] bool isOver() const {
    return std::all_of(runs_.begin(), runs_.end(),
                       [&](const auto& run) { return run->isOver(number_); });
  }

  [[nodiscard]] bool sharesStream(const Team& other) const {
    return std::any_of(runs_.begin(), runs_.end(), [&](const auto& run) {
      return std::any_of(other.runs_.begin(), other.runs_.end(),
                         [&](const auto& theirs) { return run->sharesStream(*theirs); });
    });
  }

  // A round: it begins, starts inside a group and ends, and in between the one before it is
  // decoded. bool as in CommunicatorRun.

  /// Unless it has started.
  [[nodiscard]] bool begin() {
    bool isDone = true;
    for (const auto& run : runs_) isDone &= run->begin(number_);
    noteWait(!isDone);
    return isDone;
  }

  [[nodiscard]] bool hasItems() const {
    return std::any_of(runs_.begin(), runs_.end(),
                       [&](const auto& run) { return run->hasItems(number_); });
  }

  [[nodiscard]] int start() {
    hasStarted_ = true;
    int first = transport::kNcclSuccess;
    for (const auto& run : runs_) {
      const int result = run->start(number_);
      if (first == transport::kNcclSuccess) first = result;
    }
    return first;
  }

  void noteStarted() {
    for (const auto& run : runs_) run->noteStarted(number_);
  }

  [[nodiscard]] bool hasStarted() const noexcept { return hasStarted_; }

  [[nodiscard]] bool end() {
    if (number_ != 0) {
      bool isDone = true;
      for (const auto& run : runs_) isDone &= run->awaitParts(number_ - 1);
      noteWait(!isDone);
      if (!isDone) return false;
      for (const auto& run : runs_) run->decode(number_ - 1);
      for (const auto& run : runs_) run->finish(number_ - 1);
    }
    hasStarted_ = false;
    ++number_;
    return true;
  }

  /// Whether it must wait, and has not done so for long.
  [[nodiscard]] bool keepsOthers() const {
    constexpr auto kLong = std::chrono::milliseconds(20);
    return waitsSince_ && Clock::now() - *waitsSince_ < kLong;
  }

 private:
  using Clock = std::chrono::steady_clock;

  void noteWait(bool mustWait) {
    if (!mustWait) {
      waitsSince_.reset();
    } else if (!waitsSince_) {
      waitsSince_ = Clock::now();
    }
  }

  std::uint64_t id_;
  std::vector<std::unique_ptr<CommunicatorRun>> runs_;
  std::uint64_t number_ = 0;  ///< of the round that begins or has started
  bool hasStarted_ = false;
  std::optional<Clock::time_point> waitsSince_;
};

/// Teams that stand in the order of their first calls.
std::vector<Team> makeTeams(const zipcclNcclApi& api, std::span<const RoundCall> calls) {
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
  std::vector<Team> teams;
  teams.reserve(groups.size());
  for (const Group& group : groups) {
    const std::uint64_t id = group.communicator != nullptr ? group.communicator->id : 0;
    auto team =
        std::find_if(teams.begin(), teams.end(), [&](const Team& each) { return each.isOf(id); });
    if (team == teams.end()) team = teams.insert(teams.end(), Team(id));
    team->add(std::make_unique<CommunicatorRun>(api, group.communicator, group.calls));
  }
  return teams;
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
  Driver(const zipcclNcclApi& api, std::vector<Team>& teams) : api_(api), teams_(teams) {}

  [[nodiscard]] int run() {
    std::optional<HostWait> waiting;
    while (!isOver()) {
      if (goOn()) {
        waiting.reset();
        continue;
      }
      if (!waiting) waiting.emplace();
      wait(*waiting);
    }
    return firstResult_;
  }

 private:
  [[nodiscard]] bool isOver() const {
    return std::all_of(teams_.begin(), teams_.end(),
                       [](const Team& team) { return team.isOver(); });
  }

  /// A stream that two communicators share has first all of one, then all of the other, as without
  /// rounds: other ranks may have called them one by one.
  [[nodiscard]] bool mayBegin(std::size_t i) const {
    return std::all_of(
        teams_.begin(), teams_.begin() + static_cast<std::ptrdiff_t>(i),
        [&](const Team& earlier) { return earlier.isOver() || !earlier.sharesStream(teams_[i]); });
  }

  /// Takes each team a round on that need not wait. Returns whether there was one.
  bool goOn() {
    std::vector<Team*> begun;
    for (std::size_t i = 0; i < teams_.size(); ++i) {
      Team& team = teams_[i];
      if (team.hasStarted() || team.isOver() || !mayBegin(i)) continue;
      if (team.begin()) begun.push_back(&team);
    }
    // In step as long as nothing forces them apart: where all ranks make the same group, their
    // devices mostly get the operations of all communicators in one order, which NCCL recommends.
    const bool isInStep = std::any_of(teams_.begin(), teams_.end(),
                                      [](const Team& team) { return team.keepsOthers(); });
    if (isInStep) begun.clear();
    start(begun);
    bool hasEnded = false;
    for (Team& team : teams_) {
      if (team.hasStarted()) hasEnded |= team.end();
    }
    return hasEnded || !begun.empty();
  }

  /// In one group, as the program had them: for some of what it does, NCCL waits there for other
  /// ranks, whose order of communicators may be another.
  void start(const std::vector<Team*>& begun) {
    const auto hasItems = [](const Team* team) { return team->hasItems(); };
    std::optional<transport::NcclGroup> group;
    if (std::any_of(begun.begin(), begun.end(), hasItems)) group.emplace(api_);
    for (Team* const team : begun) note(team->start());
    if (!group) return;
    note(group->end());
    for (Team* const team : begun) team->noteStarted();
  }

  /// Does what keeps the rest from going on, as far as this rank can.
  void wait(HostWait& waiting) {
    bool hasMoved = false;
    forCommunicators([&](NcclCommunicator& communicator) { hasMoved |= communicator.advance(); });
    if (hasMoved || !waiting.pause()) return;
    forCommunicators([](NcclCommunicator& communicator) { communicator.expectWell(); });
  }

  /// Those that are not over.
  template <class Use>
  void forCommunicators(const Use& use) const {
    for (const Team& team : teams_) {
      if (team.isOver()) continue;
      for (const auto& run : team.runs()) {
        if (run->communicator() != nullptr) use(*run->communicator());
      }
    }
  }

  void note(int result) {
    if (firstResult_ == transport::kNcclSuccess) firstResult_ = result;
  }

  const zipcclNcclApi& api_;
  std::vector<Team>& teams_;
  int firstResult_ = transport::kNcclSuccess;
};

}  // namespace

int runRounds(const zipcclNcclApi& api, std::span<const RoundCall> calls) {
  const auto isWanted = [](const RoundCall& call) {
    return call.communicator != nullptr && call.communicator->wants(*call.call);
  };
  if (std::none_of(calls.begin(), calls.end(), isWanted)) return callAllNative(api, calls);
  std::vector<Team> teams = makeTeams(api, calls);
  try {
    return Driver(api, teams).run();
  } catch (const Error& error) {
    for (const Team& team : teams) {
      for (const auto& run : team.runs()) {
        if (run->communicator() != nullptr) run->communicator()->fail(error);
      }
    }
    throw;
  }
}

}  // namespace zipccl::collectives
