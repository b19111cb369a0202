// SPDX-License-Identifier: Apache-2.0
//
// What a communicator of the C API is over an ncclComm_t: the engine's communicator behind it, and
// calls of the C API as calls of NCCL.

#pragma once

#include <zipccl/nccl_engine.h>
#include <zipccl/zipccl.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "base/error.hpp"
#include "collectives/all_gather.hpp"
#include "collectives/all_reduce.hpp"
#include "collectives/all_to_all.hpp"
#include "collectives/broadcast.hpp"
#include "collectives/gather_scatter.hpp"
#include "collectives/nccl_communicator.hpp"
#include "collectives/reduce_scatter.hpp"
#include "collectives/send_receive.hpp"
#include "transport/nccl_link.hpp"

namespace zipccl::capi {

/// One rank. One thread at a time makes calls; abort(), asyncError() and statistics() are for any
/// thread at any time.
class NcclComm {
 public:
  /// Shakes hands with the other ranks of `handle`, which do the same. Throws Error.
  NcclComm(const zipcclNcclApi& api, void* handle,
           const collectives::CommunicatorSettings& settings);
  NcclComm(const NcclComm&) = delete;
  NcclComm& operator=(const NcclComm&) = delete;
  /// Waits for the engine's own work.
  ~NcclComm();

  [[nodiscard]] int rank() const noexcept { return link_.rank(); }
  [[nodiscard]] int rankCount() const noexcept { return link_.rankCount(); }
  [[nodiscard]] bool compressionAgreed() const noexcept {
    return communicator_ != nullptr && communicator_->compressionAgreed;
  }

  void abort() noexcept;
  /// NCCL's errors, too.
  [[nodiscard]] std::optional<Error> asyncError() noexcept;
  [[nodiscard]] collectives::CommunicatorStatistics statistics();

  /// A call of the C API, whose arguments were checked, as NCCL has it: several calls for what it
  /// has not. `op` is a reduction's, which may be one that NCCL made.
  using Calls = std::vector<zipcclNcclCall>;
  [[nodiscard]] Calls callsOf(const collectives::AllGatherArguments& call, zipcclStream_t stream,
                              int op) const;
  [[nodiscard]] Calls callsOf(const collectives::AllToAllArguments& call, zipcclStream_t stream,
                              int op) const;
  [[nodiscard]] Calls callsOf(const collectives::AllToAllvArguments& call, zipcclStream_t stream,
                              int op) const;
  [[nodiscard]] Calls callsOf(const collectives::ReduceScatterArguments& call,
                              zipcclStream_t stream, int op) const;
  [[nodiscard]] Calls callsOf(const collectives::AllReduceArguments& call, zipcclStream_t stream,
                              int op) const;
  [[nodiscard]] Calls callsOf(const collectives::BroadcastArguments& call, zipcclStream_t stream,
                              int op) const;
  [[nodiscard]] Calls callsOf(const collectives::GatherArguments& call, zipcclStream_t stream,
                              int op) const;
  [[nodiscard]] Calls callsOf(const collectives::ScatterArguments& call, zipcclStream_t stream,
                              int op) const;
  [[nodiscard]] Calls callsOf(const collectives::PointToPoint& call, zipcclStream_t stream,
                              int op) const;

  /// Operations of NCCL's own.
  [[nodiscard]] int createPreMulSum(void* scalar, int datatype, int residence);
  void destroyRedOp(int op);

 private:
  friend class NcclCalls;

  /// Held by the thread that makes calls.
  class Use;

  [[nodiscard]] zipcclNcclCall callOf(zipcclNcclKind kind, const void* send, void* receive,
                                      std::uint64_t count, collectives::Datatype datatype,
                                      zipcclStream_t stream, int op = 0,
                                      int peer = 0) const noexcept;
  void addMessage(Calls& calls, bool isSend, int peer, const void* source, void* target,
                  std::uint64_t count, collectives::Datatype datatype, zipcclStream_t stream) const;
  /// Throws what `result` means, unless that is success.
  void check(int result, const char* what) const;

  const zipcclNcclApi& api_;
  void* handle_;
  transport::NcclLink link_;
  std::unique_ptr<collectives::NcclCommunicator> communicator_;  ///< null with one rank
  std::uint64_t wireBytesBefore_ = 0;                            ///< sent by the handshake
  std::atomic_flag isInUse_ = ATOMIC_FLAG_INIT;

  std::mutex mutex_;
  collectives::CommunicatorStatistics alone_;  ///< of a communicator of one rank
};

/// Calls on communicators over NCCL that go together, in their order.
class NcclCalls {
 public:
  void add(NcclComm& comm, const NcclComm::Calls& calls);
  [[nodiscard]] bool isEmpty() const noexcept { return calls_.empty(); }
  /// The communicators, each once.
  [[nodiscard]] const std::vector<NcclComm*>& comms() const noexcept { return comms_; }

  /// Makes them, those of a group or those that stand for one call. Throws Error.
  void run();

 private:
  /// Counts a call on a communicator of one rank.
  void noteAlone(const zipcclNcclCall& call);

  std::vector<zipcclNcclCall> calls_;
  std::vector<NcclComm*> comms_;
};

}  // namespace zipccl::capi
