// SPDX-License-Identifier: Apache-2.0
//
// The log: the shape of its lines, what is written at which level, and where it goes.

#include "base/log.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "base/settings.hpp"
#include "base/text.hpp"
#include "base/unique_fd.hpp"

namespace zipccl {
namespace {

class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string pattern = (std::filesystem::temp_directory_path() / "zipccl_log_XXXXXX").string();
    if (::mkdtemp(pattern.data()) == nullptr) ADD_FAILURE() << "no temporary folder";
    path_ = pattern;
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  [[nodiscard]] std::string file(const char* name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

std::string contentOf(const std::string& path) {
  std::ifstream in(path);
  std::stringstream text;
  text << in.rdbuf();
  return text.str();
}

/// Sends a descriptor of this process to a file for as long as it lives.
class Redirection {
 public:
  Redirection(int fd, const std::string& path) : fd_(fd), saved_(::dup(fd)) {
    std::fflush(nullptr);
    const UniqueFd file(::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
    ::dup2(file.get(), fd_);
  }
  ~Redirection() {
    std::fflush(nullptr);
    ::dup2(saved_.get(), fd_);
  }

 private:
  int fd_;
  UniqueFd saved_;
};

Settings settingsFrom(const std::map<std::string, std::string>& variables) {
  ParsedSettings parsed = parseSettings(variables);
  EXPECT_TRUE(parsed.problems.empty());
  return parsed.settings;
}

constexpr SourceLocation kHere{"/x/src/base/somewhere.cpp", 42};

TEST(Log, LinesHaveNcclsShape) {
  const TemporaryFolder folder;
  Log log(settingsFrom({{"ZIPCCL_DEBUG", "TRACE"}, {"ZIPCCL_DEBUG_FILE", folder.file("log")}}));
  setLogDevice(5);
  log.write(LogLevel::kWarn, "a warning", kHere);
  setLogDevice(-1);
  log.write(LogLevel::kInfo, "two\nlines\r\x1B[2J\x7F", kHere);
  log.write(LogLevel::kTrace, "a trace", kHere);
  log.write(LogLevel::kVersion, "1.2.3", kHere);
  const std::string prefix = concat(shortHostName(), ':', static_cast<std::int64_t>(::getpid()),
                                    ':', static_cast<std::int64_t>(::syscall(SYS_gettid)), ' ');
  std::string content = contentOf(folder.file("log"));
  // The time of the trace, with three digits behind the point, is the one thing that varies.
  const std::size_t timeAt = content.find("[-1] ", content.find("INFO") + 1) + 5;
  const std::size_t timeEnd = content.find(' ', timeAt);
  ASSERT_NE(timeEnd, std::string::npos) << content;
  const std::string time = content.substr(timeAt, timeEnd - timeAt);
  EXPECT_EQ(time.find_first_not_of("0123456789."), std::string::npos) << content;
  EXPECT_EQ(time.find('.') + 4, time.size()) << content;
  content.replace(timeAt, time.size(), "TIME");
  EXPECT_EQ(content, prefix + "[5] src/base/somewhere.cpp:42 ZIPCCL WARN a warning\n" +  //
                         prefix + "[-1] ZIPCCL INFO two lines  [2J \n" +                 //
                         prefix + "[-1] TIME ZIPCCL TRACE a trace\nZIPCCL version 1.2.3\n");
}

TEST(Log, LevelsAndSubsystemsChoose) {
  const Log quiet(settingsFrom({{"ZIPCCL_DEBUG", "NONE"}}));
  EXPECT_FALSE(quiet.isEnabled(LogLevel::kVersion));
  EXPECT_FALSE(quiet.isEnabled(LogLevel::kWarn));
  const Log standard{Settings()};
  EXPECT_TRUE(standard.isEnabled(LogLevel::kVersion));
  EXPECT_TRUE(standard.isEnabled(LogLevel::kWarn));
  EXPECT_FALSE(standard.isEnabled(LogLevel::kInfo, LogSubsystem::kInit));
  const Log info(settingsFrom({{"ZIPCCL_DEBUG", "INFO"}, {"ZIPCCL_DEBUG_SUBSYS", "COLL"}}));
  EXPECT_TRUE(info.isEnabled(LogLevel::kInfo, LogSubsystem::kColl));
  EXPECT_FALSE(info.isEnabled(LogLevel::kInfo, LogSubsystem::kInit));
  EXPECT_TRUE(info.isEnabled(LogLevel::kWarn, LogSubsystem::kInit));
  EXPECT_FALSE(info.isEnabled(LogLevel::kTrace, LogSubsystem::kColl));
}

TEST(Log, WarnsOnceForEachKey) {
  const TemporaryFolder folder;
  Log log(settingsFrom({{"ZIPCCL_DEBUG_FILE", folder.file("log")}}));
  EXPECT_TRUE(log.warnOnce("a", "first", kHere));
  EXPECT_FALSE(log.warnOnce("a", "second", kHere));
  EXPECT_TRUE(log.warnOnce("b", "third", kHere));
  const std::string content = contentOf(folder.file("log"));
  EXPECT_NE(content.find("first"), std::string::npos);
  EXPECT_EQ(content.find("second"), std::string::npos);
  EXPECT_NE(content.find("third"), std::string::npos);
  Log quiet(settingsFrom({{"ZIPCCL_DEBUG", "NONE"}}));
  EXPECT_FALSE(quiet.warnOnce("a", "first", kHere));
}

TEST(Log, GoesToStandardErrorAndNeverToStandardOutput) {
  const TemporaryFolder folder;
  {
    const Redirection out(STDOUT_FILENO, folder.file("out"));
    const Redirection err(STDERR_FILENO, folder.file("err"));
    Log log{Settings()};
    log.write(LogLevel::kWarn, "here", kHere);
    logWarn("of the ", "process ", 7);
    warnOnce("log_test", "once ", 1);
    warnOnce("log_test", "once ", 2);
    logInfo(LogSubsystem::kInit, "not at this level");
    logTrace(LogSubsystem::kInit, "not at this level");
    logVersion();
  }
  EXPECT_EQ(contentOf(folder.file("out")), "");
  const std::string err = contentOf(folder.file("err"));
  EXPECT_NE(err.find("ZIPCCL WARN here"), std::string::npos) << err;
  EXPECT_NE(err.find("tests/base/log_test.cpp"), std::string::npos) << err;
  EXPECT_NE(err.find("ZIPCCL WARN of the process 7"), std::string::npos) << err;
  EXPECT_NE(err.find("once 1"), std::string::npos) << err;
  EXPECT_EQ(err.find("once 2"), std::string::npos) << err;
  EXPECT_EQ(err.find("not at this level"), std::string::npos) << err;
  EXPECT_NE(err.find("ZIPCCL version "), std::string::npos) << err;
}

TEST(Log, ExpandsItsFileNameAndAppends) {
  const TemporaryFolder folder;
  const Settings settings = settingsFrom({{"ZIPCCL_DEBUG_FILE", folder.file("log.%h.%p")}});
  const std::string path = expandFileName(folder.file("log.%h.%p"));
  for (const char* const message : {"first", "second"}) {
    Log log(settings);
    EXPECT_TRUE(message == std::string("second") || !std::filesystem::exists(path))
        << "the file is there before the first line";
    log.write(LogLevel::kWarn, message, kHere);
  }
  const std::string content = contentOf(path);
  EXPECT_NE(content.find("first"), std::string::npos);
  EXPECT_NE(content.find("second"), std::string::npos);
}

TEST(Log, AFileThatCannotBeOpenedIsTold) {
  const TemporaryFolder folder;
  {
    const Redirection err(STDERR_FILENO, folder.file("err"));
    Log log(settingsFrom({{"ZIPCCL_DEBUG_FILE", folder.file("absent/log")}}));
    log.write(LogLevel::kWarn, "the line itself", kHere);
  }
  const std::string err = contentOf(folder.file("err"));
  EXPECT_NE(err.find("absent/log: No such file or directory"), std::string::npos) << err;
  EXPECT_NE(err.find("the line itself"), std::string::npos) << err;
}

TEST(Log, ANamedPipeIsNotWaitedFor) {
  const TemporaryFolder folder;
  const std::string pipe = folder.file("pipe");
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  const Settings settings = settingsFrom({{"ZIPCCL_DEBUG_FILE", pipe}});
  {
    const Redirection err(STDERR_FILENO, folder.file("err"));
    Log log(settings);
    log.write(LogLevel::kWarn, "nobody reads", kHere);
  }
  const std::string err = contentOf(folder.file("err"));
  EXPECT_NE(err.find("cannot open the log file " + pipe), std::string::npos) << err;
  EXPECT_NE(err.find("nobody reads"), std::string::npos) << err;

  const UniqueFd reader(::open(pipe.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  Log log(settings);
  log.write(LogLevel::kWarn, "somebody reads", kHere);
  char text[1000] = {};
  ASSERT_GT(::read(reader.get(), text, sizeof(text) - 1), 0);
  EXPECT_NE(std::string(text).find("somebody reads"), std::string::npos) << text;
}

TEST(Log, LinesOfThreadsDoNotMix) {
  constexpr int kThreads = 4;
  constexpr int kLines = 200;
  const TemporaryFolder folder;
  Log log(settingsFrom({{"ZIPCCL_DEBUG_FILE", folder.file("log")}}));
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&log, i] {
      const std::string message(100, static_cast<char>('a' + i));
      for (int line = 0; line < kLines; ++line) log.write(LogLevel::kWarn, message, kHere);
    });
  }
  for (std::thread& thread : threads) thread.join();
  std::ifstream in(folder.file("log"));
  int lineCount = 0;
  for (std::string line; std::getline(in, line); ++lineCount) {
    ASSERT_GT(line.size(), 100u);
    const std::string message = line.substr(line.size() - 100);
    EXPECT_EQ(message, std::string(100, message[0])) << line;
  }
  EXPECT_EQ(lineCount, kThreads * kLines);
}

}  // namespace
}  // namespace zipccl
