// SPDX-License-Identifier: Apache-2.0
//
// Ranks as threads of this process.

#include <algorithm>
#include <exception>
#include <thread>

#include "perf/datatype.hpp"
#include "perf/random_bits.hpp"
#include "perf/rank_runner.hpp"
#include "perf/run_parts.hpp"

namespace zipccl::tools::perf {
namespace {

/// Throws the exception that tells of a cause, if there is one, rather than of another rank's end.
void rethrowCause(const std::vector<std::exception_ptr>& exceptions) {
  std::exception_ptr consequence;
  for (const std::exception_ptr& exception : exceptions) {
    if (exception == nullptr) continue;
    try {
      std::rethrow_exception(exception);
    } catch (const CallFailure& failure) {
      if (!failure.isConsequence()) throw;
      if (consequence == nullptr) consequence = exception;
    }
  }
  if (consequence != nullptr) std::rethrow_exception(consequence);
}

}  // namespace

ExitStatus runLocal(const Options& options, const std::vector<std::string>& arguments,
                    const Streams& streams) {
  RunSetup setup = prepare(options, arguments);
  const int ranks = options.ranks.value_or(Options::kDefaultRanks);
  const std::uint64_t seed = options.seed ? *options.seed : freshSeed();
  RunInfo& info = setup.report.info;
  info.ranks = ranks;
  if (setup.source->usesSeed()) info.seed = seed;

  const std::unique_ptr<Collective> collective =
      makeCollective(options.collective, info.datatype, ranks);
  const std::vector<std::uint64_t> counts = messageCounts(setup, *collective);
  const std::uint64_t mostCount = counts.back();
  const PoolGeometry geometry(mostSendElements(*collective, mostCount), elementBytes(info.datatype),
                              ranks);
  expectMemory(mostCount, geometry, *collective, {.ranksOfProcess = ranks});

  Reporter reporter(setup.report, streams);
  reporter.progress().show("making data");
  const DataPools pools(*setup.source, seed, ranks, geometry, std::max(info.machine.cores, 1));
  std::vector<RankCommunicators> communicators =
      RankCommunicators::createLocal(ranks, options.strategy, options.linkBytesPerSecond);
  reporter.progress().clear();
  reporter.begin();

  std::vector<std::exception_ptr> exceptions(communicators.size());
  {
    std::vector<std::jthread> threads;
    threads.reserve(communicators.size());
    const auto runRank = [&](std::size_t rank) {
      try {
        RankRunner runner(communicators[rank], pools, *collective, setup.plan, mostCount);
        for (const std::uint64_t count : counts) {
          const SizeResult result =
              runner.measure(count, rank == 0 ? &reporter.progress() : nullptr);
          if (rank == 0) reporter.add(result);
        }
      } catch (...) {
        exceptions[rank] = std::current_exception();
        communicators[rank].abort();
      }
    };
    try {
      for (std::size_t rank = 0; rank < communicators.size(); ++rank) {
        threads.emplace_back(runRank, rank);
      }
    } catch (...) {
      // The ranks that run would wait for those that have no thread.
      for (RankCommunicators& each : communicators) each.abort();
      throw;
    }
  }
  reporter.progress().clear();
  rethrowCause(exceptions);
  reporter.end();
  return setup.report.wrongElements() == 0 ? ExitStatus::kSuccess : ExitStatus::kWrongBits;
}

}  // namespace zipccl::tools::perf
