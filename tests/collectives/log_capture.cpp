// SPDX-License-Identifier: Apache-2.0
//
// The library's log in test programs.

#include "log_capture.hpp"

#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>

#include "base/text.hpp"

namespace zipccl::collectives::testing {
namespace {

/// Set before anything can log, since settings are read once.
class LogFile {
 public:
  LogFile() : path_(concat("zipccl_test_log.", static_cast<std::int64_t>(::getpid()))) {
    ::setenv("ZIPCCL_DEBUG", "WARN", 1);
    ::setenv("ZIPCCL_DEBUG_FILE", path_.c_str(), 1);
  }
  LogFile(const LogFile&) = delete;
  LogFile& operator=(const LogFile&) = delete;
  ~LogFile() { std::remove(path_.c_str()); }

  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  std::string path_;
};

const LogFile logFile;

}  // namespace

std::string readLog() {
  std::ifstream file(logFile.path());
  return {std::istreambuf_iterator<char>(file), {}};
}

int countInLog(const std::string& text) {
  const std::string log = readLog();
  int count = 0;
  for (std::size_t at = log.find(text); at != std::string::npos; at = log.find(text, at + 1)) {
    ++count;
  }
  return count;
}

}  // namespace zipccl::collectives::testing
