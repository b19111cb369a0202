// SPDX-License-Identifier: Apache-2.0
//
// The command as a function: what it answers, where it writes, and how it ends.

#include "command_line.hpp"

#include <gtest/gtest.h>
#include <zipccl/version.h>

#include <sstream>
#include <string>
#include <vector>

#include "temporary_folder.hpp"

namespace zipccl::tools {
namespace {

struct Answer {
  ExitStatus status = ExitStatus::kSuccess;
  std::string out;
  std::string error;
};

Answer run(std::vector<std::string> words, bool isTerminal = false) {
  words.insert(words.begin(), "zipccl");
  std::ostringstream out;
  std::ostringstream error;
  const ExitStatus status = runCommandLine(words, {out, error, isTerminal});
  return {status, out.str(), error.str()};
}

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

/// A run of a fraction of a second.
std::vector<std::string> smallRun(const std::vector<std::string>& more = {}) {
  std::vector<std::string> words = {"perf", "all_gather", "-b", "8K", "-e", "64K",     "-f",
                                    "8",    "-n",         "2",  "-w", "1",  "--ranks", "3"};
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

TEST(CommandLine, AnswersQuestions) {
  const Answer version = run({"--version"});
  EXPECT_EQ(version.status, ExitStatus::kSuccess);
  EXPECT_EQ(version.out, "zipccl " ZIPCCL_VERSION_STRING "\n");
  EXPECT_EQ(version.error, "");

  const Answer help = run({"--help"});
  EXPECT_EQ(help.status, ExitStatus::kSuccess);
  EXPECT_TRUE(has(help.out, "perf")) << help.out;
  EXPECT_EQ(help.error, "");

  EXPECT_TRUE(has(run({"perf", "-h"}).out, "all_gather"));
  const Answer flags = run({"perf", "all_gather", "--help"});
  EXPECT_EQ(flags.status, ExitStatus::kSuccess);
  for (const char* flag : {"--minbytes", "--maxbytes", "--stepfactor", "--iters", "--warmup_iters",
                           "--check", "--datatype", "--data", "--seed", "--ranks", "--transport",
                           "--strategy", "--json", "Exit status"}) {
    EXPECT_TRUE(has(flags.out, flag)) << flag;
  }
}

TEST(CommandLine, EndsWithTwoWhenItCannotBeCarriedOut) {
  const testing::TemporaryFolder folder;
  const std::string ints = folder.write(
      "ints.safetensors", testing::safetensorsBytes(
                              R"({"n":{"dtype":"I32","shape":[1],"data_offsets":[0,4]}})", "1234"));
  const std::vector<std::vector<std::string>> wrong = {
      {},
      {"nonsense"},
      {"perf"},
      {"perf", "all_nonsense"},
      {"--nonsense"},
      {"perf", "all_gather", "--nonsense"},
      {"perf", "all_gather", "-b", "1Q"},
      {"perf", "all_gather", "-b", "2M", "-e", "1M"},
      {"perf", "all_gather", "--data", "normal:0"},
      {"perf", "all_gather", "--data", "file:" + folder.path("missing")},
      {"perf", "all_gather", "--data", "file:" + ints},
      {"perf", "all_gather", "--data", "file:" + ints + ":m"},
      {"perf", "all_gather", "--data", "file:" + ints + ":n", "-d", "bf16"},
  };
  for (const std::vector<std::string>& words : wrong) {
    const Answer answer = run(words);
    std::string line;
    for (const std::string& word : words) line += word + " ";
    EXPECT_EQ(answer.status, ExitStatus::kUsage) << line << answer.error;
    EXPECT_EQ(answer.out, "") << line;
    EXPECT_EQ(answer.error.rfind("zipccl: ", 0), 0U) << line << answer.error;
    EXPECT_TRUE(has(answer.error, "--help")) << line << answer.error;
  }
  EXPECT_TRUE(
      has(run({"perf", "all_gather", "-b", "1Q"}).error, "Try: zipccl perf all_gather --help"));
}

TEST(CommandLine, EndsWithThreeWhenSomethingFails) {
  const testing::TemporaryFolder folder;
  const std::string broken = folder.write("broken.safetensors", "12345678{}");
  const std::vector<std::vector<std::string>> failing = {
      {"perf", "all_gather", "--data", "file:" + broken},
      {"perf", "all_gather", "-b", "1024T"},
      {"perf", "all_gather", "-b", "4194304T", "--ranks", "1024"},
      smallRun({"-J", folder.path("missing/out.json")}),
  };
  for (const std::vector<std::string>& words : failing) {
    const Answer answer = run(words);
    EXPECT_EQ(answer.status, ExitStatus::kFailure) << answer.error;
    EXPECT_EQ(answer.out, "");
    EXPECT_EQ(answer.error.rfind("zipccl: ", 0), 0U) << answer.error;
  }
}

TEST(CommandLine, PrintsATableAndNothingElse) {
  const Answer answer = run(smallRun());
  EXPECT_EQ(answer.status, ExitStatus::kSuccess) << answer.error;
  EXPECT_EQ(answer.error, "");
  std::istringstream lines(answer.out);
  int rows = 0;
  for (std::string line; std::getline(lines, line);) {
    if (line.front() == '#') continue;
    std::istringstream words(line);
    std::uint64_t sizeBytes = 0;
    std::uint64_t count = 0;
    words >> sizeBytes >> count;
    // 8 KiB and 64 KiB on three ranks, in whole bf16 elements.
    EXPECT_EQ(count, rows == 0 ? 1365U : 10922U);
    EXPECT_EQ(sizeBytes, count * 2 * 3);
    ++rows;
  }
  EXPECT_EQ(rows, 2);
}

TEST(CommandLine, ShowsProgressOnATerminalOnly) {
  const Answer answer = run(smallRun(), true);
  EXPECT_EQ(answer.status, ExitStatus::kSuccess);
  EXPECT_TRUE(has(answer.error, "pair 2"));
  EXPECT_FALSE(has(answer.out, "\r"));
  EXPECT_EQ(answer.error.substr(answer.error.size() - 4), "\r\x1b[K");
}

TEST(CommandLine, RunsAtTheEdges) {
  for (const std::vector<std::string>& more :
       std::vector<std::vector<std::string>>{{"--ranks", "1"},
                                             {"--ranks", "5", "-b", "0", "-e", "0"},
                                             {"--ranks", "2", "-b", "6", "-e", "6"},
                                             {"-d", "fp32", "--strategy", "auto"},
                                             {"-d", "int64", "--strategy", "native"},
                                             {"-d", "e4m3", "-c", "0"},
                                             {"-d", "half", "-c", "3", "-w", "0"}}) {
    std::vector<std::string> words = {"perf", "all_gather", "-n", "1"};
    words.insert(words.end(), more.begin(), more.end());
    if (more[0] != "--ranks" || more.size() == 2) {
      words.insert(words.end(), {"-b", "10002", "-e", "10002"});
    }
    const Answer answer = run(words);
    EXPECT_EQ(answer.status, ExitStatus::kSuccess) << more[1] << answer.error;
    EXPECT_EQ(answer.error, "");
  }
}

}  // namespace
}  // namespace zipccl::tools
