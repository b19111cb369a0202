// SPDX-License-Identifier: Apache-2.0
//
// The subcommands `zipccl run` and `zipccl doctor`: their flags.

#pragma once

#include <string>
#include <vector>

#include "perf/run.hpp"
#include "run/launch.hpp"
#include "support/failure.hpp"

namespace CLI {
class App;
}

namespace zipccl::tools::launch {

class Commands {
 public:
  /// Adds itself to `app`, which must not outlive it.
  explicit Commands(CLI::App& app);
  Commands(const Commands&) = delete;
  Commands& operator=(const Commands&) = delete;

  /// Takes what follows the first `--` off a command line, which begins with the program's name, if
  /// it names one of them: the program to run and its arguments, in which nothing is ours.
  void takeCommand(std::vector<std::string>& arguments);

  /// Whether the command line, once parsed, names one of them.
  [[nodiscard]] bool isChosen() const;

  /// `run` returns only where the program could not be started.
  [[nodiscard]] ExitStatus run(const perf::Streams& streams);

 private:
  CLI::App* run_;
  CLI::App* doctor_;
  Options options_;
};

}  // namespace zipccl::tools::launch
