// SPDX-License-Identifier: Apache-2.0
//
// The collectives that this tool measures, whoever makes them: the library, or what it stands
// beside.

#pragma once

#include <zipccl/zipccl.h>

#include <cstddef>
#include <vector>

#include "perf/collective_name.hpp"

namespace zipccl::tools::perf {

/// One rank's end. Arguments are those of the C API's functions; calls are ordered as its are.
/// Throws Failure.
class CollectiveCalls {
 public:
  CollectiveCalls() = default;
  CollectiveCalls(const CollectiveCalls&) = delete;
  CollectiveCalls& operator=(const CollectiveCalls&) = delete;
  virtual ~CollectiveCalls() = default;

  virtual void allGather(const void* send, void* receive, std::size_t count,
                         zipcclDataType_t datatype) = 0;
  virtual void allReduce(const void* send, void* receive, std::size_t count,
                         zipcclDataType_t datatype, ReduceOperation operation) = 0;
  virtual void reduceScatter(const void* send, void* receive, std::size_t count,
                             zipcclDataType_t datatype, ReduceOperation operation) = 0;
  virtual void allToAll(const void* send, void* receive, std::size_t count,
                        zipcclDataType_t datatype) = 0;
  /// Parts stand one behind the other.
  virtual void allToAllv(const void* send, const std::vector<std::size_t>& sendCounts,
                         void* receive, const std::vector<std::size_t>& receiveCounts,
                         zipcclDataType_t datatype) = 0;
  virtual void broadcast(const void* send, void* receive, std::size_t count,
                         zipcclDataType_t datatype, int root) = 0;
  virtual void gatherTo(const void* send, void* receive, std::size_t count,
                        zipcclDataType_t datatype, int root) = 0;
  virtual void scatterFrom(const void* send, void* receive, std::size_t count,
                           zipcclDataType_t datatype, int root) = 0;
  /// A group of a Send to one rank and a Recv from another.
  virtual void sendReceive(const void* send, int to, void* receive, int from, std::size_t count,
                           zipcclDataType_t datatype) = 0;

  /// What this rank has done so far, once the calls are done.
  [[nodiscard]] virtual zipcclCommStats_t statistics() const = 0;

  /// Throws what has gone wrong since the calls returned.
  virtual void expectWell() const {}

  /// Ends what other ranks wait for; any thread may call it.
  virtual void abort() noexcept = 0;
};

}  // namespace zipccl::tools::perf
