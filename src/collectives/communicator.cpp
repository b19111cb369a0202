// SPDX-License-Identifier: Apache-2.0
//
// The communicator: creation, the frame around every collective, errors that stick.

#include "collectives/communicator.hpp"

#include <exception>
#include <new>
#include <utility>

#include "base/log.hpp"
#include "collectives/all_gather.hpp"
#include "collectives/frame_geometry.hpp"
#include "collectives/handshake.hpp"
#include "collectives/profile_measurement.hpp"

namespace zipccl::collectives {
namespace {

/// Marks the communicator as in use, for as long as it lives.
class BusyGuard {
 public:
  BusyGuard(std::atomic<bool>& isBusy, int rank) : isBusy_(isBusy) {
    expects(!isBusy_.exchange(true, std::memory_order_acquire), ErrorCode::kInvalidUsage,
            "another thread is inside a collective on this communicator (rank ", rank, ")");
  }
  BusyGuard(const BusyGuard&) = delete;
  BusyGuard& operator=(const BusyGuard&) = delete;
  ~BusyGuard() { isBusy_.store(false, std::memory_order_release); }

 private:
  std::atomic<bool>& isBusy_;
};

}  // namespace

Engine::Plan Engine::plan(CollectiveKind collective, Datatype datatype,
                          std::uint64_t elementCount) const {
  Plan result;
  policy::CallFacts& facts = result.facts;
  facts.collective = collective;
  facts.elementCount = elementCount;
  facts.rankCount = rankCount();
  facts.compressionAgreed = compressionAgreed;
  facts.settings = settings;
  if (const std::optional<codec::Datatype> coded = codedDatatype(datatype)) {
    facts.hasFormat = true;
    facts.geometry = frameGeometry(*coded);
    result.classEntry = &classes.use(classOf(collective, datatype, elementCount), call);
    facts.statistics = result.classEntry->statistics;
  }
  result.decision = policy::decide(facts, profile);

  ClassTable::Entry* entry = result.classEntry;
  if (entry != nullptr && rank() == 0 &&
      (!entry->wasLogged || entry->logged != result.decision.reason)) {
    entry->wasLogged = true;
    entry->logged = result.decision.reason;
    logInfo(LogSubsystem::kTuning, collectiveName(collective), " of ", elementCount, ' ',
            datatypeName(datatype), " on ", rankCount(),
            " ranks: ", policy::describe(result.decision));
  }
  return result;
}

Communicator::Communicator(std::unique_ptr<transport::Transport> transport,
                           std::unique_ptr<FrameCodec> codec, const CommunicatorSettings& settings)
    : transport_(std::move(transport)),
      codec_(std::move(codec)),
      settings_(settings.agreed),
      scratch_(*codec_, *transport_, settings.agreed.maxScratchBytes),
      reports_(static_cast<std::size_t>(transport_->rankCount())),
      statuses_(static_cast<std::size_t>(transport_->rankCount())) {
  expects(codec_->memoryKind() == transport_->memoryKind(),
          "the codec and the transport work on different kinds of memory");
  expects(settings.timeout.count() >= 0, "a time limit of ", settings.timeout.count(), " ms");
  transport_->setTimeout(settings.timeout);
  const Agreement agreement =
      shakeHands(*transport_, makeRecord(settings.agreed, settings.profile));
  compressionAgreed_ = agreement.compressionAgreed;
  differences_ = agreement.differences;
  if (agreement.profile) {
    profile_ = *agreement.profile;
  } else if (compressionAgreed_ && settings_.strategy == StrategyChoice::kAuto && rankCount() > 1) {
    profile_ = measureProfile(*transport_, *codec_, settings_.maxScratchBytes);
  }
  wireBytesBefore_ = transport_->statistics().wireBytes;
}

void Communicator::allGather(const void* send, void* receive, std::uint64_t elementCount,
                             Datatype datatype, transport::StreamHandle stream) {
  const AllGatherArguments arguments{send, receive, elementCount, datatype, stream};
  check(arguments, rank(), rankCount());
  run([&](Engine& engine) { return collectives::allGather(engine, arguments); });
}

void Communicator::run(const std::function<CallOutcome(Engine&)>& collective) {
  const BusyGuard busy(isBusy_, rank());
  if (const std::optional<Error> error = asyncError()) {
    transport_->tellOthers();
    throw *error;
  }
  Engine engine{*transport_, *codec_,   scratch_, classes_,           reports_,
                statuses_,   settings_, profile_, compressionAgreed_, callCount_++};
  try {
    record(collective(engine));
  } catch (const Error& error) {
    end(error);
  } catch (const std::bad_alloc&) {
    end(Error(ErrorCode::kSystemError, "out of memory"));
  } catch (const std::exception& error) {
    end(Error(ErrorCode::kInternalError, error.what()));
  }
}

void Communicator::record(const CallOutcome& outcome) {
  const std::lock_guard lock(mutex_);
  const bool isStaged = outcome.decision.strategy == policy::Strategy::kStaged;
  statistics_.nativeCalls += isStaged ? 0 : 1;
  statistics_.stagedCalls += isStaged ? 1 : 0;
  statistics_.dynamicCalls += outcome.hadDynamicPart ? 1 : 0;
  statistics_.inputBytes += outcome.inputBytes;
  statistics_.stagedInputBytes += isStaged ? outcome.inputBytes : 0;
  statistics_.encodedBytes += outcome.encodedBytes;
  statistics_.wireBytesSent = transport_->statistics().wireBytes - wireBytesBefore_;
  statistics_.chunks += outcome.chunks;
  statistics_.scratchBytes = scratch_.heldBytes();
  statistics_.lastDecision = outcome.decision;
}

void Communicator::end(const Error& error) {
  // The caller's arguments passed their check: one that is wrong by now is this library's fault.
  const Error sticky = error.code() == ErrorCode::kInvalidArgument
                           ? Error(ErrorCode::kInternalError, error.message(), error.where())
                           : error;
  {
    const std::lock_guard lock(mutex_);
    if (!failure_) failure_ = sticky;
  }
  if (!transport_->hasFailed()) {
    transport_->abort(sticky.message());
    logWarn("rank ", rank(), " of ", rankCount(), ": a collective failed: ", sticky.what());
  }
  transport_->tellOthers();
  throw sticky;
}

void Communicator::abort() noexcept { transport_->abort("the application aborted"); }

std::optional<Error> Communicator::asyncError() const {
  {
    const std::lock_guard lock(mutex_);
    if (failure_) return failure_;
  }
  return transport_->failure();
}

CommunicatorStatistics Communicator::statistics() const {
  const std::lock_guard lock(mutex_);
  return statistics_;
}

}  // namespace zipccl::collectives
