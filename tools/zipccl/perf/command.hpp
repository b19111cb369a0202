// SPDX-License-Identifier: Apache-2.0
//
// The subcommand `zipccl perf`.

#pragma once

#include <string>
#include <vector>

#include "perf/options.hpp"
#include "perf/run.hpp"
#include "perf_codec/options.hpp"

namespace CLI {
class App;
}

namespace zipccl::tools::perf {

class Command {
 public:
  /// Adds itself to `app`, which must not outlive it.
  explicit Command(CLI::App& app);
  Command(const Command&) = delete;
  Command& operator=(const Command&) = delete;

  /// Whether the command line, once parsed, names it.
  [[nodiscard]] bool isChosen() const;

  /// As run() of perf/run.hpp.
  [[nodiscard]] ExitStatus run(const std::vector<std::string>& arguments, const Streams& streams);

 private:
  CLI::App* perf_;
  CLI::App* codec_;
  Options options_;
  perf_codec::Options codecOptions_;
};

}  // namespace zipccl::tools::perf
