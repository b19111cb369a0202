// SPDX-License-Identifier: Apache-2.0
//
// Send and Recv, alone and in groups: elements from one rank to another, bit for bit.

#pragma once

#include <cstdint>
#include <span>

#include "collectives/communicator.hpp"
#include "collectives/datatype.hpp"
#include "transport/transport.hpp"

namespace zipccl::collectives {

/// One Send or one Recv.
struct PointToPoint {
  bool isSend = true;
  const void* source = nullptr;  ///< of a Send
  void* target = nullptr;        ///< of a Recv
  std::uint64_t elementCount = 0;
  Datatype datatype = Datatype::kBfloat16;
  int peer = 0;
};

/// Throws Error(kInvalidArgument), naming value and expectation, for a null buffer, a size beyond
/// the address space, a peer that does not exist.
void check(const PointToPoint& operation, int rank, int rankCount);

/// All of a group at once, whatever their order, as a PairExchange in which each ordered pair of
/// ranks decides for itself.
CallOutcome sendReceiveGroup(Engine& engine, std::span<const PointToPoint> operations,
                             transport::StreamHandle stream);

/// One alone, native: to learn a frame's size it would have to wait for the peer, which may wait
/// for a later call of this rank.
CallOutcome sendReceiveAlone(Engine& engine, const PointToPoint& operation,
                             transport::StreamHandle stream);

}  // namespace zipccl::collectives
