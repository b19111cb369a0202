// SPDX-License-Identifier: Apache-2.0
//
// Send and Recv.

#include "collectives/send_receive.hpp"

#include <vector>

#include "base/error.hpp"
#include "collectives/buffers.hpp"
#include "collectives/pair_exchange.hpp"

namespace zipccl::collectives {

void check(const PointToPoint& operation, int /*rank*/, int rankCount) {
  checkRank("peer", operation.peer, rankCount);
  checkCount("count", operation.elementCount, operation.datatype, 1);
  if (operation.isSend) {
    checkBuffer("sendbuff", operation.source, "count", operation.elementCount);
  } else {
    checkBuffer("recvbuff", operation.target, "count", operation.elementCount);
  }
}

CallOutcome sendReceiveGroup(Engine& engine, std::span<const PointToPoint> operations,
                             transport::StreamHandle stream) {
  std::vector<OutMessage> sends;
  std::vector<InMessage> receives;
  for (const PointToPoint& operation : operations) {
    if (operation.isSend) {
      sends.push_back(
          {operation.peer, operation.source, operation.elementCount, operation.datatype});
    } else {
      receives.push_back(
          {operation.peer, operation.target, operation.elementCount, operation.datatype});
    }
  }
  return PairExchange(engine, CollectiveKind::kSendRecv, sends, receives, stream).run();
}

CallOutcome sendReceiveAlone(Engine& engine, const PointToPoint& operation,
                             transport::StreamHandle stream) {
  expects(operation.peer != engine.rank() || operation.elementCount == 0, ErrorCode::kInvalidUsage,
          "rank ", engine.rank(),
          " sends to itself or receives from itself outside a group, which waits for ever");
  CallOutcome outcome;
  outcome.decision.reason = policy::Reason::kNotInGroup;
  const std::uint64_t bytes = operation.elementCount * elementBytes(operation.datatype);
  if (bytes == 0) return outcome;
  if (operation.isSend) {
    const transport::SendMessage message{operation.peer, operation.source, bytes};
    engine.transport.exchange({&message, 1}, {}, stream);
    outcome.inputBytes = bytes;
  } else {
    const transport::ReceiveMessage message{operation.peer, operation.target, bytes};
    engine.transport.exchange({}, {&message, 1}, stream);
  }
  return outcome;
}

}  // namespace zipccl::collectives
