// SPDX-License-Identifier: Apache-2.0
//
// What follows from the options of `zipccl perf`.

#include "perf/options.hpp"

#include <algorithm>

#include "support/failure.hpp"

namespace zipccl::tools::perf {

const char* transportName(TransportKind transport) {
  switch (transport) {
    case TransportKind::kLocal:
      return "local";
    case TransportKind::kMpi:
      return "mpi";
  }
  return "unknown";
}

std::vector<std::uint64_t> messageSizes(const Options& options) {
  std::uint64_t least = options.minBytes.value_or(Options::kDefaultMinBytes);
  std::uint64_t most = options.maxBytes.value_or(Options::kDefaultMaxBytes);
  // A limit that is not given follows the one that is.
  if (!options.maxBytes) most = std::max(most, least);
  if (!options.minBytes) least = std::min(least, most);
  if (least > most) {
    throw UsageError("--minbytes is " + std::to_string(least) + ", more than --maxbytes, " +
                     std::to_string(most));
  }
  std::vector<std::uint64_t> sizes = {least};
  // Zero times any factor stays zero.
  while (least != 0 && sizes.back() <= most / options.stepFactor) {
    sizes.push_back(sizes.back() * options.stepFactor);
  }
  return sizes;
}

}  // namespace zipccl::tools::perf
