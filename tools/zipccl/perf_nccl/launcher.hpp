// SPDX-License-Identifier: Apache-2.0
//
// Which rank this process is, as the launcher that started it says in the environment: torchrun,
// mpirun (Open MPI, MPICH, Intel MPI) or srun. docs/multi_host.md has the command lines.

#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

namespace zipccl::tools::perf_nccl {

/// Where rank 0 waits for the others.
struct Endpoint {
  std::string host;
  std::uint16_t port = 0;

  friend bool operator==(const Endpoint&, const Endpoint&) = default;
};

/// `HOST:PORT`, `[ADDRESS]:PORT`; throws UsageError.
[[nodiscard]] Endpoint parseEndpoint(const std::string& text);

struct LaunchedRank {
  std::string launcher;  ///< `torchrun`, `mpirun` or `srun`
  int rank = 0;
  int rankCount = 1;
  int localRank = 0;             ///< among those of the host
  std::optional<Endpoint> root;  ///< absent where the launcher does not say
};

/// The value of a variable, or null.
using Environment = std::function<const char*(const char* name)>;

/// Absent where no launcher has started this process. `MASTER_ADDR` and `MASTER_PORT` say where
/// rank 0 waits; without them a job on one host meets there, and one of srun on its first node, at
/// a port that follows from the job's number or, where it has none, from `parentProcess`, which
/// processes of one host and launcher share. Throws UsageError for values that are no numbers.
[[nodiscard]] std::optional<LaunchedRank> launchedRank(const Environment& environment,
                                                       std::int64_t parentProcess);

/// The first host of a list as Slurm writes it: `node[07-09,12],gpu1` begins with `node07`.
[[nodiscard]] std::string firstHost(const std::string& nodeList);

}  // namespace zipccl::tools::perf_nccl
