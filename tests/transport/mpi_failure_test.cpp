// SPDX-License-Identifier: Apache-2.0
//
// Failures of the MPI transport, each played by three processes (mpi_scenario.cpp): every rank must
// end with a clear error, within a time limit, whatever the others do.

#include <gtest/gtest.h>
#include <sys/wait.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "base/text.hpp"

namespace zipccl::transport {
namespace {

/// Ends a scenario that hangs; far above what any takes.
constexpr int kLimitSeconds = 90;

struct Played {
  int exitStatus = -1;
  std::string output;
  std::map<int, std::vector<std::string>> lines;  // by rank
};

Played play(const std::string& scenario) {
  std::string folder = (std::filesystem::temp_directory_path() / "zipccl_mpi_XXXXXX").string();
  EXPECT_NE(::mkdtemp(folder.data()), nullptr);
  const std::string command =
      concat("timeout -k 5 ", kLimitSeconds, " " ZIPCCL_MPIRUN " " ZIPCCL_MPI_SCENARIO " ",
             scenario, " ", folder, " 2>&1");
  Played played;
  std::FILE* const pipe = ::popen(command.c_str(), "r");
  if (pipe == nullptr) {
    ADD_FAILURE() << "cannot run " << command;
    return played;
  }
  char buffer[4096];
  while (std::fgets(buffer, sizeof(buffer), pipe) != nullptr) {
    played.output += buffer;
    int rank = -1;
    int prefixBytes = 0;
    if (std::sscanf(buffer, "rank %d: %n", &rank, &prefixBytes) == 1 && prefixBytes > 0) {
      std::string text = buffer + prefixBytes;
      if (text.ends_with('\n')) text.pop_back();
      played.lines[rank].push_back(text);
    }
  }
  const int status = ::pclose(pipe);
  std::error_code ignored;
  std::filesystem::remove_all(folder, ignored);
  played.exitStatus = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  EXPECT_NE(played.exitStatus, 124) << scenario << " hangs:\n" << played.output;
  return played;
}

/// The line with that number of `rank` must contain all words.
void expectLine(const Played& played, int rank, std::size_t number,
                const std::vector<std::string>& words) {
  const auto found = played.lines.find(rank);
  ASSERT_TRUE(found != played.lines.end() && found->second.size() > number)
      << "no line " << number << " of rank " << rank << " in:\n"
      << played.output;
  const std::string& line = found->second[number];
  for (const std::string& word : words) {
    EXPECT_NE(line.find(word), std::string::npos)
        << "\"" << word << "\" is not in rank " << rank << "'s: " << line << "\nall:\n"
        << played.output;
  }
}

class MpiFailure : public ::testing::Test {
 protected:
  void SetUp() override {
    if (std::string_view(ZIPCCL_MPIRUN).empty()) GTEST_SKIP() << "this build has no mpirun";
    ::setenv("ZIPCCL_PLUGIN_DIR", ZIPCCL_TEST_PLUGIN_DIR, 1);
  }
};

TEST_F(MpiFailure, NoneEndsCleanly) {
  const Played played = play("clean");
  EXPECT_EQ(played.exitStatus, 0) << played.output;
  for (int rank = 0; rank < 3; ++rank) expectLine(played, rank, 0, {"done"});
}

TEST_F(MpiFailure, AbortWakesEveryone) {
  const Played played = play("abort");
  EXPECT_NE(played.exitStatus, 0);
  for (int rank = 0; rank < 3; ++rank) {
    for (const std::size_t line : {0u, 1u}) {
      expectLine(played, rank, line, {"error 6", "aborted: the watchdog had enough (rank 0)"});
    }
  }
}

TEST_F(MpiFailure, AMissingRankIsNamed) {
  for (const char* const scenario : {"missing", "missing-large"}) {
    const Played played = play(scenario);
    EXPECT_NE(played.exitStatus, 0);
    for (int rank = 0; rank < 3; ++rank) {
      expectLine(played, rank, 0,
                 {"error 6", "all-gather", "of 3 waited 0.500 s", "rank 2 is not in it"});
    }
  }
}

TEST_F(MpiFailure, AMissingPeerOfAnExchangeIsNamed) {
  const Played played = play("missing-exchange");
  EXPECT_NE(played.exitStatus, 0);
  for (int rank = 0; rank < 3; ++rank) {
    expectLine(played, rank, 0,
               {"error 6", "exchange", "waited 0.500 s", "for data from rank 2",
                "for rank 2 to take its data", "rank 2 is in no call"});
  }
}

/// The late rank gets its data and sees no error; it must not hang in MPI's end.
TEST_F(MpiFailure, ALateRankDoesNotHangAtTheEnd) {
  const Played played = play("late-and-content");
  EXPECT_NE(played.exitStatus, 0);
  for (int rank = 0; rank < 2; ++rank)
    expectLine(played, rank, 0, {"error 6", "rank 2 is not in it"});
  expectLine(played, 2, 0, {"error"});
}

TEST_F(MpiFailure, ARankThatLeftEndsTheWaitAtOnce) {
  const Played played = play("left");
  EXPECT_NE(played.exitStatus, 0);
  expectLine(played, 2, 0, {"left"});
  for (int rank = 0; rank < 2; ++rank)
    expectLine(played, rank, 0, {"error 6", "rank 2 left before it"});
}

TEST_F(MpiFailure, ARankThatThrowsIsOneThatLeft) {
  const Played played = play("thrown");
  EXPECT_NE(played.exitStatus, 0);
  expectLine(played, 1, 0, {"threw a fault of rank 1 alone"});
  for (const int rank : {0, 2}) expectLine(played, rank, 0, {"error 6", "rank 1 left before it"});
}

TEST_F(MpiFailure, SizesThatDifferAreNamedOnBothRanks) {
  const std::vector<std::pair<std::string, std::vector<std::string>>> cases = {
      {"mismatch-short", {"rank 0 sends 4194208 bytes to rank 1, which expects 4194304 bytes"}},
      {"mismatch-long", {"rank 0 sends 4194304 bytes", "to rank 1, which expects 4194208 bytes"}},
      {"mismatch-small", {"rank 0 sends 100 bytes to rank 1, which expects 96 bytes"}},
      {"mismatch-zero", {"rank 0 sends 0 bytes to rank 1, which expects 7 bytes"}},
      {"mismatch-in-pieces-short",
       {"rank 0 sends 61440 bytes", "to rank 1, which expects 100000 bytes"}},
      {"mismatch-in-pieces-long",
       {"rank 0 sends 100000 bytes to rank 1, which expects 61440 bytes"}},
      {"mismatch-in-pieces-many",
       {"rank 0 sends at least 122880 bytes", "to rank 1, which expects 70000 bytes"}},
  };
  for (const auto& [scenario, words] : cases) {
    SCOPED_TRACE(scenario);
    const Played played = play(scenario);
    EXPECT_NE(played.exitStatus, 0);
    for (int rank = 0; rank < 3; ++rank) {
      expectLine(played, rank, 0, {rank == 2 ? "error 6" : "error 5"});
      expectLine(played, rank, 0, words);
    }
  }
}

TEST_F(MpiFailure, ControlBlobsOfDifferentSizesAreNoticed) {
  const Played played = play("control-mismatch");
  EXPECT_NE(played.exitStatus, 0);
  for (int rank = 0; rank < 3; ++rank) {
    expectLine(played, rank, 0, {"control all-gather", "36 bytes", "40 bytes", "rank 1"});
  }
}

TEST_F(MpiFailure, ADroppedRequestAborts) {
  const Played played = play("dropped-request");
  EXPECT_NE(played.exitStatus, 0);
  for (int rank = 0; rank < 3; ++rank) {
    expectLine(played, rank, 0, {"error 6", "rank 0 gave up its exchange in flight"});
  }
}

TEST_F(MpiFailure, AProgramMayOwnMpi) {
  const Played played = play("initialised-by-program");
  EXPECT_EQ(played.exitStatus, 0) << played.output;
  for (int rank = 0; rank < 3; ++rank) {
    expectLine(played, rank, 0, {"error 2", "MPI was finalised before"});
  }
}

TEST_F(MpiFailure, ErrorsOfMpiDoNotEndTheProgram) {
  const Played played = play("error-of-mpi");
  EXPECT_EQ(played.exitStatus, 0) << played.output;
  for (int rank = 0; rank < 3; ++rank) expectLine(played, rank, 0, {"goes on"});
}

TEST_F(MpiFailure, ARankMissingAtTheStartIsATimeout) {
  const Played played = play("missing-at-start");
  EXPECT_NE(played.exitStatus, 0);
  for (int rank = 0; rank < 2; ++rank) {
    expectLine(played, rank, 0,
               {"error 6", "not all ranks of the MPI communicator came within 0.500 s"});
  }
}

}  // namespace
}  // namespace zipccl::transport
