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
    case TransportKind::kNccl:
      return "nccl";
  }
  return "unknown";
}

int warmupsOf(const Options& options) {
  constexpr int kUsual = 1;
  constexpr int kOverNccl = 5;
  return options.warmups.value_or(options.transport == TransportKind::kNccl ? kOverNccl : kUsual);
}

std::vector<std::uint64_t> messageSizes(const Options& options) {
  return sizesBetween(options.minBytes, Options::kDefaultMinBytes, options.maxBytes,
                      Options::kDefaultMaxBytes, options.stepFactor);
}

std::vector<std::uint64_t> sizesBetween(std::optional<std::uint64_t> least,
                                        std::uint64_t defaultLeast,
                                        std::optional<std::uint64_t> most,
                                        std::uint64_t defaultMost, std::uint64_t factor) {
  const std::uint64_t first = least.value_or(most ? std::min(defaultLeast, *most) : defaultLeast);
  const std::uint64_t last = most.value_or(std::max(defaultMost, first));
  if (first > last) {
    throw UsageError("--minbytes is " + std::to_string(first) + ", more than --maxbytes, " +
                     std::to_string(last));
  }
  std::vector<std::uint64_t> sizes = {first};
  // Zero times any factor stays zero.
  while (first != 0 && sizes.back() <= last / factor) sizes.push_back(sizes.back() * factor);
  return sizes;
}

}  // namespace zipccl::tools::perf
