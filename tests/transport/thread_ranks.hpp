// SPDX-License-Identifier: Apache-2.0
//
// Ranks as threads, for tests: runs a function once for each rank of a local world.

#pragma once

#include <gtest/gtest.h>

#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "transport/local_transport.hpp"

namespace zipccl::transport {

using RankFunction = std::function<void(Transport& transport)>;

/// What each rank's function threw, if anything.
using RankErrors = std::vector<std::optional<Error>>;

/// Runs `function` on a thread for each rank of `world` that is not in `absentRanks`, and returns
/// when all have ended. An Error ends a rank and is returned; another exception fails the test.
inline RankErrors runRanks(LocalWorld& world, const RankFunction& function,
                           const std::vector<int>& absentRanks = {}) {
  RankErrors errors(static_cast<std::size_t>(world.rankCount()));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < world.rankCount(); ++rank) {
    bool isAbsent = false;
    for (const int absent : absentRanks) isAbsent = isAbsent || absent == rank;
    if (isAbsent) continue;
    threads.emplace_back([&, rank] {
      try {
        const std::unique_ptr<Transport> transport = world.transport(rank);
        function(*transport);
      } catch (const Error& error) {
        errors[static_cast<std::size_t>(rank)] = error;
      } catch (const std::exception& error) {
        ADD_FAILURE() << "rank " << rank << " threw " << error.what();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  return errors;
}

/// As runRanks() on a new world of `rankCount` ranks; an Error fails the test.
inline void runAllRanks(int rankCount, const RankFunction& function) {
  LocalWorld world(rankCount, {.timeout = std::chrono::seconds(60)});
  const RankErrors errors = runRanks(world, function);
  for (std::size_t rank = 0; rank < errors.size(); ++rank) {
    if (errors[rank]) ADD_FAILURE() << "rank " << rank << ": " << errors[rank]->what();
  }
}

}  // namespace zipccl::transport
