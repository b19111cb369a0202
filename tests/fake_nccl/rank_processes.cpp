// SPDX-License-Identifier: Apache-2.0
//
// Starting the processes, and hearing of their ends.

#include "rank_processes.hpp"

#include <gtest/gtest.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstddef>
#include <cstdlib>
#include <thread>

namespace zipccl::testing {
namespace {

constexpr const char* kScene = "ZIPCCL_TEST_SCENE";
constexpr const char* kSceneRank = "ZIPCCL_TEST_SCENE_RANK";
constexpr const char* kSceneCount = "ZIPCCL_TEST_SCENE_COUNT";
constexpr const char* kSceneId = "ZIPCCL_TEST_SCENE_ID";

std::string assignment(const char* name, const std::string& value) {
  return std::string(name) + "=" + value;
}

std::string hexOf(const ncclUniqueId& id) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string hex;
  for (const char byte : id.internal) {
    hex += kDigits[static_cast<unsigned char>(byte) >> 4];
    hex += kDigits[static_cast<unsigned char>(byte) & 15U];
  }
  return hex;
}

/// This program again; -1 where that is not to be.
pid_t start(std::vector<std::string> variables) {
  std::vector<char*> environment;
  // The first of a name counts.
  for (std::string& each : variables) environment.push_back(each.data());
  for (char** each = environ; *each != nullptr; ++each) environment.push_back(*each);
  environment.push_back(nullptr);
  std::string path = "/proc/self/exe";
  char* const arguments[] = {path.data(), nullptr};
  pid_t process = -1;
  EXPECT_EQ(::posix_spawn(&process, path.c_str(), nullptr, nullptr, arguments, environment.data()),
            0);
  return process;
}

int awaitEnd(pid_t process, std::chrono::steady_clock::time_point deadline) {
  int status = -1;
  if (process < 0) return status;
  while (::waitpid(process, &status, WNOHANG) == 0) {
    if (std::chrono::steady_clock::now() > deadline) {
      ::kill(process, SIGKILL);
      ::waitpid(process, &status, 0);
      return -1;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return status;
}

}  // namespace

std::optional<PlayedRank> playedRank() {
  const char* const scene = std::getenv(kScene);
  if (scene == nullptr) return std::nullopt;
  PlayedRank played{.scene = scene,
                    .rank = std::atoi(std::getenv(kSceneRank)),
                    .count = std::atoi(std::getenv(kSceneCount))};
  const std::string hex = std::getenv(kSceneId);
  for (std::size_t i = 0; i < sizeof(played.id.internal); ++i) {
    played.id.internal[i] = static_cast<char>(std::stoi(hex.substr(2 * i, 2), nullptr, 16));
  }
  return played;
}

std::vector<int> playInProcesses(const std::string& scene, int count,
                                 std::vector<std::string> variables, std::chrono::seconds limit) {
  ncclUniqueId id{};
  EXPECT_EQ(ncclGetUniqueId(&id), 0);
  variables.push_back(assignment(kScene, scene));
  variables.push_back(assignment(kSceneCount, std::to_string(count)));
  variables.push_back(assignment(kSceneId, hexOf(id)));
  std::vector<pid_t> processes;
  for (int rank = 0; rank < count; ++rank) {
    std::vector<std::string> own = variables;
    own.push_back(assignment(kSceneRank, std::to_string(rank)));
    processes.push_back(start(std::move(own)));
  }
  const auto deadline = std::chrono::steady_clock::now() + limit;
  std::vector<int> ends;
  for (const pid_t process : processes) ends.push_back(awaitEnd(process, deadline));
  return ends;
}

}  // namespace zipccl::testing
