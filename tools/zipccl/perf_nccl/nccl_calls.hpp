// SPDX-License-Identifier: Apache-2.0
//
// NCCL's own collectives: what those of the library are measured beside.

#pragma once

#include <optional>

#include "perf/collective_calls.hpp"
#include "perf_nccl/nccl_library.hpp"

namespace zipccl::tools::perf_nccl {

/// One rank, called directly. Owns its communicator.
class NcclCalls final : public perf::CollectiveCalls {
 public:
  NcclCalls(const NcclLibrary& library, std::unique_ptr<NcclCommunicator> communicator, int rank,
            int rankCount, zipcclStream_t stream)
      : library_(library),
        communicator_(std::move(communicator)),
        rank_(rank),
        rankCount_(rankCount),
        stream_(stream) {}

  [[nodiscard]] ncclComm* communicator() const noexcept { return communicator_->get(); }

  void allGather(const void* send, void* receive, std::size_t count,
                 zipcclDataType_t datatype) override;
  void allReduce(const void* send, void* receive, std::size_t count, zipcclDataType_t datatype,
                 perf::ReduceOperation operation) override;
  void reduceScatter(const void* send, void* receive, std::size_t count, zipcclDataType_t datatype,
                     perf::ReduceOperation operation) override;
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

  /// Calls and their bytes, counted as the library counts: a part that goes to all other ranks, so
  /// often, whatever ways NCCL takes.
  [[nodiscard]] zipcclCommStats_t statistics() const override;
  void expectWell() const override;
  void abort() noexcept override { communicator_->abort(); }

 private:
  void check(int result, const char* what) const;
  void note(std::size_t inputElements, std::size_t sentElements, zipcclDataType_t datatype);
  [[nodiscard]] std::size_t peers() const noexcept {
    return static_cast<std::size_t>(rankCount_ - 1);
  }
  [[nodiscard]] int operationFor(perf::ReduceOperation operation, zipcclDataType_t datatype);

  const NcclLibrary& library_;
  std::unique_ptr<NcclCommunicator> communicator_;
  int rank_;
  int rankCount_;
  zipcclStream_t stream_;
  std::optional<int> scaledSum_;  ///< of one datatype, as a run has only one
  zipcclCommStats_t statistics_ = ZIPCCL_COMM_STATS_INITIALIZER;
};

}  // namespace zipccl::tools::perf_nccl
