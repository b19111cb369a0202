// SPDX-License-Identifier: Apache-2.0
//
// The C API as this tool uses it: owners of communicators, and exceptions for its results.

#pragma once

#include <zipccl/zipccl.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "perf/collective_name.hpp"
#include "support/failure.hpp"

namespace zipccl::tools::perf {

/// A call of the C API failed; its words are those of zipcclGetLastError.
class CallFailure : public Failure {
 public:
  CallFailure(zipcclResult_t result, const std::string& words) : Failure(words), result_(result) {}

  /// Whether this only tells that another rank failed.
  [[nodiscard]] bool isConsequence() const noexcept { return result_ == zipcclRemoteError; }

 private:
  zipcclResult_t result_;
};

/// One rank of a communicator. Throws CallFailure.
class Communicator {
 public:
  /// The ranks of a communicator of this process, on emulated links unless that is 0.
  [[nodiscard]] static std::vector<Communicator> createLocal(int ranks, zipcclStrategy_t strategy,
                                                             std::uint64_t linkBytesPerSecond);
  /// This process's rank of a communicator over all processes.
  [[nodiscard]] static Communicator createMpi(zipcclStrategy_t strategy);

  [[nodiscard]] int rank() const;
  [[nodiscard]] int rankCount() const;
  [[nodiscard]] zipcclCommStats_t statistics() const;

  /// zipcclAllGather.
  void allGather(const void* send, void* receive, std::size_t count, zipcclDataType_t datatype);

  void allReduce(const void* send, void* receive, std::size_t count, zipcclDataType_t datatype,
                 ReduceOperation operation);
  void reduceScatter(const void* send, void* receive, std::size_t count, zipcclDataType_t datatype,
                     ReduceOperation operation);
  void allToAll(const void* send, void* receive, std::size_t count, zipcclDataType_t datatype);
  /// Parts stand one behind the other.
  void allToAllv(const void* send, const std::vector<std::size_t>& sendCounts, void* receive,
                 const std::vector<std::size_t>& receiveCounts, zipcclDataType_t datatype);
  void broadcast(const void* send, void* receive, std::size_t count, zipcclDataType_t datatype,
                 int root);
  void gatherTo(const void* send, void* receive, std::size_t count, zipcclDataType_t datatype,
                int root);
  void scatterFrom(const void* send, void* receive, std::size_t count, zipcclDataType_t datatype,
                   int root);
  /// A group of a zipcclSend to one rank and a zipcclRecv from another.
  void sendReceive(const void* send, int to, void* receive, int from, std::size_t count,
                   zipcclDataType_t datatype);

  /// Ends what other ranks wait for; any thread may call it.
  void abort() noexcept { zipcclCommAbort(comm_.get()); }

  /// Gives `mine` to all ranks: those of rank i come i-th.
  template <class Item>
  [[nodiscard]] std::vector<Item> gather(const Item& mine) {
    static_assert(std::is_trivially_copyable_v<Item>);
    std::vector<Item> all(static_cast<std::size_t>(rankCount()));
    allGather(&mine, all.data(), sizeof(Item), zipcclUint8);
    return all;
  }

  /// Returns once all ranks have called it.
  void barrier() { static_cast<void>(gather(std::uint64_t{0})); }

 private:
  struct Destroy {
    void operator()(zipcclComm_t comm) const noexcept { zipcclCommDestroy(comm); }
  };

  explicit Communicator(zipcclComm_t comm) noexcept : comm_(comm) {}

  [[nodiscard]] zipcclRedOp_t operationFor(ReduceOperation operation, zipcclDataType_t datatype);

  std::unique_ptr<std::remove_pointer_t<zipcclComm_t>, Destroy> comm_;
  std::optional<zipcclRedOp_t> scaledSum_;  ///< of one datatype, as a run has only one
};

/// The communicators of one rank: for what is measured, and for the tool's own messages.
struct RankCommunicators {
  Communicator control;
  Communicator native;
  Communicator zipccl;

  void abort() noexcept {
    control.abort();
    native.abort();
    zipccl.abort();
  }

  /// One for each rank of this process; `strategy` is that of `zipccl`.
  [[nodiscard]] static std::vector<RankCommunicators> createLocal(int ranks,
                                                                  zipcclStrategy_t strategy,
                                                                  std::uint64_t linkBytesPerSecond);
  [[nodiscard]] static RankCommunicators createMpi(zipcclStrategy_t strategy);
};

}  // namespace zipccl::tools::perf
