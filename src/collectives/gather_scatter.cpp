// SPDX-License-Identifier: Apache-2.0
//
// Gather and Scatter.

#include "collectives/gather_scatter.hpp"

#include <vector>

#include "collectives/buffers.hpp"
#include "collectives/pair_exchange.hpp"

namespace zipccl::collectives {
namespace {

/// The buffer with a part of every rank, `all`, which only the root has, and the one with this
/// rank's part.
void checkParts(std::string_view countName, const void* all, std::string_view allName,
                const void* own, std::string_view ownName, std::uint64_t elementCount,
                Datatype datatype, int root, int rank, int rankCount) {
  checkRank("root", root, rankCount);
  checkCount(countName, elementCount, datatype, rankCount);
  checkBuffer(ownName, own, countName, elementCount);
  if (rank != root || elementCount == 0) return;
  checkBuffer(allName, all, countName, elementCount);
  checkOwnPart(allName, all, ownName, own, elementCount * elementBytes(datatype), "the root's",
               root, rankCount);
}

}  // namespace

void check(const GatherArguments& arguments, int rank, int rankCount) {
  checkParts("sendcount", arguments.receive, "recvbuff", arguments.send, "sendbuff",
             arguments.elementCount, arguments.datatype, arguments.root, rank, rankCount);
}

void check(const ScatterArguments& arguments, int rank, int rankCount) {
  checkParts("recvcount", arguments.send, "sendbuff", arguments.receive, "recvbuff",
             arguments.elementCount, arguments.datatype, arguments.root, rank, rankCount);
}

CallOutcome run(Engine& engine, const GatherArguments& arguments) {
  const OutMessage send{arguments.root, arguments.send, arguments.elementCount, arguments.datatype};
  std::vector<InMessage> receives;
  if (engine.rank() == arguments.root && arguments.elementCount != 0) {
    const std::uint64_t partBytes = arguments.elementCount * elementBytes(arguments.datatype);
    for (int rank = 0; rank < engine.rankCount(); ++rank) {
      receives.push_back({rank,
                          bytesAt(arguments.receive, static_cast<std::uint64_t>(rank) * partBytes),
                          arguments.elementCount, arguments.datatype});
    }
  }
  return PairExchange(engine, CollectiveKind::kGather, {&send, 1}, receives, arguments.stream)
      .run();
}

CallOutcome run(Engine& engine, const ScatterArguments& arguments) {
  const InMessage receive{arguments.root, arguments.receive, arguments.elementCount,
                          arguments.datatype};
  std::vector<OutMessage> sends;
  if (engine.rank() == arguments.root && arguments.elementCount != 0) {
    const std::uint64_t partBytes = arguments.elementCount * elementBytes(arguments.datatype);
    for (int rank = 0; rank < engine.rankCount(); ++rank) {
      sends.push_back({rank, bytesAt(arguments.send, static_cast<std::uint64_t>(rank) * partBytes),
                       arguments.elementCount, arguments.datatype});
    }
  }
  return PairExchange(engine, CollectiveKind::kScatter, sends, {&receive, 1}, arguments.stream)
      .run();
}

}  // namespace zipccl::collectives
