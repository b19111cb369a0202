// SPDX-License-Identifier: Apache-2.0
//
// Starting programs with the interposer in front of NCCL.

#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

namespace zipccl::tools::launch {

/// What an installation has to stand in front of NCCL.
struct Files {
  std::string interposer;   ///< libzipccl_preload.so
  std::string replacement;  ///< the libnccl.so.2 that takes NCCL's place
};

/// What a message says of a file that is missing.
inline constexpr const char* kMustBeWhole = "; an installation must be whole";

/// Those beside the engine in `libraryFolder`. Throws Failure where one is missing.
[[nodiscard]] Files findFiles(const std::filesystem::path& libraryFolder);

struct Options {
  std::vector<std::string> command;  ///< program and arguments
  bool replacesNccl = false;         ///< for programs that take NCCL's functions from a handle
  std::string nccl;                  ///< ZIPCCL_NCCL_LIB, if not empty
};

/// The variables that make a program of this environment run with the interposer.
[[nodiscard]] std::map<std::string, std::string> variables(const Options& options,
                                                           const Files& files);

/// Becomes the program. Throws Failure where that cannot be; else does not return.
void replaceProcess(const std::vector<std::string>& command,
                    const std::map<std::string, std::string>& variables);

/// Runs the program beside this one and waits for it: its exit status, or 128 and the signal's
/// number, as a shell says it.
[[nodiscard]] int runAndWait(const std::vector<std::string>& command,
                             const std::map<std::string, std::string>& variables);

}  // namespace zipccl::tools::launch
