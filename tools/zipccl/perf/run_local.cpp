// SPDX-License-Identifier: Apache-2.0
//
// Ranks as threads of this process, over the host's memory.

#include "perf/run_parts.hpp"
#include "perf/thread_run.hpp"

namespace zipccl::tools::perf {

ExitStatus runLocal(const Options& options, const std::vector<std::string>& arguments,
                    const Streams& streams) {
  const int ranks = options.ranks.value_or(Options::kDefaultRanks);
  std::vector<RankCommunicators> communicators;
  ThreadRun run;
  run.ranks = ranks;
  run.prepare = [&](RunInfo&) {
    communicators =
        RankCommunicators::createLocal(ranks, options.strategy, options.linkBytesPerSecond);
  };
  run.open = [&](int rank) {
    return RankEnds{makeHostDevice(), std::move(communicators[static_cast<std::size_t>(rank)])};
  };
  return runThreads(run, options, arguments, streams);
}

}  // namespace zipccl::tools::perf
