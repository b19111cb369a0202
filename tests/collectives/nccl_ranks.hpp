// SPDX-License-Identifier: Apache-2.0
//
// Ranks, as threads, of communicators of the fake NCCL, without the table of the engine around
// them: what is tested is looked at, and changed, inside.

#pragma once

#include <zipccl/nccl_engine.h>

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "collectives/nccl_communicator.hpp"
#include "fake_nccl.h"
#include "tensors.hpp"

namespace zipccl::collectives::testing {

/// One rank's end, in its thread.
struct NcclRank {
  int rank = 0;
  int count = 0;
  void* comm = nullptr;
  std::unique_ptr<NcclCommunicator> communicator;
  fakeStream_t stream = nullptr;
  std::deque<Shard> buffers;  ///< of all its calls

  [[nodiscard]] std::byte* buffer(Shard content);

  /// Makes a group of calls.
  void runGroup(std::span<const zipcclNcclCall> calls);

  /// What the communicator has to complain of, once the stream has come to its end; or nothing.
  [[nodiscard]] std::string error() const;
};

/// What all ranks make alike; zipcclNcclSend is a message for each ordered pair.
struct NcclTestCall {
  zipcclNcclKind kind = zipcclNcclAllGather;
  Datatype datatype = Datatype::kBfloat16;
  std::uint64_t count = 20'000;
  Content content = Content::kGaussian;
  bool isInPlace = false;
  int root = 0;
  std::uint64_t seed = 1;
};

/// A message to `peer`, or from it.
[[nodiscard]] zipcclNcclCall messageCall(NcclRank& rank, const NcclTestCall& test, bool isOut,
                                         int peer);

/// Makes the calls in one group.
void run(NcclRank& rank, const std::vector<NcclTestCall>& tests);

/// Runs `work` for each rank, in a thread of its own, on one communicator of those settings.
void onNcclRanks(std::span<const CommunicatorSettings> settings,
                 const std::function<void(NcclRank&)>& work);

}  // namespace zipccl::collectives::testing
