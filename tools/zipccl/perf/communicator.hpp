// SPDX-License-Identifier: Apache-2.0
//
// The C API as this tool uses it: owners of communicators, and exceptions for its results.

#pragma once

#include <zipccl/zipccl_nccl.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "perf/collective_calls.hpp"
#include "perf/collective_name.hpp"
#include "perf/control.hpp"
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
class Communicator final : public CollectiveCalls {
 public:
  /// The ranks of a communicator of this process, on emulated links unless that is 0.
  [[nodiscard]] static std::vector<std::unique_ptr<Communicator>> createLocal(
      int ranks, zipcclStrategy_t strategy, std::uint64_t linkBytesPerSecond);
  /// This process's rank of a communicator over all processes.
  [[nodiscard]] static std::unique_ptr<Communicator> createMpi(zipcclStrategy_t strategy);
  /// This rank of a communicator of NCCL, which must outlive it. Calls go to `stream`.
  [[nodiscard]] static std::unique_ptr<Communicator> createNccl(ncclComm* nccl,
                                                                zipcclStrategy_t strategy,
                                                                zipcclStream_t stream);

  [[nodiscard]] int rank() const;
  [[nodiscard]] int rankCount() const;

  void allGather(const void* send, void* receive, std::size_t count,
                 zipcclDataType_t datatype) override;
  void allReduce(const void* send, void* receive, std::size_t count, zipcclDataType_t datatype,
                 ReduceOperation operation) override;
  void reduceScatter(const void* send, void* receive, std::size_t count, zipcclDataType_t datatype,
                     ReduceOperation operation) override;
  void allToAll(const void* send, void* receive, std::size_t count,
                zipcclDataType_t datatype) override;
  void allToAllv(const void* send, const std::vector<std::size_t>& sendCounts, void* receive,
                 const std::vector<std::size_t>& receiveCounts, zipcclDataType_t datatype) override;
  void broadcast(const void* send, void* receive, std::size_t count, zipcclDataType_t datatype,
                 int root) override;
  void gatherTo(const void* send, void* receive, std::size_t count, zipcclDataType_t datatype,
                int root) override;
  void scatterFrom(const void* send, void* receive, std::size_t count, zipcclDataType_t datatype,
                   int root) override;
  void sendReceive(const void* send, int to, void* receive, int from, std::size_t count,
                   zipcclDataType_t datatype) override;
  [[nodiscard]] zipcclCommStats_t statistics() const override;
  void expectWell() const override;
  void abort() noexcept override { zipcclCommAbort(comm_.get()); }

 private:
  struct Destroy {
    void operator()(zipcclComm_t comm) const noexcept { zipcclCommDestroy(comm); }
  };

  explicit Communicator(zipcclComm_t comm, zipcclStream_t stream = nullptr) noexcept
      : comm_(comm), stream_(stream) {}

  [[nodiscard]] zipcclRedOp_t operationFor(ReduceOperation operation, zipcclDataType_t datatype);

  std::unique_ptr<std::remove_pointer_t<zipcclComm_t>, Destroy> comm_;
  zipcclStream_t stream_;
  std::optional<zipcclRedOp_t> scaledSum_;  ///< of one datatype, as a run has only one
};

/// The ranks' talk over a communicator of the library.
class CommunicatorControl : public Control {
 public:
  explicit CommunicatorControl(std::unique_ptr<Communicator> communicator)
      : communicator_(std::move(communicator)) {}

  [[nodiscard]] int rank() const override { return communicator_->rank(); }
  [[nodiscard]] int rankCount() const override { return communicator_->rankCount(); }
  void gatherBytes(std::span<const std::byte> mine, std::span<std::byte> all) override {
    communicator_->allGather(mine.data(), all.data(), mine.size(), zipcclUint8);
  }
  void abort() noexcept override { communicator_->abort(); }

 private:
  std::unique_ptr<Communicator> communicator_;
};

/// One rank's ends: for the tool's own messages, and for what is measured.
struct RankCommunicators {
  std::unique_ptr<Control> control;
  std::unique_ptr<CollectiveCalls> native;
  std::unique_ptr<CollectiveCalls> zipccl;  ///< may rest on `native`: ends first
  /// Whether native reductions add in an order of their own.
  bool nativeReduces = false;

  void abort() noexcept {
    if (control) control->abort();
    if (zipccl) zipccl->abort();
    if (native) native->abort();
  }

  /// One for each rank of this process; `strategy` is that of `zipccl`.
  [[nodiscard]] static std::vector<RankCommunicators> createLocal(int ranks,
                                                                  zipcclStrategy_t strategy,
                                                                  std::uint64_t linkBytesPerSecond);
};

}  // namespace zipccl::tools::perf
