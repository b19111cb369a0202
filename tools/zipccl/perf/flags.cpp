// SPDX-License-Identifier: Apache-2.0
//
// The flags of `zipccl perf`.

#include "perf/flags.hpp"

#include <CLI/CLI.hpp>
#include <map>

#include "perf/data_spec.hpp"
#include "perf/flag_values.hpp"
#include "support/failure.hpp"
#include "support/text.hpp"

namespace zipccl::tools::perf {
void addFlags(CLI::App& command, Options& options) {
  const std::map<std::string, TransportKind> transports = {{"local", TransportKind::kLocal},
                                                           {"mpi", TransportKind::kMpi}};
  const std::map<std::string, zipcclStrategy_t> strategies = {{"auto", zipcclStrategyAuto},
                                                              {"native", zipcclStrategyNative},
                                                              {"staged", zipcclStrategyStaged}};

  command
      .add_option("-b,--minbytes", options.minBytes,
                  "Smallest message, in bytes received by a rank: 8, 64K, 1.5M, 2G [1M]")
      ->transform(byteSize())
      ->type_name("SIZE");
  command.add_option("-e,--maxbytes", options.maxBytes, "Largest message [16M]")
      ->transform(byteSize())
      ->type_name("SIZE");
  command.add_option("-f,--stepfactor", options.stepFactor, "From one size to the next [4]")
      ->transform(numberFrom(2, 1U << 30))
      ->type_name("FACTOR");
  command
      .add_option("-n,--iters", options.iterations,
                  "Timed pairs (native, zipccl) of each size [20, fewer where " +
                      fixed(IterationBudget::kSeconds, 1) + " s are used up, at least " +
                      std::to_string(IterationBudget::kLeast) + "]")
      ->transform(numberFrom(1, kMostRepetitions))
      ->type_name("COUNT");
  command.add_option("-w,--warmup_iters", options.warmups, "Pairs before them, not timed [1]")
      ->transform(numberFrom(0, kMostRepetitions))
      ->type_name("COUNT");
  command
      .add_option("-c,--check", options.checks,
                  "Rounds after them whose every bit is checked; 0 checks nothing [1]")
      ->transform(numberFrom(0, kMostRepetitions))
      ->type_name("COUNT");
  addDatatypeFlag(command, options.datatype);
  command
      .add_option("--data", options.data,
                  std::string("What is sent, other elements by each rank. ") + kDataSpecHelp +
                      " [normal:0.02]")
      ->type_name("SOURCE");
  command
      .add_option("--seed", options.seed, "Repeats the Gaussian data of another run [a fresh one]")
      ->transform(wholeNumber())
      ->type_name("NUMBER");
  command
      .add_option("--ranks", options.ranks,
                  "Ranks of the local transport [4]; with mpi, mpirun's -n says it")
      ->transform(numberFrom(1, Options::kMostRanks))
      ->type_name("COUNT");
  command
      .add_option("--transport", options.transport,
                  "local: threads of this process. mpi: the processes that mpirun started [local]")
      ->transform(CLI::Transformer(transports, CLI::ignore_case))
      ->transform(CLI::IsMember(transports, CLI::ignore_case))  // comes first; else numbers pass
      ->type_name("local|mpi");
  command
      .add_option("--strategy", options.strategy,
                  "What is compared with native. staged: always compress. auto: as the policy "
                  "decides [staged]")
      ->transform(CLI::Transformer(strategies, CLI::ignore_case))
      ->transform(CLI::IsMember(strategies, CLI::ignore_case))  // comes first; else numbers pass
      ->type_name("auto|native|staged");
  command.add_option("-J,--json", options.jsonPath, "Writes every sample, as JSON, to this file")
      ->type_name("FILE");
}

}  // namespace zipccl::tools::perf
