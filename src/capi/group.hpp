// SPDX-License-Identifier: Apache-2.0
//
// Groups of calls of one thread: what is called between zipcclGroupStart and zipcclGroupEnd is
// collected here and done at the end.

#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "base/error.hpp"
#include "capi/comm.hpp"
#include "collectives/send_receive.hpp"

namespace zipccl::capi {

class Group {
 public:
  /// That of the calling thread.
  [[nodiscard]] static Group& ofThread();

  void start() noexcept { ++depth_; }
  [[nodiscard]] bool isOpen() const noexcept { return depth_ != 0; }

  /// Adds a collective or a Send or Recv, whose arguments were checked. The group must be open.
  void add(zipcclComm_t comm, const NcclComm::Calls& calls);
  void add(zipcclComm_t comm, std::function<void(collectives::Communicator&)> collective);
  void add(zipcclComm_t comm, const collectives::PointToPoint& operation);

  /// Notes that a call of the group failed: then the whole group is not done.
  void noteFailure(const Error& error);

  /// Ends the innermost group; at the end of the outermost one, does what was collected. Throws
  /// Error(kInvalidUsage) without a group, the first noted failure, or the first error of a call.
  void end();

 private:
  /// What was collected for one communicator.
  struct Calls {
    zipcclComm_t comm = nullptr;
    std::vector<std::function<void(collectives::Communicator&)>> collectives;
    std::vector<collectives::PointToPoint> pointToPoints;
  };

  /// And for one over NCCL.
  struct CallsOverNccl {
    zipcclComm_t comm = nullptr;
    NcclComm::Calls calls;
  };

  [[nodiscard]] Calls& callsOf(zipcclComm_t comm);
  static void runOverNccl(const std::vector<CallsOverNccl>& calls);
  static void run(const Calls& calls);
  static void runAll(const std::vector<Calls>& all);

  int depth_ = 0;
  std::vector<Calls> calls_;
  std::vector<CallsOverNccl> overNccl_;  ///< in their order
  std::optional<Error> failure_;
};

}  // namespace zipccl::capi
