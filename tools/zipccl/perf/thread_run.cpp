// SPDX-License-Identifier: Apache-2.0
//
// Ranks as threads of this process.

#include "perf/thread_run.hpp"

#include <algorithm>
#include <exception>
#include <mutex>
#include <optional>
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

/// The ends of all ranks that are open now.
class OpenEnds {
 public:
  explicit OpenEnds(int ranks) : ends_(static_cast<std::size_t>(ranks)) {}

  RankEnds& put(std::size_t rank, RankEnds made) {
    const std::lock_guard lock(mutex_);
    ends_[rank] = std::move(made);
    if (isAborted_) ends_[rank]->communicators.abort();
    return *ends_[rank];
  }
  /// Ends those of a rank, in its thread: some do it together.
  void close(std::size_t rank) {
    std::optional<RankEnds> closing;
    {
      const std::lock_guard lock(mutex_);
      closing = std::move(ends_[rank]);
      ends_[rank].reset();
    }
  }
  void abort() noexcept {
    const std::lock_guard lock(mutex_);
    isAborted_ = true;
    for (std::optional<RankEnds>& each : ends_) {
      if (each) each->communicators.abort();
    }
  }

 private:
  std::mutex mutex_;
  std::vector<std::optional<RankEnds>> ends_;
  bool isAborted_ = false;
};

}  // namespace

ExitStatus runThreads(const ThreadRun& run, const Options& options,
                      const std::vector<std::string>& arguments, const Streams& streams) {
  RunSetup setup = prepare(options, arguments);
  const std::uint64_t seed = options.seed ? *options.seed : freshSeed();
  RunInfo& info = setup.report.info;
  info.ranks = run.ranks;
  if (setup.source->usesSeed()) info.seed = seed;

  const std::unique_ptr<Collective> collective =
      makeCollective(options.collective, info.datatype, run.ranks);
  const std::vector<std::uint64_t> counts = messageCounts(setup, *collective);
  const std::uint64_t mostCount = counts.back();
  const PoolGeometry geometry(mostSendElements(*collective, mostCount), elementBytes(info.datatype),
                              run.ranks);
  expectMemory(mostCount, geometry, *collective, {.ranksOfProcess = run.ranks});

  Reporter reporter(setup.report, streams);
  reporter.progress().show("making data");
  const DataPools pools(*setup.source, seed, run.ranks, geometry, std::max(info.machine.cores, 1));
  run.prepare(info);
  reporter.progress().clear();

  OpenEnds ends(run.ranks);
  std::vector<std::exception_ptr> exceptions(static_cast<std::size_t>(run.ranks));
  {
    std::vector<std::jthread> threads;
    threads.reserve(exceptions.size());
    const auto runRank = [&](std::size_t rank) {
      try {
        RankEnds& own = ends.put(rank, run.open(static_cast<int>(rank)));
        if (rank == 0) reporter.begin();
        RankRunner runner(own.communicators, *own.device, pools, *collective, setup.plan,
                          mostCount);
        for (const std::uint64_t count : counts) {
          const SizeResult result =
              runner.measure(count, rank == 0 ? &reporter.progress() : nullptr);
          if (rank == 0) reporter.add(result);
        }
      } catch (...) {
        exceptions[rank] = std::current_exception();
        ends.abort();
      }
      ends.close(rank);
    };
    try {
      for (std::size_t rank = 0; rank < exceptions.size(); ++rank) {
        threads.emplace_back(runRank, rank);
      }
    } catch (...) {
      // The ranks that run would wait for those that have no thread.
      ends.abort();
      throw;
    }
  }
  reporter.progress().clear();
  rethrowCause(exceptions);
  reporter.end();
  return setup.report.wrongElements() == 0 ? ExitStatus::kSuccess : ExitStatus::kWrongBits;
}

}  // namespace zipccl::tools::perf
