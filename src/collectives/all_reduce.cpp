// SPDX-License-Identifier: Apache-2.0
//
// AllReduce.

#include "collectives/all_reduce.hpp"

#include <algorithm>
#include <vector>

#include "collectives/all_gather.hpp"
#include "collectives/buffers.hpp"
#include "collectives/reduce_scatter.hpp"

namespace zipccl::collectives {

void check(const AllReduceArguments& arguments, int /*rank*/, int /*rankCount*/) {
  checkReduction(arguments.reduction, arguments.datatype);
  checkCount("count", arguments.elementCount, arguments.datatype, 1);
  checkBuffer("sendbuff", arguments.send, "count", arguments.elementCount);
  checkBuffer("recvbuff", arguments.receive, "count", arguments.elementCount);
  checkSameOrApart(arguments.send, arguments.receive,
                   arguments.elementCount * elementBytes(arguments.datatype));
}

CallOutcome run(Engine& engine, const AllReduceArguments& arguments) {
  const auto ranks = static_cast<std::uint64_t>(engine.rankCount());
  const std::uint64_t shardElements = (arguments.elementCount + ranks - 1) / ranks;
  const Engine::Plan plan = engine.planReduction(CollectiveKind::kAllReduce, arguments.datatype,
                                                 shardElements, arguments.reduction);
  std::vector<std::uint64_t> firstElement;
  for (std::uint64_t rank = 0; rank <= ranks; ++rank) {
    firstElement.push_back(std::min(rank * shardElements, arguments.elementCount));
  }
  const std::uint64_t ownAt =
      firstElement[static_cast<std::size_t>(engine.rank())] * elementBytes(arguments.datatype);
  const bool isEmpty = arguments.elementCount == 0;
  CallOutcome outcome =
      reduceParts(engine,
                  {.collective = CollectiveKind::kAllReduce,
                   .send = arguments.send,
                   .firstElement = firstElement,
                   .receive = isEmpty ? nullptr : bytesAt(arguments.receive, ownAt),
                   .datatype = arguments.datatype,
                   .reduction = arguments.reduction,
                   .stream = arguments.stream},
                  plan.decision.strategy);
  const CallOutcome gathered = gatherParts(engine,
                                           {.collective = CollectiveKind::kAllReduce,
                                            .buffer = arguments.receive,
                                            .firstElement = firstElement,
                                            .datatype = arguments.datatype,
                                            .stream = arguments.stream},
                                           plan.decision.strategy);
  endReduction(plan, outcome);
  outcome.inputBytes = arguments.elementCount * elementBytes(arguments.datatype);
  // What is gathered was made here: it is no input.
  outcome.encodedBytes += gathered.encodedBytes;
  outcome.plainBytes += gathered.plainBytes;
  outcome.chunks += gathered.chunks;
  outcome.hadDynamicPart = outcome.hadDynamicPart || gathered.hadDynamicPart;
  return outcome;
}

}  // namespace zipccl::collectives
