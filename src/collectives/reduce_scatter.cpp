// SPDX-License-Identifier: Apache-2.0
//
// ReduceScatter.

#include "collectives/reduce_scatter.hpp"

#include <algorithm>
#include <array>
#include <vector>

#include "base/error.hpp"
#include "collectives/buffers.hpp"
#include "collectives/pair_exchange.hpp"

namespace zipccl::collectives {
namespace {

std::uint64_t partElements(const ReduceParts& parts, int rank) {
  const auto at = static_cast<std::size_t>(rank);
  return parts.firstElement[at + 1] - parts.firstElement[at];
}

const std::byte* partAt(const ReduceParts& parts, int rank) {
  return bytesAt(parts.send,
                 parts.firstElement[static_cast<std::size_t>(rank)] * elementBytes(parts.datatype));
}

/// This rank's parts for the others.
std::vector<OutMessage> outMessages(const Engine& engine, const ReduceParts& parts) {
  std::vector<OutMessage> sends;
  for (int rank = 0; rank < engine.rankCount(); ++rank) {
    if (rank == engine.rank()) continue;
    sends.push_back({rank, partAt(parts, rank), partElements(parts, rank), parts.datatype});
  }
  return sends;
}

/// The others' parts for this rank, which are received into scratch.
std::vector<InMessage> inMessages(const Engine& engine, const ReduceParts& parts) {
  std::vector<InMessage> receives;
  for (int rank = 0; rank < engine.rankCount(); ++rank) {
    if (rank == engine.rank()) continue;
    receives.push_back({rank, nullptr, partElements(parts, engine.rank()), parts.datatype});
  }
  return receives;
}

/// The staged form: decodes and adds a chunk once it is there of all ranks.
class StagedReduce final : public PairExchange {
 public:
  StagedReduce(Engine& engine, const ReduceParts& parts, std::span<const OutMessage> sends,
               std::span<const InMessage> receives)
      : PairExchange(engine, parts.collective, sends, receives, parts.stream,
                     StrategyChoice::kStaged),
        parts_(parts),
        addends_(static_cast<std::size_t>(engine.rankCount())) {}

 private:
  [[nodiscard]] bool takeComplete() override {
    if (incoming_.empty()) return false;
    for (const Pair& pair : incoming_) {
      if (!isOldestComplete(pair)) return false;
    }
    const ChunkFrame& frame = incoming_.front().item(incoming_.front().finishedCount).frame;
    const std::uint64_t offsetBytes = frame.firstElement * elementBytes(parts_.datatype);
    for (Pair& pair : incoming_) {
      const Item& item = pair.item(pair.finishedCount);
      addends_[static_cast<std::size_t>(pair.peer)] = {frameOf(pair, item), item.frame.spec,
                                                       nullptr};
    }
    addends_[static_cast<std::size_t>(engine_.rank())] = {
        {}, {}, partAt(parts_, engine_.rank()) + offsetBytes};
    engine_.codec.decodeReduce(parts_.datatype, frame.spec.elementCount, addends_,
                               factorOf(parts_.reduction, parts_.datatype, engine_.rankCount()),
                               bytesAt(parts_.receive, offsetBytes), engine_.statuses, stream_);
    engine_.codec.finish(stream_);
    for (Pair& pair : incoming_) {
      checkFrame(pair, engine_.statuses[static_cast<std::size_t>(pair.peer)]);
      finishOldest(pair);
    }
    return true;
  }

  const ReduceParts& parts_;
  std::vector<Addend> addends_;
};

/// The native form: bytes untouched, in chunks of which two are in flight.
class NativeReduce {
 public:
  NativeReduce(Engine& engine, const ReduceParts& parts)
      : engine_(engine),
        parts_(parts),
        ranks_(static_cast<std::uint64_t>(engine.rankCount())),
        bytesEach_(elementBytes(parts.datatype)),
        chunkElements_(nativeChunkElements(engine.leastScratchBytes, ranks_, bytesEach_)),
        addends_(ranks_) {
    for (int rank = 0; rank < engine.rankCount(); ++rank) {
      mostElements_ = std::max(mostElements_, partElements(parts, rank));
    }
    if (ranks_ > 1 && mostElements_ != 0) {
      const std::uint64_t slotElements = std::min(chunkElements_, mostElements_);
      scratch_ = engine.scratch.reserve(kInFlight * (ranks_ - 1) * slotElements * bytesEach_);
      slotBytes_ = slotElements * bytesEach_;
    }
  }

  void run() {
    const std::uint64_t chunks = (mostElements_ + chunkElements_ - 1) / chunkElements_;
    engine_.requests.resize(kInFlight);
    for (std::uint64_t chunk = 0; chunk < std::min(kInFlight, chunks); ++chunk) start(chunk);
    for (std::uint64_t chunk = 0; chunk < chunks; ++chunk) {
      engine_.transport.wait(engine_.requests[chunk % kInFlight]);
      reduce(chunk);
      if (chunk + kInFlight < chunks) start(chunk + kInFlight);
    }
  }

 private:
  static constexpr std::uint64_t kInFlight = 2;

  /// As many elements as all ranks have room for, whatever their settings are.
  static std::uint64_t nativeChunkElements(std::uint64_t leastScratchBytes, std::uint64_t ranks,
                                           std::uint64_t bytesEach) {
    constexpr std::uint64_t kMostBytes = std::uint64_t{1} << 20;
    const std::uint64_t slots = kInFlight * std::max(ranks - 1, std::uint64_t{1});
    const std::uint64_t bytes =
        std::clamp(leastScratchBytes / slots, kNativeReduceBytesOfRank / kInFlight, kMostBytes);
    return bytes / bytesEach;
  }

  [[nodiscard]] std::uint64_t chunkCount(int rank, std::uint64_t chunk) const {
    const std::uint64_t all = partElements(parts_, rank);
    const std::uint64_t first = std::min(chunk * chunkElements_, all);
    return std::min(chunkElements_, all - first);
  }

  [[nodiscard]] std::byte* slot(int rank, std::uint64_t chunk) const {
    const auto place = static_cast<std::uint64_t>(rank < engine_.rank() ? rank : rank - 1);
    return scratch_.data() + (chunk % kInFlight * (ranks_ - 1) + place) * slotBytes_;
  }

  void start(std::uint64_t chunk) {
    std::vector<transport::SendMessage> sends;
    std::vector<transport::ReceiveMessage> receives;
    const std::uint64_t ownElements = chunkCount(engine_.rank(), chunk);
    for (int step = 1; step < engine_.rankCount(); ++step) {
      const int peer = (engine_.rank() + step) % engine_.rankCount();
      const std::uint64_t elements = chunkCount(peer, chunk);
      if (elements != 0) {
        sends.push_back({peer, partAt(parts_, peer) + chunk * chunkElements_ * bytesEach_,
                         elements * bytesEach_, true});
      }
      if (ownElements != 0) {
        receives.push_back({peer, slot(peer, chunk), ownElements * bytesEach_, true});
      }
    }
    engine_.requests[chunk % kInFlight] =
        engine_.transport.startExchange(sends, receives, parts_.stream);
  }

  void reduce(std::uint64_t chunk) {
    const std::uint64_t elements = chunkCount(engine_.rank(), chunk);
    if (elements == 0) return;
    const std::uint64_t offsetBytes = chunk * chunkElements_ * bytesEach_;
    for (int rank = 0; rank < engine_.rankCount(); ++rank) {
      addends_[static_cast<std::size_t>(rank)] =
          rank == engine_.rank() ? partAt(parts_, rank) + offsetBytes : slot(rank, chunk);
    }
    engine_.codec.reduce(parts_.datatype, parts_.reduction, addends_, elements,
                         bytesAt(parts_.receive, offsetBytes), parts_.stream);
  }

  Engine& engine_;
  const ReduceParts& parts_;
  std::uint64_t ranks_;
  std::uint64_t bytesEach_;
  std::uint64_t chunkElements_;
  std::uint64_t mostElements_ = 0;
  std::uint64_t slotBytes_ = 0;
  std::span<std::byte> scratch_;
  std::vector<const void*> addends_;
};

}  // namespace

void checkReduction(const Reduction& reduction, Datatype datatype) {
  expects(canReduce(datatype), "a reduction (", reduceOpName(reduction.op), ") of ",
          datatypeName(datatype), ", which has no arithmetic here");
}

void check(const ReduceScatterArguments& arguments, int rank, int rankCount) {
  checkReduction(arguments.reduction, arguments.datatype);
  checkCount("recvcount", arguments.elementCount, arguments.datatype, rankCount);
  checkBuffer("sendbuff", arguments.send, "recvcount", arguments.elementCount);
  checkBuffer("recvbuff", arguments.receive, "recvcount", arguments.elementCount);
  checkOwnPart("sendbuff", arguments.send, "recvbuff", arguments.receive,
               arguments.elementCount * elementBytes(arguments.datatype), "this rank's", rank,
               rankCount);
}

void endReduction(const Engine::Plan& plan, CallOutcome& outcome) {
  outcome.decision = plan.decision;
  if (plan.decision.strategy == policy::Strategy::kNative) {
    plan.endNative();
  } else if (plan.facts.rankCount == 2) {
    plan.endStaged(outcome.extraSeen);
  }
}

CallOutcome reduceParts(Engine& engine, const ReduceParts& parts, policy::Strategy strategy) {
  if (strategy == policy::Strategy::kNative) {
    NativeReduce(engine, parts).run();
    return {};
  }
  const std::vector<OutMessage> sends = outMessages(engine, parts);
  const std::vector<InMessage> receives = inMessages(engine, parts);
  return StagedReduce(engine, parts, sends, receives).run();
}

CallOutcome run(Engine& engine, const ReduceScatterArguments& arguments) {
  const Engine::Plan plan = engine.planReduction(CollectiveKind::kReduceScatter, arguments.datatype,
                                                 arguments.elementCount, arguments.reduction);
  std::vector<std::uint64_t> firstElement;
  for (std::uint64_t rank = 0; rank <= static_cast<std::uint64_t>(engine.rankCount()); ++rank) {
    firstElement.push_back(rank * arguments.elementCount);
  }
  CallOutcome outcome = reduceParts(engine,
                                    {.collective = CollectiveKind::kReduceScatter,
                                     .send = arguments.send,
                                     .firstElement = firstElement,
                                     .receive = arguments.receive,
                                     .datatype = arguments.datatype,
                                     .reduction = arguments.reduction,
                                     .stream = arguments.stream},
                                    plan.decision.strategy);
  endReduction(plan, outcome);
  outcome.inputBytes = arguments.elementCount * elementBytes(arguments.datatype) *
                       static_cast<std::uint64_t>(engine.rankCount());
  return outcome;
}

}  // namespace zipccl::collectives
