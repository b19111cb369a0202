// SPDX-License-Identifier: Apache-2.0
//
// Random programs of NCCL: what each of several ranks calls, in which groups and on which streams.
// NCCL runs each of them to its end, whatever it buffers, because
//
//   - there is one order of all collectives and messages, in which each rank makes its own of them;
//   - a group is of consecutive ones. Where it begins and ends is each rank's own affair, but that
//     NCCL plans the collectives of one communicator in a group together, so of these a group that
//     is not the same on all ranks has one;
//   - NCCL makes the collectives of a communicator before its messages, and where they share a
//     stream all of one communicator before the next: the same as their order.
//
// So the first that is not complete has been started by all whom it concerns, on any streams.

#pragma once

#include <zipccl/nccl_engine.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/random.hpp"
#include "collectives/datatype.hpp"
#include "collectives/reduction.hpp"
#include "collectives/tensors.hpp"

namespace zipccl::testing {

/// The members of a communicator, ranks of the first one of all, in the order of their ranks in it.
using Members = std::vector<int>;

/// The communicators of programs for so many ranks: all of them, all in reverse, all but the first,
/// the first alone.
[[nodiscard]] std::vector<Members> programCommunicators(int ranks);

/// The rank of `rank` among the members; -1 for none of them.
[[nodiscard]] int placeOf(int rank, const Members& members);

/// A collective of all members of a communicator, or a message between two of them.
struct ProgramCall {
  zipcclNcclKind kind = zipcclNcclAllGather;  ///< zipcclNcclSend: a message
  std::size_t communicator = 0;
  collectives::Datatype datatype = collectives::Datatype::kBfloat16;
  std::uint64_t count = 0;
  int root = 0;    ///< or who sends the message
  int target = 0;  ///< who receives it
  collectives::ReduceOp op = collectives::ReduceOp::kSum;
  bool isInPlace = false;
  bool isBcast = false;  ///< by ncclBcast
  collectives::testing::Content content = collectives::testing::Content::kGaussian;
  std::uint64_t misaligned = 0;  ///< elements that the buffers are off a multiple of 64 bytes
  std::uint64_t seed = 0;

  [[nodiscard]] bool isMessage() const noexcept { return kind == zipcclNcclSend; }
  [[nodiscard]] bool isReduction() const noexcept {
    return kind == zipcclNcclReduceScatter || kind == zipcclNcclAllReduce ||
           kind == zipcclNcclReduce;
  }
};

/// What a rank does of a call: all that it has to, or one end of a message.
enum class Part { kCollective, kSend, kReceive };

/// One function that a rank calls.
struct ProgramStep {
  std::size_t call = 0;
  Part part = Part::kCollective;
  int stream = 0;  ///< of kProgramStreams, 0 being the default stream
};
inline constexpr int kProgramStreams = 3;

/// A call, or a group of calls.
struct ProgramTurn {
  std::vector<ProgramStep> steps;
  int depth = 0;            ///< of nested groups; 0 is none
  bool isCaptured = false;  ///< into a graph, which then runs; all on one stream
};

struct Program {
  std::vector<ProgramCall> calls;
  std::vector<std::vector<ProgramTurn>> turns;  ///< of each rank
};

/// The next program for ranks of programCommunicators(). Equal generators give equal programs.
[[nodiscard]] Program makeProgram(const std::vector<Members>& communicators, Random& random);

}  // namespace zipccl::testing
