// SPDX-License-Identifier: Apache-2.0
//
// Rounds. On this rank, for each communicator, with three streams besides the callers':
//
//   codec stream     encode 0 | encode 1 | decode 0 | encode 2 | decode 1 | ...
//   caller's stream             group 0  | group 1             | group 2  | ...
//   header stream                          headers 0           | headers 1
//
// Group k waits for encode k, decode k for group k; encode k + 2 uses the scratch of decode k,
// behind which it stands. The host puts decode k on its stream as soon as group k + 1 is on its
// own, and only then waits for headers k: in the steady state they tell of no dynamic part, and
// nothing on the device has waited for the host. Otherwise the dynamic parts travel, and the frames
// that have one are decoded once more.

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

/// The calls of one communicator, or those of none, which go as they are.
class CommunicatorRun {
 public:
  CommunicatorRun(const zipcclNcclApi& api, NcclCommunicator* communicator,
                  std::span<const zipcclNcclCall* const> calls)
      : communicator_(communicator), makers_(makePhases(api, communicator, calls)) {
    if (communicator_ != nullptr && communicator_->scratch.hasRetired()) freeRetired();
  }

  [[nodiscard]] NcclCommunicator* communicator() const noexcept { return communicator_; }

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
  [[nodiscard]] int startStatic(std::uint64_t number) {
    const std::optional<CurrentDevice> current = enter();
    int first = transport::kNcclSuccess;
    for (Entry& entry : roundOf(number).items) {
      const int result = entry.item->startStatic(link());
      if (first == transport::kNcclSuccess) first = result;
    }
    return first;
  }

  /// Sends for the headers of the round that has been started.
  void collectHeaders(std::uint64_t number) {
    Round& round = roundOf(number);
    if (round.frames.empty()) return;
    const std::optional<CurrentDevice> current = enter();
    NcclCommunicator& c = *communicator_;
    for (const StreamHandle stream : round.streams) {
      const transport::OwnedEvent& moved = c.movedEvent(number, round.moved.size());
      c.device->record(moved.get(), stream);
      c.device->wait(c.headerStream.get(), moved.get());
      round.moved.push_back(&moved);
    }
    std::vector<const std::byte*> at;
    at.reserve(round.frames.size());
    for (const RoundFrame* frame : round.frames) at.push_back(frame->at);
    c.codec->collectHeaders(at, headersOf(number), c.headerStream.get());
    c.device->record(c.headersHere[number % kInFlight].get(), c.headerStream.get());
  }

  /// Decodes on the assumption that nothing is dynamic.
  void decodeEarly(std::uint64_t number) {
    Round& round = roundOf(number);
    if (round.frames.empty()) return;
    const std::optional<CurrentDevice> current = enter();
    NcclCommunicator& c = *communicator_;
    for (const transport::OwnedEvent* moved : round.moved) {
      c.device->wait(c.codecStream.get(), moved->get());
    }
    decode(round, [](const RoundItem&) { return true; });
  }

  /// Waits for the headers.
  void learn(std::uint64_t number) {
    Round& round = roundOf(number);
    if (round.frames.empty()) return;
    const std::optional<CurrentDevice> current = enter();
    NcclCommunicator& c = *communicator_;
    c.await(c.headersHere[number % kInFlight].get());
    const std::byte* header = headersOf(number);
    for (RoundFrame* frame : round.frames) {
      const FrameReport report = readReport({header, codec::kHeaderBytes});
      checkReport(report, frame->chunk.spec, frame->place, c.rank(), frame->maker);
      frame->report = report;
      header += codec::kHeaderBytes;
    }
    for (Entry& entry : round.items) {
      if (!entry.item->isStaged()) continue;
      if (!entry.item->hasDynamicPart()) believe(entry);
      entry.item->learnt();
      round.hasDynamicPart |= entry.item->hasDynamicPart();
    }
  }

  [[nodiscard]] bool hasDynamicPart(std::uint64_t number) { return roundOf(number).hasDynamicPart; }

  /// Inside a group.
  void startDynamic(std::uint64_t number) {
    const std::optional<CurrentDevice> current = enter();
    for (Entry& entry : roundOf(number).items) {
      if (entry.item->hasDynamicPart()) entry.item->startDynamic(*link());
    }
  }

  void decodeDynamic(std::uint64_t number) {
    Round& round = roundOf(number);
    if (!round.hasDynamicPart) return;
    const std::optional<CurrentDevice> current = enter();
    for (const StreamHandle stream : round.streams) {
      follow(communicator_->codecStream.get(), stream);
    }
    decode(round, [](const RoundItem& item) { return item.hasDynamicPart(); });
    for (const Entry& entry : round.items) {
      if (entry.item->hasDynamicPart()) believe(entry);
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
    std::size_t status = 0;
  };
  struct Round {
    std::vector<Entry> items;
    std::vector<RoundFrame*> frames;    ///< whose headers are collected, in this order
    std::vector<StreamHandle> streams;  ///< of staged items, each once
    std::vector<const transport::OwnedEvent*> moved;  ///< static parts, on each of the streams
    bool hasDynamicPart = false;
  };

  [[nodiscard]] Round& roundOf(std::uint64_t number) { return rounds_[number % kInFlight]; }
  [[nodiscard]] transport::NcclLink* link() {
    return communicator_ != nullptr ? &communicator_->link : nullptr;
  }
  [[nodiscard]] std::optional<CurrentDevice> enter() const {
    if (communicator_ == nullptr) return std::nullopt;
    return std::optional<CurrentDevice>(std::in_place, *communicator_->device);
  }
  [[nodiscard]] std::byte* headersOf(std::uint64_t number) const {
    return communicator_->headers.data() +
           number % kInFlight * communicator_->mostHeaders() * codec::kHeaderBytes;
  }

  /// What is put on `stream` from now on waits for what `other` has now.
  void follow(StreamHandle stream, StreamHandle other) {
    communicator_->device->record(communicator_->moved.get(), other);
    communicator_->device->wait(stream, communicator_->moved.get());
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
    if (phase_->begin) {
      fork();
      phase_->begin();
    }
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
  }

  void endPhase() {
    if (wasStaged_) {
      NcclCommunicator& c = *communicator_;
      c.scratch.releaseAll();
      c.device->record(c.decoded.get(), c.codecStream.get());
      for (const StreamHandle stream : phase_->streams) c.device->wait(stream, c.decoded.get());
    }
    if (phase_->end) phase_->end();
    phase_.reset();
  }

  /// Native items up to a staged one; whether there was one.
  [[nodiscard]] bool startItems(Round& round, Lane& lane) {
    while (lane.mayStart()) {
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
      if (isStaged) return true;
    }
    return false;
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
      entry.item->addEncodes(c, jobs);
    }
    c.codec->encode(jobs, c.codecStream.get());
    // Also where there is nothing to encode: what is received goes where the frames of two rounds
    // ago were, which have then been decoded.
    c.device->record(c.encoded.get(), c.codecStream.get());
    for (const StreamHandle stream : round.streams) c.device->wait(stream, c.encoded.get());
  }

  template <class Wanted>
  void decode(Round& round, const Wanted& wanted) {
    for (Entry& entry : round.items) {
      if (!entry.item->isStaged() || !wanted(*entry.item)) continue;
      entry.status = communicator_->takeStatus();
      entry.item->decode(*communicator_->codec, communicator_->codecStream.get(),
                         communicator_->statusAt(entry.status));
    }
  }

  void believe(const Entry& entry) {
    const RoundFrame& frame = entry.item->frames.back();
    communicator_->believeStatus(entry.status, frame.place, frame.maker);
  }

  NcclCommunicator* communicator_;
  std::deque<PhaseMaker> makers_;
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
      return each.communicator == call.communicator;
    });
    if (group == groups.end()) group = groups.insert(groups.end(), {call.communicator, {}});
    group->calls.push_back(call.call);
  }
  std::vector<std::unique_ptr<CommunicatorRun>> runs;
  for (const Group& group : groups) {
    runs.push_back(std::make_unique<CommunicatorRun>(api, group.communicator, group.calls));
  }
  return runs;
}

/// The group as the program made it.
int callAllNative(const zipcclNcclApi& api, std::span<const RoundCall> calls) {
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
      for (const auto& run : runs_) hasItems |= run->begin(number);
      if (hasItems) start(number);
      if (hasPrevious) complete(number - 1);
      if (!hasItems && !hasPrevious) return firstResult_;
      hasPrevious = hasItems;
    }
  }

 private:
  void start(std::uint64_t number) {
    transport::NcclGroup group(api_);
    for (const auto& run : runs_) note(run->startStatic(number));
    note(group.end());
    for (const auto& run : runs_) run->collectHeaders(number);
  }

  void complete(std::uint64_t number) {
    for (const auto& run : runs_) run->decodeEarly(number);
    bool hasDynamicPart = false;
    for (const auto& run : runs_) {
      run->learn(number);
      hasDynamicPart |= run->hasDynamicPart(number);
    }
    if (hasDynamicPart) {
      transport::NcclGroup group(api_);
      for (const auto& run : runs_) run->startDynamic(number);
      note(group.end());
      for (const auto& run : runs_) run->decodeDynamic(number);
    }
    for (const auto& run : runs_) run->finish(number);
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
