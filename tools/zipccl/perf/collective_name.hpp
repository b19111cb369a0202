// SPDX-License-Identifier: Apache-2.0
//
// The collectives by name, and what a user can choose about one.

#pragma once

#include <array>
#include <string>

namespace zipccl::tools::perf {

enum class CollectiveName {
  kAllGather,
  kAllReduce,
  kAllToAll,
  kBroadcast,
  kGather,
  kReduceScatter,
  kScatter,
  kSendRecv,
};

inline constexpr std::array kAllCollectiveNames = {
    CollectiveName::kAllGather, CollectiveName::kAllReduce, CollectiveName::kAllToAll,
    CollectiveName::kBroadcast, CollectiveName::kGather,    CollectiveName::kReduceScatter,
    CollectiveName::kScatter,   CollectiveName::kSendRecv,
};

/// As it is typed: `all_gather`.
[[nodiscard]] const char* typedName(CollectiveName name);

/// In a sentence, for the help.
[[nodiscard]] const char* meaningOf(CollectiveName name);

[[nodiscard]] constexpr bool isReduction(CollectiveName name) noexcept {
  return name == CollectiveName::kAllReduce || name == CollectiveName::kReduceScatter;
}
[[nodiscard]] constexpr bool hasRoot(CollectiveName name) noexcept {
  return name == CollectiveName::kBroadcast || name == CollectiveName::kGather ||
         name == CollectiveName::kScatter;
}

/// busbw / algbw, as nccl-tests has it.
[[nodiscard]] double busFactor(CollectiveName name, int ranks) noexcept;

enum class ReduceOperation { kSum, kAverage, kScaledSum };

/// As nccl-tests has it: `sum`, `avg`, `mulsum`.
[[nodiscard]] const char* operationName(ReduceOperation operation);

/// What a user asks for.
struct CollectiveChoice {
  CollectiveName name = CollectiveName::kAllGather;
  ReduceOperation operation = ReduceOperation::kSum;
  int root = 0;
  std::string splits = {};  ///< of an all-to-all, as perf/splits.hpp has them; empty: equal parts
};

/// `all_gather`; `reduce_scatter, avg`; `broadcast, root 2`; `alltoall, splits zipf:1.2`.
[[nodiscard]] std::string describe(const CollectiveChoice& choice);

}  // namespace zipccl::tools::perf
