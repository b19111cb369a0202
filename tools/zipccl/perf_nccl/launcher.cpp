// SPDX-License-Identifier: Apache-2.0
//
// What launchers leave in the environment.

#include "perf_nccl/launcher.hpp"

#include <array>
#include <charconv>
#include <cstddef>
#include <span>
#include <string_view>

#include "perf/data_pools.hpp"
#include "support/failure.hpp"
#include "support/text.hpp"

namespace zipccl::tools::perf_nccl {
namespace {

int parseNumber(const char* what, const std::string& text, int least, int most) {
  int value = 0;
  const char* const end = text.data() + text.size();
  const auto parsed = std::from_chars(text.data(), end, value);
  if (parsed.ec != std::errc() || parsed.ptr != end || value < least || value > most) {
    throw UsageError(std::string(what) + " is " + inQuotes(text) + ", no number from " +
                     std::to_string(least) + " to " + std::to_string(most));
  }
  return value;
}

constexpr int kMostRanks = 1 << 20;
constexpr int kMostPort = 65535;

/// The variables in which a launcher says the numbers. Where the first two are set, it was it.
struct Names {
  const char* launcher;
  const char* rank;
  const char* rankCount;
  const char* localRank;
  const char* localCount;  ///< of the host; null where it says the number of nodes instead
  const char* nodeCount;
};

// The more particular first: a torchrun may have been started by srun, and mpirun within a job of
// Slurm. SLURM_STEP_... is there in what srun starts, and not in a batch script.
constexpr std::array<Names, 4> kLaunchers = {{
    {"torchrun", "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", nullptr},
    {"mpirun", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK",
     "OMPI_COMM_WORLD_LOCAL_SIZE", nullptr},
    {"mpirun", "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS", nullptr},
    {"srun", "SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_LOCALID", nullptr,
     "SLURM_STEP_NUM_NODES"},
}};

class Reader {
 public:
  explicit Reader(const Environment& environment) : environment_(environment) {}

  [[nodiscard]] std::optional<std::string> text(const char* name) const {
    const char* const value = name == nullptr ? nullptr : environment_(name);
    if (value == nullptr || *value == '\0') return std::nullopt;
    return value;
  }
  [[nodiscard]] std::optional<int> number(const char* name, int least, int most) const {
    const std::optional<std::string> value = text(name);
    if (!value) return std::nullopt;
    return parseNumber(name, *value, least, most);
  }

 private:
  const Environment& environment_;
};

bool isOneHost(const Reader& reader, const Names& names, int rankCount) {
  if (const auto nodes = reader.number(names.nodeCount, 1, kMostRanks)) return *nodes == 1;
  return reader.number(names.localCount, 1, kMostRanks) == rankCount;
}

/// A port out of those that systems seldom give away by themselves.
std::uint16_t portOfJob(const Reader& reader, std::int64_t parentProcess) {
  std::string job;
  for (const char* name : {"PMIX_NAMESPACE", "OMPI_MCA_orte_ess_jobid", "OMPI_MCA_ess_base_jobid",
                           "SLURM_JOB_ID", "SLURM_STEP_ID"}) {
    job += reader.text(name).value_or("") + '/';
  }
  if (job.find_first_not_of('/') == std::string::npos) job = std::to_string(parentProcess);
  constexpr std::uint64_t kFirst = 20'000;
  constexpr std::uint64_t kCount = 12'000;
  return static_cast<std::uint16_t>(
      kFirst + perf::fingerprint(std::as_bytes(std::span<const char>(job))) % kCount);
}

std::optional<Endpoint> rootOf(const Reader& reader, const Names& names, int rankCount,
                               std::int64_t parentProcess) {
  std::optional<std::string> host = reader.text("MASTER_ADDR");
  std::optional<int> port = reader.number("MASTER_PORT", 1, kMostPort - 1);
  // torchrun's agent listens there itself.
  if (port && reader.text("TORCHELASTIC_USE_AGENT_STORE") == "True") ++*port;
  if (!port) port = portOfJob(reader, parentProcess);
  if (!host && isOneHost(reader, names, rankCount)) host = "127.0.0.1";
  if (!host && std::string_view(names.launcher) == "srun") {
    const std::optional<std::string> nodes = reader.text("SLURM_STEP_NODELIST");
    if (nodes) host = firstHost(*nodes);
  }
  if (!host) return std::nullopt;
  return Endpoint{*host, static_cast<std::uint16_t>(*port)};
}

}  // namespace

Endpoint parseEndpoint(const std::string& text) {
  const std::size_t colon = text.rfind(':');
  std::string host = text.substr(0, colon);
  if (host.size() >= 2 && host.front() == '[' && host.back() == ']') {
    host = host.substr(1, host.size() - 2);
  }
  if (colon == std::string::npos || host.empty()) {
    throw UsageError(inQuotes(text) + " is not HOST:PORT");
  }
  return {host, static_cast<std::uint16_t>(
                    parseNumber("the port", text.substr(colon + 1), 1, kMostPort))};
}

std::string firstHost(const std::string& nodeList) {
  const std::size_t end = nodeList.find_first_of("[,");
  std::string host = nodeList.substr(0, end);
  if (end != std::string::npos && nodeList[end] == '[') {
    const std::size_t numberEnd = nodeList.find_first_of("-,]", end);
    const std::size_t bracket = nodeList.find(']', end);
    host += nodeList.substr(end + 1, numberEnd - end - 1);
    if (bracket != std::string::npos) {
      host += nodeList.substr(bracket + 1, nodeList.find(',', bracket) - bracket - 1);
    }
  }
  return host;
}

std::optional<LaunchedRank> launchedRank(const Environment& environment,
                                         std::int64_t parentProcess) {
  const Reader reader(environment);
  for (const Names& names : kLaunchers) {
    const std::optional<int> count = reader.number(names.rankCount, 1, kMostRanks);
    if (!count || !reader.text(names.rank)) continue;
    LaunchedRank launched;
    launched.launcher = names.launcher;
    launched.rankCount = *count;
    launched.rank = *reader.number(names.rank, 0, *count - 1);
    // Without one the ranks of a host are taken to be neighbours on it.
    launched.localRank = reader.number(names.localRank, 0, kMostRanks).value_or(launched.rank);
    launched.root = rootOf(reader, names, *count, parentProcess);
    return launched;
  }
  return std::nullopt;
}

}  // namespace zipccl::tools::perf_nccl
