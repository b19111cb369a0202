// SPDX-License-Identifier: Apache-2.0
//
// The calls of NCCL as phases: lanes that run side by side, one phase after the other.

#pragma once

#include <zipccl/nccl_engine.h>

#include <deque>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "collectives/call_range.hpp"
#include "collectives/nccl_communicator.hpp"
#include "collectives/nccl_lanes.hpp"
#include "transport/transport.hpp"

namespace zipccl::collectives {

/// Lanes that run side by side. It ends when all their items are done with.
struct Phase {
  std::vector<std::unique_ptr<Lane>> lanes;
  std::vector<transport::StreamHandle> streams;  ///< the caller's, each once
  /// Copies this rank's own elements, on the codec's stream, while frames travel; may be empty.
  std::function<void()> copyOwn;
  bool isContinued = false;  ///< by the next one: the call has no result yet
  CallRange range;           ///< for profilers

  void addStream(transport::StreamHandle stream);
};

/// Makes a phase when its turn comes, since what is decided rests on what earlier ones left.
struct PhaseMaker {
  std::function<Phase()> make;
  /// Whether all of that is known, which it will be; empty where nothing has to be.
  std::function<bool()> isReady;

  [[nodiscard]] bool mayMake() const { return !isReady || isReady(); }
};

/// The calls of one communicator in one group: collectives in their order, and then all sends and
/// receives at once. `communicator` is null where nothing may be transformed. The calls must stay
/// until all phases have ended.
[[nodiscard]] std::deque<PhaseMaker> makePhases(const zipcclNcclApi& api,
                                                NcclCommunicator* communicator,
                                                std::span<const zipcclNcclCall* const> calls);

}  // namespace zipccl::collectives
