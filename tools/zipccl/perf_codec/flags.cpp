// SPDX-License-Identifier: Apache-2.0
//
// The flags of `zipccl perf codec`.

#include "perf_codec/flags.hpp"

#include <CLI/CLI.hpp>
#include <limits>
#include <map>

#include "perf/data_spec.hpp"
#include "perf/flag_values.hpp"
#include "support/text.hpp"

namespace zipccl::tools::perf_codec {
namespace {

using perf::byteSize;
using perf::kMostRepetitions;
using perf::numberFrom;

/// One of a few words.
template <class Value>
void addChoice(CLI::App& command, const std::string& name, Value& value,
               const std::map<std::string, Value>& words, const std::string& help,
               const std::string& typeName) {
  command.add_option(name, value, help)
      ->transform(CLI::Transformer(words, CLI::ignore_case))
      ->transform(CLI::IsMember(words, CLI::ignore_case))  // comes first; else numbers pass
      ->type_name(typeName);
}

void addAmounts(CLI::App& command, Options& options) {
  command
      .add_option("-b,--minbytes", options.minBytes,
                  "Smallest input, in bytes before encoding: 8, 64K, 1.5M, 2G [1M]")
      ->transform(byteSize())
      ->type_name("SIZE");
  command
      .add_option("-e,--maxbytes", options.maxBytes,
                  "Largest input [16M on the host, 256M on a GPU]")
      ->transform(byteSize())
      ->type_name("SIZE");
  command.add_option("-f,--stepfactor", options.stepFactor, "From one size to the next [4]")
      ->transform(numberFrom(2, 1U << 30))
      ->type_name("FACTOR");
  command
      .add_option("-n,--iters", options.rounds,
                  "Timed rounds of each size, in which copy, encode and decode take turns [" +
                      std::to_string(MeasurementPlan::kMostRounds) + ", fewer where " +
                      fixed(MeasurementPlan::kBudgetSeconds, 1) + " s are used up, at least " +
                      std::to_string(MeasurementPlan::kLeastRounds) + "]")
      ->transform(numberFrom(1, kMostRepetitions))
      ->type_name("COUNT");
  command.add_option("-w,--warmup_iters", options.warmups, "Rounds before them, not timed [1]")
      ->transform(numberFrom(0, kMostRepetitions))
      ->type_name("COUNT");
  command
      .add_option(
          "-c,--check", options.checks,
          "1: after them, all that was encoded is decoded and every bit checked; 0: not [1]")
      ->transform(numberFrom(0, 1))
      ->type_name("0|1");
  command
      .add_option("--rotate", options.rotatedBytes,
                  "Inputs that calls go through before they come back to the first: several times "
                  "what caches hold [128M on the host, 1G on a GPU]")
      ->transform(byteSize())
      ->type_name("SIZE");
}

void addData(CLI::App& command, Options& options) {
  perf::addDatatypeFlag(command, options.datatype);
  command
      .add_option_function<std::string>(
          "--layout",
          [&options](const std::string& name) {
            if (name == "auto") return options.layout.reset();
            options.layout = name == "wide" ? codec::Layout::kWide : codec::Layout::kNarrow;
          },
          "Of float: narrow, where low halves are zero; wide, where they are not; auto, what suits "
          "the data [auto]")
      ->check(CLI::IsMember({"auto", "narrow", "wide"}))
      ->type_name("auto|narrow|wide");
  command
      .add_option("--data", options.data,
                  std::string("What is encoded; may be given several times. ") +
                      perf::kDataSpecHelp + " [normal:0.02]")
      ->allow_extra_args(false)
      ->type_name("SOURCE");
  command
      .add_option("--seed", options.seed, "Repeats the generated data of another run [a fresh one]")
      ->transform(perf::wholeNumber())
      ->type_name("NUMBER");
}

}  // namespace

void addFlags(CLI::App& command, Options& options) {
  addAmounts(command, options);
  addData(command, options);
  addChoice<DeviceChoice>(
      command, "--device", options.device,
      {{"auto", DeviceChoice::kAuto}, {"host", DeviceChoice::kHost}, {"gpu", DeviceChoice::kGpu}},
      "Which codec. auto: that of the host, and that of a GPU where there is one [auto]",
      "auto|host|gpu");
  command
      .add_option(
          "--max-blocks", options.blockLimits,
          "Most thread blocks that the GPU codec takes, 0 for no limit; a list measures each "
          "[0]")
      ->transform(numberFrom(0, std::numeric_limits<unsigned>::max()))
      ->delimiter(',')
      ->allow_extra_args(false)
      ->type_name("COUNT,...");
  addChoice<RivalChoice>(
      command, "--against", options.against,
      {{"auto", RivalChoice::kAuto},
       {"none", RivalChoice::kNone},
       {"nvcomp", RivalChoice::kNvcomp}},
      "What the GPU codec is measured beside. nvcomp: nvCOMP's ANS, an error where "
      "it is not found. auto: nvCOMP where it is found [auto]",
      "auto|none|nvcomp");
  command
      .add_option("--nvcomp", options.nvcompPath,
                  "The file libnvcomp.so.6, as of PyPI's nvidia-libnvcomp-cu13 [where the dynamic "
                  "linker finds it]")
      ->type_name("FILE");
  command.add_option("-J,--json", options.jsonPath, "Writes every sample, as JSON, to this file")
      ->type_name("FILE");
}

}  // namespace zipccl::tools::perf_codec
