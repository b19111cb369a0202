// SPDX-License-Identifier: Apache-2.0
//
// The flags of `zipccl perf`.

#include "perf/flags.hpp"

#include <CLI/CLI.hpp>
#include <charconv>
#include <map>

#include "perf/datatype.hpp"
#include "support/failure.hpp"
#include "support/text.hpp"

namespace zipccl::tools::perf {
namespace {

constexpr int kMostRepetitions = 1'000'000;

/// Makes a size with a unit a plain number, which CLI11 then reads.
const CLI::Validator& byteSize() {
  static const CLI::Validator validator(
      [](std::string& text) {
        try {
          text = std::to_string(parseByteSize(text));
        } catch (const UsageError& error) {
          return std::string(error.what());
        }
        return std::string();
      },
      "", "byte size");
  return validator;
}

/// CLI11 alone would read -1 as 2^64 - 1, 010 as 8, and cut what is too large.
const CLI::Validator& wholeNumber() {
  static const CLI::Validator validator(
      [](std::string& text) {
        std::uint64_t value = 0;
        const char* const end = text.data() + text.size();
        const auto parsed = std::from_chars(text.data(), end, value);
        if (parsed.ec != std::errc() || parsed.ptr != end) {
          return inQuotes(text) + " is not a whole number below 2^64";
        }
        text = std::to_string(value);
        return std::string();
      },
      "", "whole number");
  return validator;
}

/// A whole number within bounds, both included.
CLI::Validator numberFrom(std::uint64_t least, std::uint64_t most) {
  return CLI::Validator(
      [least, most](std::string& text) {
        const std::string error = wholeNumber()(text);
        if (!error.empty()) return error;
        const std::uint64_t value = std::stoull(text);
        if (value >= least && value <= most) return std::string();
        return text + " is not within " + std::to_string(least) + " to " + std::to_string(most);
      },
      "", "number");
}

}  // namespace

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
  command
      .add_option_function<std::string>(
          "-d,--datatype",
          [&options](const std::string& name) {
            options.datatype = datatypeOfName(name);
            if (!options.datatype) {
              throw CLI::ValidationError("--datatype",
                                         inQuotes(name) + " is none of " + datatypeNames());
            }
          },
          "Datatype: " + datatypeNames() + " [that of the file, else bfloat16]")
      ->type_name("NAME");
  command
      .add_option("--data", options.data,
                  "What is sent. normal:SIGMA: Gaussian, another for each rank. "
                  "file:X.safetensors: its bfloat16, half or float tensors, whichever come first, "
                  "one after the other and repeated to size. file:X.safetensors:TENSOR: that one. "
                  "[normal:0.02]")
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
