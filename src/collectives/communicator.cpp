// SPDX-License-Identifier: Apache-2.0
//
// The communicator: creation, the frame around every collective, errors that stick.

#include "collectives/communicator.hpp"

#include <algorithm>
#include <cmath>
#include <exception>
#include <new>
#include <utility>

#include "base/log.hpp"
#include "collectives/all_gather.hpp"
#include "collectives/all_reduce.hpp"
#include "collectives/all_to_all.hpp"
#include "collectives/broadcast.hpp"
#include "collectives/frame_geometry.hpp"
#include "collectives/gather_scatter.hpp"
#include "collectives/handshake.hpp"
#include "collectives/profile_measurement.hpp"
#include "collectives/reduce_scatter.hpp"
#include "collectives/send_receive.hpp"
#include "collectives/statistics_file.hpp"

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

constexpr CollectiveKind kindOf(const AllGatherArguments&) { return CollectiveKind::kAllGather; }
constexpr CollectiveKind kindOf(const AllToAllArguments&) { return CollectiveKind::kAlltoAll; }
constexpr CollectiveKind kindOf(const AllToAllvArguments&) { return CollectiveKind::kAlltoAllv; }
constexpr CollectiveKind kindOf(const AllReduceArguments&) { return CollectiveKind::kAllReduce; }
constexpr CollectiveKind kindOf(const BroadcastArguments&) { return CollectiveKind::kBroadcast; }
constexpr CollectiveKind kindOf(const GatherArguments&) { return CollectiveKind::kGather; }
constexpr CollectiveKind kindOf(const ScatterArguments&) { return CollectiveKind::kScatter; }
constexpr CollectiveKind kindOf(const ReduceScatterArguments&) {
  return CollectiveKind::kReduceScatter;
}
constexpr CollectiveKind kindOf(const PointToPoint&) { return CollectiveKind::kSendRecv; }

/// The outcome of a call, or of a group of which these arguments are the first.
template <class Arguments>
CallOutcome named(CallOutcome outcome, const Arguments& arguments) {
  outcome.collective = kindOf(arguments);
  outcome.datatype = arguments.datatype;
  return outcome;
}

}  // namespace

Engine::Plan Engine::plan(CollectiveKind collective, Datatype datatype,
                          std::uint64_t elementCount) const {
  Plan result;
  if (codedDatatype(datatype)) {
    result.classEntry = &classes.use(classOf(collective, datatype, elementCount), call);
  }
  result.facts.settings = settings;
  decide(result, collective, datatype, elementCount);
  return result;
}

void Engine::Plan::endStaged(const policy::ExtraSpace& seen) const {
  if (classEntry == nullptr) return;
  classEntry->statistics = policy::afterStaged(classEntry->statistics, seen);
}

void Engine::Plan::endNative() const {
  if (classEntry == nullptr) return;
  classEntry->statistics = policy::afterNative(classEntry->statistics);
}

void Engine::Plan::decide(CollectiveKind collective, Datatype datatype, std::uint64_t elementCount,
                          const policy::Profile& byProfile, int rank) {
  facts.collective = collective;
  facts.elementCount = elementCount;
  if (const std::optional<codec::Datatype> coded = codedDatatype(datatype)) {
    facts.hasFormat = true;
    facts.geometry = frameGeometry(*coded);
  }
  if (classEntry != nullptr) facts.statistics = classEntry->statistics;
  decision = policy::decide(facts, byProfile);

  if (classEntry != nullptr && rank == 0 &&
      (!classEntry->wasLogged || classEntry->logged != decision.reason)) {
    classEntry->wasLogged = true;
    classEntry->logged = decision.reason;
    logInfo(LogSubsystem::kTuning, collectiveName(collective), " of ", elementCount, ' ',
            datatypeName(datatype), " on ", facts.rankCount,
            " ranks: ", policy::describe(decision));
  }
}

Engine::Plan Engine::planReduction(CollectiveKind collective, Datatype datatype,
                                   std::uint64_t elementCount, const Reduction& reduction) const {
  Plan result;
  if (codedDatatype(datatype)) {
    result.classEntry = &classes.use(classOf(collective, datatype, elementCount), call);
    result.facts.isScaledSum = isScaledSum(reduction);
    // On two ranks all orders give one sum, and a power of two scales without rounding.
    int exponent = 0;
    result.facts.keepsRounding =
        rankCount() <= 2 && result.facts.isScaledSum &&
        std::fabs(std::frexp(factorOf(reduction, datatype, rankCount()), &exponent)) == 0.5F;
  }
  result.facts.settings = settings;
  decide(result, collective, datatype, elementCount);
  return result;
}

Engine::Plan Engine::planGather(CollectiveKind collective, Datatype datatype,
                                std::uint64_t elementCount) const {
  Plan result;
  result.classEntry = &gatherClasses.use(classOf(collective, datatype, elementCount), call);
  result.facts.settings = settings.forPartOfCall(StrategyChoice::kStaged);
  decide(result, CollectiveKind::kAllGather, datatype, elementCount);
  invariant(result.decision.strategy == policy::Strategy::kStaged,
            "a gather without room in the scratch of the reduction before it");
  return result;
}

Engine::Plan Engine::planMessage(CollectiveKind collective, Datatype datatype,
                                 std::uint64_t elementCount, ClassTable::Entry* classEntry,
                                 std::optional<StrategyChoice> strategy) const {
  Plan result;
  result.classEntry = classEntry;
  result.facts.settings = strategy ? settings.forPartOfCall(*strategy) : settings;
  result.facts.isScaledSum = strategy.has_value();
  decide(result, collective, datatype, elementCount);
  return result;
}

void Engine::decide(Plan& plan, CollectiveKind collective, Datatype datatype,
                    std::uint64_t elementCount) const {
  plan.facts.rankCount = rankCount();
  plan.facts.compressionAgreed = compressionAgreed;
  plan.facts.isProfileGiven = isProfileGiven;
  plan.facts.linkIsMemory = transport.isMemory();
  if (transport.usesCoreOfRank()) plan.facts.codecLeadNeeded = policy::kSharedCoreLead;
  plan.decide(collective, datatype, elementCount, profile, rank());
}

void CommunicatorStatistics::add(const CallOutcome& outcome) {
  const bool isStaged = outcome.decision.strategy == policy::Strategy::kStaged;
  nativeCalls += isStaged ? 0 : 1;
  stagedCalls += isStaged ? 1 : 0;
  dynamicCalls += outcome.hadDynamicPart ? 1 : 0;
  inputBytes += outcome.inputBytes;
  stagedInputBytes += outcome.stagedInputBytes;
  encodedBytes += outcome.encodedBytes;
  chunks += outcome.chunks;
  lastDecision = outcome.decision;
}

Communicator::Communicator(std::unique_ptr<transport::Transport> transport,
                           std::unique_ptr<FrameCodec> codec, const CommunicatorSettings& settings)
    : transport_(std::move(transport)),
      codec_(std::move(codec)),
      settings_(settings.agreed),
      scratch_(*codec_, *transport_,
               std::max(settings.agreed.maxScratchBytes,
                        kNativeReduceBytesOfRank *
                            static_cast<std::uint64_t>(transport_->rankCount() - 1))),
      peers_(static_cast<std::size_t>(transport_->rankCount())),
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
  isProfileGiven_ = agreement.profile.has_value();
  leastScratchBytes_ = agreement.leastScratchBytes;
  if (agreement.profile) {
    profile_ = *agreement.profile;
  } else if (compressionAgreed_ && settings_.strategy == StrategyChoice::kAuto && rankCount() > 1 &&
             !transport_->isMemory()) {
    profile_ = measureProfile(*transport_, *codec_, settings_.maxScratchBytes);
  }
  wireBytesBefore_ = transport_->statistics().wireBytes;
  startStatistics(rank(), rankCount());
}

template <class Arguments>
void Communicator::check(const Arguments& arguments) const {
  collectives::check(arguments, rank(), rankCount());
}

template <class Arguments>
void Communicator::call(const Arguments& arguments) {
  check(arguments);
  run(Participants::kAllRanks,
      [&](Engine& engine) { return named(collectives::run(engine, arguments), arguments); });
}

template void Communicator::check(const AllGatherArguments&) const;
template void Communicator::check(const AllToAllArguments&) const;
template void Communicator::check(const AllToAllvArguments&) const;
template void Communicator::check(const ReduceScatterArguments&) const;
template void Communicator::check(const AllReduceArguments&) const;
template void Communicator::check(const BroadcastArguments&) const;
template void Communicator::check(const GatherArguments&) const;
template void Communicator::check(const ScatterArguments&) const;
template void Communicator::check(const PointToPoint&) const;
template void Communicator::call(const AllGatherArguments&);
template void Communicator::call(const AllToAllArguments&);
template void Communicator::call(const AllToAllvArguments&);
template void Communicator::call(const ReduceScatterArguments&);
template void Communicator::call(const AllReduceArguments&);
template void Communicator::call(const BroadcastArguments&);
template void Communicator::call(const GatherArguments&);
template void Communicator::call(const ScatterArguments&);

void Communicator::allGather(const void* send, void* receive, std::uint64_t elementCount,
                             Datatype datatype, transport::StreamHandle stream) {
  call(AllGatherArguments{send, receive, elementCount, datatype, stream});
}

void Communicator::sendReceive(const PointToPoint& operation, transport::StreamHandle stream) {
  check(operation);
  run(Participants::kSomeRanks, [&](Engine& engine) {
    return named(sendReceiveAlone(engine, operation, stream), operation);
  });
}

void Communicator::sendReceiveGroup(std::span<const PointToPoint> operations,
                                    transport::StreamHandle stream) {
  for (const PointToPoint& operation : operations) check(operation);
  run(Participants::kSomeRanks, [&](Engine& engine) {
    CallOutcome outcome = collectives::sendReceiveGroup(engine, operations, stream);
    return operations.empty() ? outcome : named(outcome, operations.front());
  });
}

void Communicator::run(Participants participants, const std::function<CallOutcome(Engine&)>& call) {
  const BusyGuard busy(isBusy_, rank());
  if (const std::optional<Error> error = asyncError()) {
    transport_->tellOthers();
    throw *error;
  }
  Engine engine{.transport = *transport_,
                .codec = *codec_,
                .scratch = scratch_,
                .classes = classes_,
                .gatherClasses = gatherClasses_,
                .peers = peers_,
                .reports = reports_,
                .statuses = statuses_,
                .requests = requests_,
                .settings = settings_,
                .profile = profile_,
                .compressionAgreed = compressionAgreed_,
                .isProfileGiven = isProfileGiven_,
                .leastScratchBytes = leastScratchBytes_,
                .call = callCount_};
  // Calls of some ranks are no part of the count that all ranks share.
  if (participants == Participants::kAllRanks) ++callCount_;
  try {
    record(call(engine));
  } catch (const Error& error) {
    end(error);
  } catch (const std::bad_alloc&) {
    end(Error(ErrorCode::kSystemError, "out of memory"));
  } catch (const std::exception& error) {
    end(Error(ErrorCode::kInternalError, error.what()));
  }
}

void Communicator::record(const CallOutcome& outcome) {
  recordCall(outcome);
  const std::lock_guard lock(mutex_);
  statistics_.add(outcome);
  statistics_.wireBytesSent = transport_->statistics().wireBytes - wireBytesBefore_;
  statistics_.scratchBytes = scratch_.heldBytes();
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
  // Only now, so that the cause is what the others are told.
  requests_.clear();
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
