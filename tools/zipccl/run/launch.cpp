// SPDX-License-Identifier: Apache-2.0
//
// LD_PRELOAD, and exec.

#include "run/launch.hpp"

#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <system_error>

#include "support/failure.hpp"
#include "support/text.hpp"

namespace zipccl::tools::launch {
namespace {

std::string reason(int error) { return std::generic_category().message(error); }

void setVariables(const std::map<std::string, std::string>& variables) {
  for (const auto& [name, value] : variables) ::setenv(name.c_str(), value.c_str(), 1);
}

}  // namespace

Files findFiles(const std::filesystem::path& libraryFolder) {
  Files files = {(libraryFolder / "libzipccl_preload.so").string(),
                 (libraryFolder / "zipccl" / "libnccl.so.2").string()};
  std::error_code error;
  for (const std::string& file : {files.interposer, files.replacement}) {
    if (!std::filesystem::exists(file, error))
      throw Failure(file + ": there is no such file" + kMustBeWhole);
  }
  return files;
}

std::map<std::string, std::string> variables(const Options& options, const Files& files) {
  std::string preload = options.replacesNccl ? files.replacement : files.interposer;
  // The loader splits at blanks and colons and knows no quotes.
  if (preload.find_first_of(" :") != std::string::npos) {
    throw Failure(preload + ": LD_PRELOAD cannot name a path with a blank or a colon");
  }
  const char* const others = std::getenv("LD_PRELOAD");
  if (others != nullptr && *others != '\0') preload += std::string(":") + others;
  std::map<std::string, std::string> variables = {{"LD_PRELOAD", preload}};
  if (!options.nccl.empty()) variables["ZIPCCL_NCCL_LIB"] = options.nccl;
  return variables;
}

void replaceProcess(const std::vector<std::string>& command,
                    const std::map<std::string, std::string>& variables) {
  setVariables(variables);
  std::vector<std::string> words = command;
  ::execvp(words.front().c_str(), argumentPointers(words).data());
  throw Failure(command.front() + ": " + reason(errno));
}

int runAndWait(const std::vector<std::string>& command,
               const std::map<std::string, std::string>& variables) {
  std::vector<std::string> words = command;
  const std::vector<char*> list = argumentPointers(words);
  const pid_t child = ::fork();
  if (child < 0) throw Failure("fork: " + reason(errno));
  if (child == 0) {
    setVariables(variables);
    ::execvp(list[0], list.data());
    ::_exit(errno == ENOENT ? 127 : 126);
  }
  int status = 0;
  while (::waitpid(child, &status, 0) < 0) {
    if (errno != EINTR) throw Failure("waitpid: " + reason(errno));
  }
  return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

}  // namespace zipccl::tools::launch
