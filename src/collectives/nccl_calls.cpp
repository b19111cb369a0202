// SPDX-License-Identifier: Apache-2.0
//
// From calls to phases.

#include "collectives/nccl_calls.hpp"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "collectives/buffers.hpp"

namespace zipccl::collectives {
namespace {

using transport::StreamHandle;

Datatype datatypeOfCall(const zipcclNcclCall& call) { return static_cast<Datatype>(call.datatype); }

std::uint64_t bytesOfCall(const zipcclNcclCall& call) {
  return call.count * elementBytesOfNccl(call.datatype);
}

bool isPointToPoint(const zipcclNcclCall& call) {
  return call.kind == zipcclNcclSend || call.kind == zipcclNcclRecv;
}

CallRange rangeOf(const zipcclNcclCall& call, policy::Strategy strategy) {
  const CallOutcome named = outcomeOf(call);
  if (!named.collective) return {};
  return {*named.collective, named.datatype, call.count, strategy};
}

/// One call, or all sends and receives of a communicator, in the making.
class PhaseBuilder {
 public:
  PhaseBuilder(const zipcclNcclApi& api, NcclCommunicator& communicator)
      : api_(api), communicator_(communicator) {}

  /// The call as it is.
  [[nodiscard]] Phase native(const zipcclNcclCall& call, const policy::Decision& decision) const {
    Phase phase;
    phase.range = rangeOf(call, decision.strategy);
    phase.lanes.push_back(makeNativeLane(api_, call));
    phase.addStream({call.stream});
    communicator_.countNative(call);
    const SharedOutcome outcome = newOutcome(call);
    outcome->decision = decision;
    outcome->inputBytes = bytesOfCall(call);
    return phase;
  }

  /// Whether what the call is decided on is known.
  [[nodiscard]] bool mayGather(const zipcclNcclCall& call) const {
    return communicator_.mayBegin(communicator_.calls, gatherClass(call));
  }

  [[nodiscard]] Phase gather(const zipcclNcclCall& call) const {
    const bool isBroadcast = call.kind == zipcclNcclBroadcast;
    const CollectiveKind collective = gatherClass(call).collective;
    const Datatype datatype = datatypeOfCall(call);
    const PairHistory::Message begun = communicator_.calls.begin(gatherClass(call));
    GatherWork work;
    work.plan = communicator_.plan(collective, datatype, call.count, begun.entry);
    if (work.plan.decision.strategy == policy::Strategy::kNative) {
      communicator_.calls.endNative(begun.number);
      return native(call, work.plan.decision);
    }
    work.source = call.sendbuff;
    work.target = call.recvbuff;
    work.datatype = datatype;
    work.stream = {call.stream};
    work.call = communicator_.callCount++;
    work.history = &communicator_.calls;
    work.number = begun.number;
    if (isBroadcast) work.root = call.peer;
    const std::uint64_t parts = isBroadcast ? 1 : ranks();
    for (std::uint64_t part = 0; part <= parts; ++part) {
      work.firstElement.push_back(part * call.count);
    }
    const bool hasInput = !isBroadcast || call.peer == communicator_.rank();
    Phase phase;
    phase.range = rangeOf(call, policy::Strategy::kStaged);
    addNativeForm(phase, collective, call, parts * bytesOfCall(call));
    addGather(phase, call, std::move(work), hasInput ? bytesOfCall(call) : 0);
    return phase;
  }

  /// The same of a ReduceScatter, or the reduction of an AllReduce. It may yet go as it is, without
  /// messages; but what those are decided on comes in any case.
  [[nodiscard]] bool mayReduceParts(const zipcclNcclCall& call) const {
    const CollectiveKind collective = reduceKind(call);
    const Datatype datatype = datatypeOfCall(call);
    return communicator_.mayBegin(communicator_.calls,
                                  classOf(collective, datatype, partElements(call))) &&
           mayReduce(communicator_, collective, datatype, firstElements(call));
  }

  [[nodiscard]] Phase reduceScatter(const zipcclNcclCall& call) const {
    ReduceWork work;
    const Reduction reduction = *NcclCommunicator::reductionOf(call.op);
    planReduction(work, call, reduction);
    if (work.plan.decision.strategy == policy::Strategy::kNative) {
      work.history->endNative(work.number);
      return native(call, work.plan.decision);
    }
    work.firstElement = firstElements(call);
    work.receive = call.recvbuff;
    const SharedOutcome outcome = newOutcome(call);
    outcome->inputBytes = bytesOfCall(call) * ranks();
    return reducePhase(call, std::move(work), reduction, outcome);
  }

  /// Two phases, decided on as one: the reduction of a part for each rank, and an all-gather.
  [[nodiscard]] std::vector<PhaseMaker> allReduce(const zipcclNcclCall& call) const {
    struct Both {
      bool isStaged = false;
      std::vector<std::uint64_t> firstElement;
      SharedOutcome outcome;
    };
    const auto both = std::make_shared<Both>();
    const PhaseBuilder builder = *this;
    const auto reduce = [builder, both, &call]() -> Phase {
      const Datatype datatype = datatypeOfCall(call);
      const Reduction reduction = *NcclCommunicator::reductionOf(call.op);
      ReduceWork work;
      builder.planReduction(work, call, reduction);
      both->isStaged = work.plan.decision.strategy == policy::Strategy::kStaged;
      if (!both->isStaged) {
        work.history->endNative(work.number);
        return builder.native(call, work.plan.decision);
      }
      both->firstElement = builder.firstElements(call);
      work.firstElement = both->firstElement;
      const std::uint64_t own =
          both->firstElement[static_cast<std::size_t>(builder.communicator_.rank())];
      work.receive = bytesAt(call.recvbuff, own * elementBytes(datatype));
      both->outcome = builder.newOutcome(call);
      both->outcome->inputBytes = bytesOfCall(call);
      Phase phase = builder.reducePhase(call, std::move(work), reduction, both->outcome);
      phase.isContinued = true;
      return phase;
    };
    const auto classOfGather = [both, &call] {
      return classOf(CollectiveKind::kAllReduce, datatypeOfCall(call), both->firstElement[1]);
    };
    const auto mayBeginGather = [builder, both, classOfGather] {
      NcclCommunicator& communicator = builder.communicator_;
      return !both->isStaged || communicator.mayBegin(communicator.gathers, classOfGather());
    };
    const auto gather = [builder, both, classOfGather, &call]() -> Phase {
      if (!both->isStaged) return {};
      NcclCommunicator& communicator = builder.communicator_;
      const Datatype datatype = datatypeOfCall(call);
      const PairHistory::Message begun = communicator.gathers.begin(classOfGather());
      GatherWork work;
      work.plan = communicator.planGather(datatype, both->firstElement[1], *begun.entry);
      work.source =
          bytesAt(call.recvbuff, both->firstElement[static_cast<std::size_t>(communicator.rank())] *
                                     elementBytes(datatype));
      work.target = call.recvbuff;
      work.firstElement = both->firstElement;
      work.datatype = datatype;
      work.stream = {call.stream};
      work.call = communicator.callCount++;
      work.history = &communicator.gathers;
      work.number = begun.number;
      Phase phase;
      phase.range = rangeOf(call, policy::Strategy::kStaged);
      phase.addStream(work.stream);
      phase.lanes.push_back(
          makeGatherLane(communicator, std::move(work), std::exchange(both->outcome, nullptr)));
      return phase;
    };
    return {{reduce, [builder, &call] { return builder.mayReduceParts(call); }},
            {gather, mayBeginGather}};
  }

  /// AlltoAll, Gather and Scatter: a message for each pair that has one.
  [[nodiscard]] Phase pairs(const zipcclNcclCall& call) const {
    const CollectiveKind collective = call.kind == zipcclNcclAlltoAll ? CollectiveKind::kAlltoAll
                                      : call.kind == zipcclNcclGather ? CollectiveKind::kGather
                                                                      : CollectiveKind::kScatter;
    const Datatype datatype = datatypeOfCall(call);
    // What no history can make worth while goes as one call.
    const Engine::Plan fresh = communicator_.plan(collective, datatype, call.count, nullptr);
    if (fresh.decision.strategy == policy::Strategy::kNative) return native(call, fresh.decision);

    const bool isAll = call.kind == zipcclNcclAlltoAll;
    const bool isRoot = call.peer == communicator_.rank();
    const bool sendsMany = isAll || (call.kind == zipcclNcclScatter && isRoot);
    const bool receivesMany = isAll || (call.kind == zipcclNcclGather && isRoot);
    const bool sendsOne = call.kind == zipcclNcclGather && !isRoot;
    const bool receivesOne = call.kind == zipcclNcclScatter && !isRoot;
    Phase phase;
    phase.range = rangeOf(call, policy::Strategy::kStaged);
    phase.addStream({call.stream});
    const SharedOutcome outcome = newOutcome(call);
    outcome->decision = fresh.decision;
    outcome->inputBytes =
        sendsMany ? bytesOfCall(call) * ranks() : (receivesOne ? 0 : bytesOfCall(call));
    const auto add = [&](int peer, bool isOut, std::uint64_t place) {
      PairMessage message{.source = nullptr,
                          .target = nullptr,
                          .elementCount = call.count,
                          .elementBytes = elementBytes(datatype),
                          .ncclDatatype = call.datatype,
                          .datatype = datatype,
                          .stream = {call.stream}};
      const std::uint64_t offset = place * bytesOfCall(call);
      if (isOut) {
        message.source = bytesAt(call.sendbuff, offset);
      } else {
        message.target = bytesAt(call.recvbuff, offset);
      }
      phase.lanes.push_back(
          makePairLane(communicator_, collective, peer, isOut, {message}, outcome));
    };
    for (int step = 1; step < communicator_.rankCount(); ++step) {
      const int to = (communicator_.rank() + step) % communicator_.rankCount();
      const int from =
          (communicator_.rank() - step + communicator_.rankCount()) % communicator_.rankCount();
      if (sendsMany) add(to, true, static_cast<std::uint64_t>(to));
      if (receivesMany) add(from, false, static_cast<std::uint64_t>(from));
    }
    if (sendsOne) add(call.peer, true, 0);
    if (receivesOne) add(call.peer, false, 0);
    addOwnCopy(phase, call, sendsMany, receivesMany);
    return phase;
  }

  [[nodiscard]] Phase pointToPoint(std::span<const zipcclNcclCall* const> calls) const {
    Phase phase;
    phase.range = CallRange(calls.size());
    const SharedOutcome outcome = newOutcome(*calls.front());
    std::map<std::pair<int, bool>, std::vector<PairMessage>> messages;
    for (const zipcclNcclCall* call : calls) {
      const bool isOut = call->kind == zipcclNcclSend;
      phase.addStream({call->stream});
      PairMessage message{.source = call->sendbuff,
                          .target = call->recvbuff,
                          .elementCount = call->count,
                          .elementBytes = elementBytesOfNccl(call->datatype),
                          .ncclDatatype = call->datatype,
                          .datatype = std::nullopt,
                          .stream = {call->stream}};
      if (communicator_.wants(*call)) message.datatype = datatypeOfCall(*call);
      if (isOut) outcome->inputBytes += bytesOfCall(*call);
      messages[{call->peer, isOut}].push_back(message);
    }
    for (auto& [pair, list] : messages) {
      phase.lanes.push_back(makePairLane(communicator_, CollectiveKind::kSendRecv, pair.first,
                                         pair.second, std::move(list), outcome));
    }
    return phase;
  }

 private:
  [[nodiscard]] std::uint64_t ranks() const {
    return static_cast<std::uint64_t>(communicator_.rankCount());
  }

  /// The outcome of a call, or of a group of which this is the first.
  [[nodiscard]] SharedOutcome newOutcome(const zipcclNcclCall& call) const {
    SharedOutcome outcome(new CallOutcome(outcomeOf(call)),
                          [&communicator = communicator_](CallOutcome* made) {
                            communicator.record(*made);
                            delete made;
                          });
    return outcome;
  }

  [[nodiscard]] static ClassKey gatherClass(const zipcclNcclCall& call) {
    const CollectiveKind collective =
        call.kind == zipcclNcclBroadcast ? CollectiveKind::kBroadcast : CollectiveKind::kAllGather;
    return classOf(collective, datatypeOfCall(call), call.count);
  }

  // Of a ReduceScatter or an AllReduce.
  [[nodiscard]] static CollectiveKind reduceKind(const zipcclNcclCall& call) {
    return call.kind == zipcclNcclAllReduce ? CollectiveKind::kAllReduce
                                            : CollectiveKind::kReduceScatter;
  }
  /// Of each rank's part but smaller ones at the end.
  [[nodiscard]] std::uint64_t partElements(const zipcclNcclCall& call) const {
    return call.kind == zipcclNcclAllReduce ? allReducePart(call.count, communicator_.rankCount())
                                            : call.count;
  }
  /// Of each part, and the end of all.
  [[nodiscard]] std::vector<std::uint64_t> firstElements(const zipcclNcclCall& call) const {
    const std::uint64_t end = call.kind == zipcclNcclAllReduce ? call.count : ranks() * call.count;
    std::vector<std::uint64_t> first;
    for (std::uint64_t rank = 0; rank <= ranks(); ++rank) {
      first.push_back(std::min(rank * partElements(call), end));
    }
    return first;
  }

  void planReduction(ReduceWork& work, const zipcclNcclCall& call,
                     const Reduction& reduction) const {
    const Datatype datatype = datatypeOfCall(call);
    const std::uint64_t elements = partElements(call);
    work.collective = reduceKind(call);
    work.history = &communicator_.calls;
    const PairHistory::Message begun =
        work.history->begin(classOf(work.collective, datatype, elements));
    work.number = begun.number;
    work.plan =
        communicator_.planReduction(work.collective, datatype, elements, reduction, begun.entry);
  }

  /// Of a compressed call that is to be verified: its native form, beside the first chunk.
  void addNativeForm(Phase& phase, CollectiveKind collective, const zipcclNcclCall& call,
                     std::uint64_t resultBytes) const {
    NcclVerifier* const verifier = communicator_.verifier.get();
    if (verifier == nullptr || !verifier->takesCollective()) return;
    zipcclNcclCall native = call;
    native.recvbuff = verifier->expect({.collective = collective,
                                        .datatype = datatypeOfCall(call),
                                        .elementCount = call.count,
                                        .maker = std::nullopt},
                                       call.recvbuff, resultBytes);
    phase.lanes.push_back(makeNativeLane(api_, native));
  }

  void addGather(Phase& phase, const zipcclNcclCall& call, GatherWork work,
                 std::uint64_t inputBytes) const {
    const SharedOutcome outcome = newOutcome(call);
    outcome->decision = work.plan.decision;
    outcome->inputBytes = inputBytes;
    outcome->stagedInputBytes = inputBytes;
    phase.addStream(work.stream);
    phase.lanes.push_back(makeGatherLane(communicator_, std::move(work), outcome));
  }

  [[nodiscard]] Phase reducePhase(const zipcclNcclCall& call, ReduceWork work,
                                  const Reduction& reduction, const SharedOutcome& outcome) const {
    work.send = call.sendbuff;
    work.datatype = datatypeOfCall(call);
    work.factor = factorOf(reduction, work.datatype, communicator_.rankCount());
    work.stream = {call.stream};
    outcome->decision = work.plan.decision;
    Phase phase;
    phase.range = rangeOf(call, policy::Strategy::kStaged);
    phase.addStream(work.stream);
    // What is added up in another order than NCCL's has other bits.
    if (work.plan.facts.keepsRounding) {
      addNativeForm(phase, work.collective, call, bytesOfCall(call));
    }
    phase.lanes.push_back(makeReduceLane(communicator_, std::move(work), outcome));
    return phase;
  }

  void addOwnCopy(Phase& phase, const zipcclNcclCall& call, bool sendsMany,
                  bool receivesMany) const {
    if (!sendsMany && !receivesMany) return;
    const std::uint64_t offset =
        static_cast<std::uint64_t>(communicator_.rank()) * bytesOfCall(call);
    const std::byte* from = bytesAt(call.sendbuff, sendsMany ? offset : 0);
    std::byte* to = bytesAt(call.recvbuff, receivesMany ? offset : 0);
    if (from == to) return;
    phase.copyOwn = [&communicator = communicator_, from, to, bytes = bytesOfCall(call)] {
      communicator.device->copy(to, from, bytes, communicator.codecStream.get());
    };
  }

  const zipcclNcclApi& api_;
  NcclCommunicator& communicator_;
};

/// Without a communicator nothing is known but the call.
Phase plainPhase(const zipcclNcclApi& api, const zipcclNcclCall& call) {
  Phase phase;
  phase.lanes.push_back(makeNativeLane(api, call));
  phase.addStream({call.stream});
  return phase;
}

void addCollective(std::deque<PhaseMaker>& makers, const PhaseBuilder& builder,
                   const zipcclNcclCall& call) {
  switch (call.kind) {
    case zipcclNcclAllGather:
    case zipcclNcclBroadcast:
      makers.push_back({[builder, &call] { return builder.gather(call); },
                        [builder, &call] { return builder.mayGather(call); }});
      return;
    case zipcclNcclReduceScatter:
      makers.push_back({[builder, &call] { return builder.reduceScatter(call); },
                        [builder, &call] { return builder.mayReduceParts(call); }});
      return;
    case zipcclNcclAllReduce:
      for (PhaseMaker& maker : builder.allReduce(call)) makers.push_back(std::move(maker));
      return;
    case zipcclNcclAlltoAll:
    case zipcclNcclGather:
    case zipcclNcclScatter:
      makers.push_back({[builder, &call] { return builder.pairs(call); }, {}});
      return;
    case zipcclNcclReduce:
    case zipcclNcclSend:
    case zipcclNcclRecv:
    case zipcclNcclNumKinds:
      break;
  }
  makers.push_back({[builder, &call] {
                      return builder.native(call, {.reason = policy::Reason::kOtherOperation});
                    },
                    {}});
}

}  // namespace

void Phase::addStream(StreamHandle stream) {
  const auto same = [&](StreamHandle each) { return each.native == stream.native; };
  if (std::none_of(streams.begin(), streams.end(), same)) streams.push_back(stream);
}

std::deque<PhaseMaker> makePhases(const zipcclNcclApi& api, NcclCommunicator* communicator,
                                  std::span<const zipcclNcclCall* const> calls) {
  std::deque<PhaseMaker> makers;
  if (communicator == nullptr) {
    for (const zipcclNcclCall* call : calls) {
      makers.push_back({[&api, call] { return plainPhase(api, *call); }, {}});
    }
    return makers;
  }
  const PhaseBuilder builder(api, *communicator);
  std::vector<const zipcclNcclCall*> messages;
  for (const zipcclNcclCall* call : calls) {
    if (isPointToPoint(*call)) {
      messages.push_back(call);
    } else if (communicator->wants(*call)) {
      addCollective(makers, builder, *call);
    } else {
      makers.push_back(
          {[builder, call] { return builder.native(*call, {.reason = policy::Reason::kNoFormat}); },
           {}});
    }
  }
  if (!messages.empty()) {
    makers.push_back(
        {[builder, messages = std::move(messages)] { return builder.pointToPoint(messages); }, {}});
  }
  return makers;
}

}  // namespace zipccl::collectives
