// SPDX-License-Identifier: Apache-2.0
//
// Ranks of the fake NCCL as processes: a test program runs itself again for each of them, told by
// its environment what to play.

#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "nccl_calls.h"

namespace zipccl::testing {

/// What a process plays.
struct PlayedRank {
  std::string scene;
  int rank = 0;
  int count = 0;
  ncclUniqueId id{};  ///< of a communicator of all of them
};

/// What this process is to play, if it was started for that.
[[nodiscard]] std::optional<PlayedRank> playedRank();

/// Has `count` processes play the scene, with `variables`, as NAME=value, besides those of this
/// one. How each of them ended, as waitpid() tells it; -1 for one that had not within `limit`, and
/// was killed.
[[nodiscard]] std::vector<int> playInProcesses(
    const std::string& scene, int count, std::vector<std::string> variables = {},
    std::chrono::seconds limit = std::chrono::seconds(100));

}  // namespace zipccl::testing
