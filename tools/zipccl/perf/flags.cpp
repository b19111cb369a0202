// SPDX-License-Identifier: Apache-2.0
//
// The flags of `zipccl perf`.

#include "perf/flags.hpp"

#include <CLI/CLI.hpp>
#include <array>
#include <charconv>
#include <cmath>
#include <map>
#include <string_view>
#include <utility>

#include "perf/data_spec.hpp"
#include "perf/flag_values.hpp"
#include "perf/splits.hpp"
#include "support/failure.hpp"
#include "support/text.hpp"

namespace zipccl::tools::perf {
namespace {

/// Reads a whole text as a number.
std::optional<double> parseNumber(std::string_view text) {
  double value = 0.0;
  const char* const end = text.data() + text.size();
  const auto parsed = std::from_chars(text.data(), end, value);
  if (parsed.ec != std::errc() || parsed.ptr != end || !std::isfinite(value)) return std::nullopt;
  return value;
}

}  // namespace

std::optional<std::uint64_t> parseLinkSpeed(std::string_view text) {
  constexpr std::array<std::pair<std::string_view, double>, 3> kUnits = {
      {{"Kbit", 1e3}, {"Mbit", 1e6}, {"Gbit", 1e9}}};
  for (const auto& [unit, bitsPerSecond] : kUnits) {
    if (!text.ends_with(unit)) continue;
    const std::optional<double> number = parseNumber(text.substr(0, text.size() - unit.size()));
    if (!number) return std::nullopt;
    const double bytesPerSecond = *number * bitsPerSecond / 8.0;
    if (bytesPerSecond < 1.0 || bytesPerSecond > 1e15) return std::nullopt;
    return static_cast<std::uint64_t>(bytesPerSecond);
  }
  return std::nullopt;
}

void addFlags(CLI::App& command, Options& options) {
  const std::map<std::string, TransportKind> transports = {{"local", TransportKind::kLocal},
                                                           {"mpi", TransportKind::kMpi},
                                                           {"nccl", TransportKind::kNccl}};
  const std::map<std::string, zipcclStrategy_t> strategies = {{"auto", zipcclStrategyAuto},
                                                              {"native", zipcclStrategyNative},
                                                              {"staged", zipcclStrategyStaged}};

  command
      .add_option("-b,--minbytes", options.minBytes,
                  "Smallest message, in bytes as nccl-tests counts them: 8, 64K, 1.5M, 2G [1M]")
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
  command
      .add_option("-w,--warmup_iters", options.warmups,
                  "Pairs before them, not timed [1; over NCCL 5]")
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
                  "Ranks of the local transport [4], or over NCCL of this host [its GPUs]; else "
                  "the launcher says it")
      ->transform(numberFrom(1, Options::kMostRanks))
      ->type_name("COUNT");
  command
      .add_option("--transport", options.transport,
                  "local: threads of this process. mpi: the processes that mpirun started. nccl: "
                  "GPUs, a thread of this process each, or the processes that mpirun, torchrun or "
                  "srun started [local]")
      ->transform(CLI::Transformer(transports, CLI::ignore_case))
      ->transform(CLI::IsMember(transports, CLI::ignore_case))  // comes first; else numbers pass
      ->type_name("local|mpi|nccl");
  command.add_flag("--processes", options.usesProcesses,
                   "With nccl and no launcher: a process for each GPU instead of a thread, or more "
                   "ranks than GPUs, which share them");
  command
      .add_option("--nccl", options.nccl,
                  "The file libnccl.so.2 [ZIPCCL_NCCL_LIB, else where the dynamic linker finds it]")
      ->type_name("FILE");
  command
      .add_option("--rendezvous", options.rendezvous,
                  "Where rank 0 of nccl waits for processes on other hosts "
                  "[MASTER_ADDR:MASTER_PORT, or as the launcher says]")
      ->type_name("HOST:PORT");
  command
      .add_option("--strategy", options.strategy,
                  "What is compared with native. staged: always compress. auto: as the policy "
                  "decides [staged]")
      ->transform(CLI::Transformer(strategies, CLI::ignore_case))
      ->transform(CLI::IsMember(strategies, CLI::ignore_case))  // comes first; else numbers pass
      ->type_name("auto|native|staged");
  command
      .add_option_function<std::string>(
          "--link",
          [&options](const std::string& text) {
            const std::optional<std::uint64_t> bytesPerSecond = parseLinkSpeed(text);
            if (!bytesPerSecond) {
              throw CLI::ValidationError(
                  "--link", inQuotes(text) + " is not a speed such as 10Gbit, 2.5Gbit or 100Mbit");
            }
            options.linkBytesPerSecond = *bytesPerSecond;
          },
          "Emulates a link of this speed for each rank of the local transport: 10Gbit, 100Mbit "
          "[none: memory]")
      ->type_name("SPEED");
  command.add_option("-J,--json", options.jsonPath, "Writes every sample, as JSON, to this file")
      ->type_name("FILE");
}

void addCollectiveFlags(CLI::App& command, CollectiveName name, Options& options) {
  const std::map<std::string, ReduceOperation> operations = {
      {"sum", ReduceOperation::kSum},
      {"avg", ReduceOperation::kAverage},
      {"mulsum", ReduceOperation::kScaledSum}};
  if (isReduction(name)) {
    command
        .add_option("-o,--op", options.collective.operation,
                    "sum, avg, or mulsum, the sum of elements times 0.7 [sum]")
        ->transform(CLI::Transformer(operations, CLI::ignore_case))
        ->transform(CLI::IsMember(operations, CLI::ignore_case))  // comes first; else numbers pass
        ->type_name("sum|avg|mulsum");
  }
  if (hasRoot(name)) {
    command.add_option("-r,--root", options.collective.root, "The rank that sends or gets all [0]")
        ->transform(numberFrom(0, Options::kMostRanks - 1))
        ->type_name("RANK");
  }
  if (name == CollectiveName::kAllToAll) {
    command
        .add_option("--splits", options.collective.splits,
                    std::string("Uneven parts, by alltoallv. ") + kSplitsHelp + " [equal parts]")
        ->type_name("SPLITS");
  }
}

}  // namespace zipccl::tools::perf
