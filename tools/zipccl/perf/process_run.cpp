// SPDX-License-Identifier: Apache-2.0
//
// What runs over processes have in common.

#include "perf/process_run.hpp"

#include <algorithm>
#include <exception>
#include <set>
#include <span>
#include <utility>

#include "perf/datatype.hpp"
#include "perf/random_bits.hpp"
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

}  // namespace

ProcessRun::ProcessRun(const Options& options, const std::vector<std::string>& arguments,
                       const Streams& streams, std::unique_ptr<Control> control)
    : options_(options),
      arguments_(arguments),
      streams_(streams),
      communicators_{std::move(control), nullptr, nullptr},
      rank_(communicators_.control->rank()),
      ranks_(communicators_.control->rankCount()) {}

ExitStatus ProcessRun::run() {
  greet();
  agree([this] { makeData(); });
  comparePools();
  open();
  const PlainMpi* const plainMpi = openPlainMpi();
  try {
    measure(plainMpi);
  } catch (const CallFailure& failure) {
    communicators_.abort();
    if (failure.isConsequence() && rank_ != 0) throw SilentExit(ExitStatus::kFailure);
    throw;
  } catch (...) {
    communicators_.abort();
    throw;
  }
  agree([this] {
    if (reporter_) reporter_->end();
  });
  close();
  return setup_.report.wrongElements() == 0 ? ExitStatus::kSuccess : ExitStatus::kWrongBits;
}

void ProcessRun::failEverywhere(ExitStatus status, const std::string& message) const {
  if (rank_ != 0) throw SilentExit(status);
  if (status == ExitStatus::kUsage) throw UsageError(message);
  throw Failure(message);
}

void ProcessRun::greet() {
  const Greeting mine{fingerprintOf(arguments_), fingerprintOf(thisMachine().hostName),
                      options_.seed ? *options_.seed : freshSeed()};
  const std::vector<Greeting> all = control().gather(mine);
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
    failEverywhere(ExitStatus::kUsage, "--ranks is " + std::to_string(*options_.ranks) + ", but " +
                                           launcher() + " started " + std::to_string(ranks_) +
                                           (ranks_ == 1 ? " process" : " processes"));
  }
}

void ProcessRun::makeData() {
  setup_ = prepare(options_, arguments_);
  RunInfo& info = setup_.report.info;
  info.ranks = ranks_;
  info.hosts = hosts_;
  if (setup_.source->usesSeed()) info.seed = seed_;
  collective_ = makeCollective(options_.collective, info.datatype, ranks_);
  counts_ = messageCounts(setup_, *collective_);
  const PoolGeometry geometry(mostSendElements(*collective_, counts_.back()),
                              elementBytes(info.datatype), ranks_);
  expectMemory(counts_.back(), geometry, *collective_, {.processes = ranksOfHost_});
  if (rank_ == 0) reporter_.emplace(setup_.report, streams_);
  // The other ranks of this host do the same with the other cores.
  pools_.emplace(*setup_.source, seed_, ranks_, geometry,
                 std::max(info.machine.cores / ranksOfHost_, 1));
}

void ProcessRun::agree(const std::function<void()>& step) {
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
  const std::vector<ExitStatus> all = control().gather(mine);
  const auto first = std::find_if(all.begin(), all.end(),
                                  [](ExitStatus status) { return status != ExitStatus::kSuccess; });
  if (first == all.end()) return;
  const auto firstRank = static_cast<std::size_t>(first - all.begin());
  // One rank speaks, the first; what the others found is nearly always the same.
  if (static_cast<std::size_t>(rank_) == firstRank) std::rethrow_exception(failure);
  throw SilentExit(*first);
}

void ProcessRun::comparePools() {
  std::uint64_t mine = 0;
  for (int rank = 0; rank < ranks_; ++rank) mine = mine * 31 + fingerprint(pools_->pool(rank));
  const std::vector<std::uint64_t> all = control().gather(mine);
  for (std::size_t rank = 0; rank < all.size(); ++rank) {
    if (all[rank] != all.front()) {
      failEverywhere(
          ExitStatus::kFailure,
          "ranks 0 and " + std::to_string(rank) +
              " read or made different data; is the file of --data the same on all hosts?");
    }
  }
}

void ProcessRun::measure(const PlainMpi* plainMpi) {
  RankRunner runner(communicators_, device(), *pools_, *collective_, setup_.plan, counts_.back(),
                    plainMpi);
  if (reporter_) reporter_->begin();
  for (const std::uint64_t count : counts_) {
    const SizeResult result = runner.measure(count, reporter_ ? &reporter_->progress() : nullptr);
    if (reporter_) {
      reporter_->add(result);
    } else {
      setup_.report.results.push_back(result);
    }
  }
}

}  // namespace zipccl::tools::perf
