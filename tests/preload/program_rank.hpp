// SPDX-License-Identifier: Apache-2.0
//
// One rank of random programs: its communicators, streams and buffers, its calls, and every bit of
// what they leave.

#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "fake_nccl/fake_nccl.h"
#include "programs.hpp"

namespace zipccl::testing {

class ProgramRank {
 public:
  /// `comm` is of all ranks, and another's; those that are made of it are this object's.
  ProgramRank(int rank, void* comm, std::vector<Members> communicators);
  ProgramRank(const ProgramRank&) = delete;
  ProgramRank& operator=(const ProgramRank&) = delete;
  ~ProgramRank();

  /// Calls what the program has for this rank, and waits for none of it.
  void run(const Program& program);

  /// Waits for all that was called, and checks it.
  void finish();

  /// Gives up the communicators that were made of the first, and makes them again; as all ranks do.
  void renewCommunicators();

 private:
  class Buffers;

  void makeCommunicators();
  void destroyCommunicators();
  void make(const ProgramTurn& turn, const std::vector<std::unique_ptr<Buffers>>& buffers);
  [[nodiscard]] int make(const ProgramStep& step, const Buffers& buffers) const;
  [[nodiscard]] int makeCollective(const ProgramCall& call, const Buffers& buffers,
                                   fakeStream_t stream) const;
  [[nodiscard]] int reduce(const ProgramCall& call, const Buffers& buffers,
                           fakeStream_t stream) const;

  int rank_;
  std::vector<Members> communicators_;
  std::vector<void*> comms_;  ///< NULL where this rank is no member
  std::vector<fakeStream_t> streams_;
  std::vector<std::unique_ptr<Buffers>> unfinished_;
};

}  // namespace zipccl::testing
