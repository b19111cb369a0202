// SPDX-License-Identifier: Apache-2.0
//
// The file `bin/zipccl`. It carries out `zipccl run -- PROGRAM` itself, because it stands before
// every rank and needs nothing of what the command is linked with, whose loading takes several
// times as long. Everything else, what is written in an unusual way or wrongly among it, is the
// command's in `lib/zipccl/`, which it becomes.

#include <sys/auxv.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include "run/launch.hpp"
#include "support/failure.hpp"

namespace zipccl::tools::launch {
namespace {

/// The options of `zipccl run` when all of the words before `--` are known, one to a flag.
std::optional<Options> parseRun(const std::vector<std::string_view>& words) {
  if (words.size() < 2 || words[1] != "run") return std::nullopt;
  Options options;
  for (std::size_t i = 2; i < words.size(); ++i) {
    if (words[i] == "--") {
      options.command.assign(words.begin() + static_cast<std::ptrdiff_t>(i) + 1, words.end());
      if (options.command.empty()) return std::nullopt;
      return options;
    }
    if (words[i] == "--replace-nccl" && !options.replacesNccl) {
      options.replacesNccl = true;
    } else if (words[i] == "--nccl" && options.nccl.empty() && i + 1 < words.size() &&
               words[i + 1].substr(0, 1) != "-") {
      options.nccl = words[++i];
    } else {
      return std::nullopt;
    }
  }
  return std::nullopt;
}

[[noreturn]] void become(const std::filesystem::path& program, char** arguments) {
  ::execv(program.c_str(), arguments);
  throw Failure(program.string() + ": " + std::generic_category().message(errno) + kMustBeWhole);
}

/// The folder of this program. Throws where neither the system nor its caller tells it.
std::filesystem::path ownFolder() {
  std::error_code error;
  std::filesystem::path self = std::filesystem::canonical("/proc/self/exe", error);
  if (error) {
    // NOLINTNEXTLINE(performance-no-int-to-ptr): what the kernel gives is a number
    self = std::filesystem::canonical(reinterpret_cast<const char*>(::getauxval(AT_EXECFN)));
  }
  return self.parent_path();
}

}  // namespace
}  // namespace zipccl::tools::launch

int main(int argc, char** argv) {
  using namespace zipccl::tools;
  try {
    const std::filesystem::path folder =
        (launch::ownFolder() / ZIPCCL_LIBRARY_FOLDER).lexically_normal();
    const auto options = launch::parseRun({argv, argv + argc});
    if (!options) launch::become(folder / "zipccl" / "zipccl", argv);
    const launch::Files files = launch::findFiles(folder);
    launch::replaceProcess(options->command, launch::variables(*options, files));
  } catch (const std::exception& error) {
    std::fprintf(stderr, "zipccl: %s\n", error.what());
  }
  return static_cast<int>(ExitStatus::kFailure);
}
