// SPDX-License-Identifier: Apache-2.0
//
// The lanes that calls over NCCL are made of: calls that go as they are, messages between two
// ranks, frames that all ranks get, frames that are reduced.

#pragma once

#include <zipccl/nccl_engine.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "base/collective_kind.hpp"
#include "collectives/communicator.hpp"
#include "collectives/datatype.hpp"
#include "collectives/pair_history.hpp"
#include "collectives/reduction.hpp"
#include "collectives/round_item.hpp"
#include "transport/transport.hpp"

namespace zipccl::collectives {

/// How a call goes; shared by its lanes and by what its frames tell later. The communicator records
/// it when the last of them lets go.
using SharedOutcome = std::shared_ptr<CallOutcome>;

/// The call as it is.
[[nodiscard]] std::unique_ptr<Lane> makeNativeLane(const zipcclNcclApi& api,
                                                   const zipcclNcclCall& call);

/// A message to or from `peer`. `mayStage`: otherwise it goes as it is.
struct PairMessage {
  const void* source = nullptr;  ///< of what is sent
  void* target = nullptr;        ///< of what is received
  std::uint64_t elementCount = 0;
  std::uint64_t elementBytes = 0;
  int ncclDatatype = 0;
  std::optional<Datatype> datatype;  ///< one with frames, if it may be compressed
  transport::StreamHandle stream;
};

/// All messages of a pair and direction, each as its history decides. Messages of zero elements are
/// messages too where NCCL has them.
[[nodiscard]] std::unique_ptr<Lane> makePairLane(NcclCommunicator& communicator,
                                                 CollectiveKind collective, int peer, bool isOut,
                                                 std::vector<PairMessage> messages,
                                                 SharedOutcome outcome);

/// Parts of all ranks, or one of `root`, for all ranks, staged.
struct GatherWork {
  const void* source = nullptr;             ///< this rank's part; may be its place in target
  void* target = nullptr;                   ///< of all parts, one after the other
  std::vector<std::uint64_t> firstElement;  ///< of each part in `target`, and the end
  Datatype datatype = Datatype::kBfloat16;
  std::optional<int> root;
  transport::StreamHandle stream;
  std::uint64_t call = 0;
  PairHistory* history = nullptr;  ///< of such calls
  std::uint64_t number = 0;        ///< in the history
  Engine::Plan plan;
};
[[nodiscard]] std::unique_ptr<Lane> makeGatherLane(NcclCommunicator& communicator, GatherWork work,
                                                   SharedOutcome outcome);

/// Parts of any size for each rank, staged: rank r gets elements firstElement[r] to
/// firstElement[r + 1] of all `send`, reduced, in `receive`, which may be its part of `send`.
struct ReduceWork {
  CollectiveKind collective = CollectiveKind::kReduceScatter;
  const void* send = nullptr;
  void* receive = nullptr;
  std::vector<std::uint64_t> firstElement;
  Datatype datatype = Datatype::kBfloat16;
  float factor = 1.0F;
  transport::StreamHandle stream;
  PairHistory* history = nullptr;  ///< of such calls
  std::uint64_t number = 0;        ///< in the history
  Engine::Plan plan;               ///< for the largest part
};
[[nodiscard]] std::unique_ptr<Lane> makeReduceLane(NcclCommunicator& communicator, ReduceWork work,
                                                   SharedOutcome outcome);

/// Whether such a lane may be made: what its messages are decided on is known. `firstElement` as in
/// ReduceWork.
[[nodiscard]] bool mayReduce(NcclCommunicator& communicator, CollectiveKind collective,
                             Datatype datatype, const std::vector<std::uint64_t>& firstElement);

}  // namespace zipccl::collectives
