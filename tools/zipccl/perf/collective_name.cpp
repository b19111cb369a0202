// SPDX-License-Identifier: Apache-2.0
//
// The collectives by name.

#include "perf/collective_name.hpp"

#include "support/text.hpp"

namespace zipccl::tools::perf {

const char* typedName(CollectiveName name) {
  switch (name) {
    case CollectiveName::kAllGather:
      return "all_gather";
    case CollectiveName::kAllReduce:
      return "all_reduce";
    case CollectiveName::kAllToAll:
      return "alltoall";
    case CollectiveName::kBroadcast:
      return "broadcast";
    case CollectiveName::kGather:
      return "gather";
    case CollectiveName::kReduceScatter:
      return "reduce_scatter";
    case CollectiveName::kScatter:
      return "scatter";
    case CollectiveName::kSendRecv:
      return "sendrecv";
  }
  return "unknown";
}

const char* meaningOf(CollectiveName name) {
  switch (name) {
    case CollectiveName::kAllGather:
      return "every rank gets what all ranks send";
    case CollectiveName::kAllReduce:
      return "every rank gets the sum of what all ranks send";
    case CollectiveName::kAllToAll:
      return "every rank sends another part to each rank";
    case CollectiveName::kBroadcast:
      return "every rank gets what one rank sends";
    case CollectiveName::kGather:
      return "one rank gets what all ranks send";
    case CollectiveName::kReduceScatter:
      return "every rank gets a part of the sum of what all ranks send";
    case CollectiveName::kScatter:
      return "every rank gets another part of what one rank sends";
    case CollectiveName::kSendRecv:
      return "every rank sends to its right neighbour, in a group of a send and a receive";
  }
  return "unknown";
}

double busFactor(CollectiveName name, int ranks) noexcept {
  const double share = static_cast<double>(ranks - 1) / ranks;
  switch (name) {
    case CollectiveName::kAllReduce:
      return 2.0 * share;
    case CollectiveName::kBroadcast:
    case CollectiveName::kSendRecv:
      return 1.0;
    case CollectiveName::kAllGather:
    case CollectiveName::kAllToAll:
    case CollectiveName::kGather:
    case CollectiveName::kReduceScatter:
    case CollectiveName::kScatter:
      return share;
  }
  return share;
}

const char* operationName(ReduceOperation operation) {
  switch (operation) {
    case ReduceOperation::kSum:
      return "sum";
    case ReduceOperation::kAverage:
      return "avg";
    case ReduceOperation::kScaledSum:
      return "mulsum";
  }
  return "unknown";
}

std::string describe(const CollectiveChoice& choice) {
  std::string text = typedName(choice.name);
  if (isReduction(choice.name)) text += std::string(", ") + operationName(choice.operation);
  if (hasRoot(choice.name)) text += ", root " + std::to_string(choice.root);
  if (!choice.splits.empty()) text += ", splits " + printable(choice.splits, 200);
  return text;
}

}  // namespace zipccl::tools::perf
