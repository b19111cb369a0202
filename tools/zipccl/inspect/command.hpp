// SPDX-License-Identifier: Apache-2.0
//
// The subcommand `zipccl inspect`: its flags.

#pragma once

#include <string>
#include <vector>

#include "inspect/options.hpp"
#include "perf/run.hpp"
#include "support/failure.hpp"

namespace CLI {
class App;
}

namespace zipccl::tools::inspect {

class Command {
 public:
  /// Adds itself to `app`, which must not outlive it.
  explicit Command(CLI::App& app);
  Command(const Command&) = delete;
  Command& operator=(const Command&) = delete;

  /// Whether the command line, once parsed, names it.
  [[nodiscard]] bool isChosen() const;

  /// As run() of inspect/run.hpp.
  [[nodiscard]] ExitStatus run(const std::vector<std::string>& arguments,
                               const perf::Streams& streams);

 private:
  CLI::App* inspect_;
  Options options_;
};

}  // namespace zipccl::tools::inspect
