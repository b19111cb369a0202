// SPDX-License-Identifier: Apache-2.0
//
// The subcommand `zipccl inspect`: help and flags.

#include "inspect/command.hpp"

#include <CLI/CLI.hpp>

#include "inspect/run.hpp"
#include "perf/datatype.hpp"
#include "perf/flag_values.hpp"
#include "support/text.hpp"

namespace zipccl::tools::inspect {
namespace {

constexpr const char* kHelp =
    "Tells what the tensors of a file would save: they are encoded, and what comes out is counted.";

constexpr const char* kFooter =
    "FILE is a safetensors file, the index of a sharded model (its name ends with .json, the "
    "shards "
    "lie\n"
    "beside it), or with --dtype a raw dump.\n"
    "\n"
    "Defaults stand in brackets.\n"
    "\n"
    "Exit status: 0, 2 when the command line cannot be carried out, 3 when a file is bad or "
    "something\n"
    "failed.\n"
    "\n"
    "Examples:\n"
    "  zipccl inspect model.safetensors --sort ratio --reverse\n"
    "  zipccl inspect model.safetensors.index.json --match '*.mlp.*' --zstd\n"
    "  zipccl inspect model.safetensors --html page.html\n"
    "  zipccl inspect gradients.bin --dtype bf16 --json - | jq .totals";

struct SortWord {
  const char* word;
  SortKey key;
};

constexpr SortWord kSortWords[] = {
    {"file", SortKey::kFile},   {"name", SortKey::kName},   {"elements", SortKey::kElements},
    {"bytes", SortKey::kBytes}, {"sigma", SortKey::kSigma}, {"inside", SortKey::kInside},
    {"bits", SortKey::kBits},   {"ratio", SortKey::kRatio}, {"limit", SortKey::kLimit},
    {"zstd", SortKey::kZstd},
};

/// All of them, for help and messages.
std::string sortWords() {
  std::string words;
  for (const SortWord& sort : kSortWords) {
    words += words.empty() ? "" : "|";
    words += sort.word;
  }
  return words;
}

SortKey sortKeyOf(const std::string& word) {
  for (const SortWord& sort : kSortWords) {
    if (word == sort.word) return sort.key;
  }
  throw CLI::ValidationError("--sort", inQuotes(word) + " is none of " + sortWords());
}

}  // namespace

Command::Command(CLI::App& app) : inspect_(app.add_subcommand("inspect", kHelp)) {
  CLI::App& command = *inspect_;
  command.footer(kFooter);
  command.add_option("FILE", options_.files, "What is inspected")->required();
  command
      .add_option_function<std::string>(
          "--dtype",
          [this](const std::string& name) {
            options_.dumpDatatype = perf::datatypeOfName(name);
            if (!options_.dumpDatatype) {
              throw CLI::ValidationError("--dtype",
                                         inQuotes(name) + " is none of " + perf::datatypeNames());
            }
          },
          "Each FILE is a raw dump of elements of this datatype: " + perf::datatypeNames())
      ->type_name("NAME");
  command
      .add_option(
          "--match", options_.patterns,
          "Only tensors whose names fit: a part of the name, or with *, ? or [ a pattern of "
          "the whole of it; may be given several times")
      ->allow_extra_args(false)
      ->type_name("PATTERN");
  command
      .add_option_function<std::string>(
          "--sort", [this](const std::string& word) { options_.sortKey = sortKeyOf(word); },
          "Rows by name (A first), or by what is largest first [file: as they stand there]")
      ->type_name(sortWords());
  command.add_flag("-r,--reverse", options_.isReversed, "Rows the other way round");
  command.add_option("--threads", options_.threads, "Threads that work [one for each core]")
      ->transform(perf::numberFrom(1, Options::kMostThreads))
      ->type_name("COUNT");
  command.add_flag("--zstd", options_.usesZstd,
                   "Also what zstd -1 makes of it, which takes more than twice as long");
  command
      .add_option("-J,--json", options_.jsonPath,
                  "Writes everything, unrounded, as JSON to this file; -: to stdout, in place of "
                  "the table")
      ->type_name("FILE");
  command
      .add_option("--html", options_.htmlPath,
                  "Writes a page with pictures to this file; it needs no network")
      ->type_name("FILE");
}

bool Command::isChosen() const { return inspect_->parsed(); }

ExitStatus Command::run(const std::vector<std::string>& arguments, const perf::Streams& streams) {
  return inspect::run(options_, arguments, streams);
}

}  // namespace zipccl::tools::inspect
