// SPDX-License-Identifier: Apache-2.0
//
// Broadcast.

#include "collectives/broadcast.hpp"

#include <array>

#include "collectives/buffers.hpp"
#include "collectives/frame_gather.hpp"

namespace zipccl::collectives {

void check(const BroadcastArguments& arguments, int rank, int rankCount) {
  checkRank("root", arguments.root, rankCount);
  checkCount("count", arguments.elementCount, arguments.datatype, 1);
  checkBuffer("recvbuff", arguments.receive, "count", arguments.elementCount);
  if (rank != arguments.root) return;
  checkBuffer("sendbuff", arguments.send, "count", arguments.elementCount);
  checkSameOrApart(arguments.send, arguments.receive,
                   arguments.elementCount * elementBytes(arguments.datatype));
}

CallOutcome run(Engine& engine, const BroadcastArguments& arguments) {
  const Engine::Plan plan =
      engine.plan(CollectiveKind::kBroadcast, arguments.datatype, arguments.elementCount);
  if (plan.decision.strategy == policy::Strategy::kStaged) {
    const std::array<std::uint64_t, 2> firstElement = {0, arguments.elementCount};
    const GatherCall call{.source = arguments.send,
                          .target = arguments.receive,
                          .firstElement = firstElement,
                          .datatype = arguments.datatype,
                          .root = arguments.root,
                          .stream = arguments.stream};
    FrameGather gather(engine, call, plan);
    const CallOutcome outcome = gather.run();
    plan.endStaged(gather.extraSeen());
    return outcome;
  }
  const std::uint64_t bytes = arguments.elementCount * elementBytes(arguments.datatype);
  const bool isRoot = engine.rank() == arguments.root;
  if (bytes != 0) {
    if (isRoot && arguments.send != arguments.receive) {
      engine.codec.copy(arguments.receive, arguments.send, bytes, arguments.stream);
    }
    engine.transport.broadcast(arguments.receive, bytes, arguments.root, arguments.stream);
  }
  plan.endNative();
  CallOutcome outcome;
  outcome.decision = plan.decision;
  outcome.inputBytes = isRoot ? bytes : 0;
  return outcome;
}

}  // namespace zipccl::collectives
