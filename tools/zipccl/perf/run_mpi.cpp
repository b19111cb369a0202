// SPDX-License-Identifier: Apache-2.0
//
// Ranks as the processes of an MPI job. What a process finds out alone, before the measurements,
// the others are told before any of them ends, so that the job ends with one status and one
// message.

#include <algorithm>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <span>

#include "perf/datatype.hpp"
#include "perf/plain_mpi.hpp"
#include "perf/random_bits.hpp"
#include "perf/rank_runner.hpp"
#include "perf/run_parts.hpp"
#include "support/text.hpp"

namespace zipccl::tools::perf {
namespace {

/// What the processes tell each other before there is any data.
struct Greeting {
  std::uint64_t arguments = 0;  ///< fingerprints
  std::uint64_t host = 0;
  std::uint64_t seed = 0;
};

std::uint64_t fingerprintOf(const std::string& text) {
  return fingerprint(std::as_bytes(std::span(text)));
}

std::uint64_t fingerprintOf(const std::vector<std::string>& texts) {
  std::string joined;
  // Behind the program's name, which may differ from host to host.
  for (std::size_t i = 1; i < texts.size(); ++i) joined += texts[i] + '\0';
  return fingerprintOf(joined);
}

class MpiRun {
 public:
  MpiRun(const Options& options, const std::vector<std::string>& arguments, const Streams& streams)
      : options_(options),
        arguments_(arguments),
        streams_(streams),
        communicators_(RankCommunicators::createMpi(options.strategy)),
        rank_(communicators_.control.rank()),
        ranks_(communicators_.control.rankCount()) {}

  ExitStatus run() {
    greet();
    agree([this] { makeData(); });
    comparePools();
    agree([this] { openPlainMpi(); });
    runner_.emplace(communicators_, *pools_, *collective_, setup_.plan, counts_.back(),
                    plainMpi_ ? &*plainMpi_ : nullptr);
    try {
      measure();
    } catch (const CallFailure& failure) {
      communicators_.abort();
      if (failure.isConsequence() && rank_ != 0) throw SilentExit(ExitStatus::kFailure);
      throw;
    }
    if (plainMpi_) plainMpi_->close();
    return setup_.report.wrongElements() == 0 ? ExitStatus::kSuccess : ExitStatus::kWrongBits;
  }

 private:
  /// Ends a run for a reason that all ranks have found: rank 0 says it.
  [[noreturn]] void failEverywhere(ExitStatus status, const std::string& message) const {
    if (rank_ != 0) throw SilentExit(status);
    if (status == ExitStatus::kUsage) throw UsageError(message);
    throw Failure(message);
  }

  void greet() {
    const Greeting mine{fingerprintOf(arguments_), fingerprintOf(thisMachine().hostName),
                        options_.seed ? *options_.seed : freshSeed()};
    const std::vector<Greeting> all = communicators_.control.gather(mine);
    std::set<std::uint64_t> hosts;
    for (std::size_t rank = 0; rank < all.size(); ++rank) {
      if (all[rank].arguments != all.front().arguments) {
        failEverywhere(ExitStatus::kUsage, "rank " + std::to_string(rank) +
                                               " was started with other arguments than rank 0");
      }
      hosts.insert(all[rank].host);
    }
    hosts_ = static_cast<int>(hosts.size());
    ranksOfHost_ = static_cast<int>(std::count_if(
        all.begin(), all.end(), [&](const Greeting& each) { return each.host == mine.host; }));
    seed_ = all.front().seed;
    if (options_.ranks && *options_.ranks != ranks_) {
      failEverywhere(ExitStatus::kUsage, "--ranks is " + std::to_string(*options_.ranks) +
                                             ", but mpirun started " + std::to_string(ranks_) +
                                             (ranks_ == 1 ? " process" : " processes"));
    }
  }

  void makeData() {
    setup_ = prepare(options_, arguments_);
    RunInfo& info = setup_.report.info;
    info.ranks = ranks_;
    info.hosts = hosts_;
    if (setup_.source->usesSeed()) info.seed = seed_;
    if (options_.linkBytesPerSecond != 0) {
      throw UsageError("--link emulates links of --transport local only");
    }
    collective_ = makeCollective(options_.collective, info.datatype, ranks_);
    counts_ = messageCounts(setup_, *collective_);
    const PoolGeometry geometry(mostSendElements(*collective_, counts_.back()),
                                elementBytes(info.datatype), ranks_);
    expectMemory(counts_.back(), geometry, *collective_, {.processes = ranksOfHost_});
    if (rank_ == 0) reporter_.emplace(setup_.report, streams_);
    // The other ranks of this host do the same with the other cores.
    pools_.emplace(*setup_.source, seed_, ranks_, geometry, 1);
  }

  /// MPI's own collective is measured beside the library's where every rank can call it.
  void openPlainMpi() {
    std::string reason;
    try {
      plainMpi_.emplace();
      reason = plainMpi_->refusal(*collective_, counts_.back());
    } catch (const Failure& failure) {
      reason = failure.what();
    }
    const std::vector<std::uint8_t> has =
        communicators_.control.gather(static_cast<std::uint8_t>(reason.empty() ? 1 : 0));
    const auto first = std::find(has.begin(), has.end(), 0);
    if (first == has.end()) {
      plainMpi_->open();
      setup_.report.info.plainMpi = plainMpi_->libraryVersion();
      return;
    }
    plainMpi_.reset();
    setup_.report.info.noPlainMpi =
        reason.empty() ? "rank " + std::to_string(first - has.begin()) + " cannot" : reason;
  }

  /// Runs `step` on all ranks. If it fails somewhere, it fails everywhere.
  void agree(const std::function<void()>& step) {
    std::exception_ptr failure;
    auto mine = ExitStatus::kSuccess;
    try {
      step();
    } catch (const UsageError&) {
      failure = std::current_exception();
      mine = ExitStatus::kUsage;
    } catch (const std::exception&) {
      failure = std::current_exception();
      mine = ExitStatus::kFailure;
    }
    const std::vector<ExitStatus> all = communicators_.control.gather(mine);
    const auto first = std::find_if(
        all.begin(), all.end(), [](ExitStatus status) { return status != ExitStatus::kSuccess; });
    if (first == all.end()) return;
    const auto firstRank = static_cast<std::size_t>(first - all.begin());
    // One rank speaks, the first; what the others found is nearly always the same.
    if (static_cast<std::size_t>(rank_) == firstRank) std::rethrow_exception(failure);
    throw SilentExit(*first);
  }

  /// Every rank holds what all send; what a file says on one host, it may not on another.
  void comparePools() {
    std::uint64_t mine = 0;
    for (int rank = 0; rank < ranks_; ++rank) mine = mine * 31 + fingerprint(pools_->pool(rank));
    const std::vector<std::uint64_t> all = communicators_.control.gather(mine);
    for (std::size_t rank = 0; rank < all.size(); ++rank) {
      if (all[rank] != all.front()) {
        failEverywhere(
            ExitStatus::kFailure,
            "ranks 0 and " + std::to_string(rank) +
                " read or made different data; is the file of --data the same on all hosts?");
      }
    }
  }

  void measure() {
    if (reporter_) reporter_->begin();
    for (const std::uint64_t count : counts_) {
      const SizeResult result =
          runner_->measure(count, reporter_ ? &reporter_->progress() : nullptr);
      if (reporter_) {
        reporter_->add(result);
      } else {
        setup_.report.results.push_back(result);
      }
    }
    agree([this] {
      if (reporter_) reporter_->end();
    });
  }

  const Options& options_;
  const std::vector<std::string>& arguments_;
  const Streams& streams_;
  RankCommunicators communicators_;
  int rank_;
  int ranks_;
  int hosts_ = 1;
  int ranksOfHost_ = 1;
  std::uint64_t seed_ = 0;
  RunSetup setup_;
  std::unique_ptr<Collective> collective_;
  std::vector<std::uint64_t> counts_;
  std::optional<DataPools> pools_;
  std::optional<PlainMpi> plainMpi_;
  std::optional<RankRunner> runner_;
  std::optional<Reporter> reporter_;
};

}  // namespace

ExitStatus runMpi(const Options& options, const std::vector<std::string>& arguments,
                  const Streams& streams) {
  return MpiRun(options, arguments, streams).run();
}

}  // namespace zipccl::tools::perf
