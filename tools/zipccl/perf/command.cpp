// SPDX-License-Identifier: Apache-2.0
//
// The subcommand `zipccl perf`: its help.

#include "perf/command.hpp"

#include <CLI/CLI.hpp>
#include <string>

#include "perf/flags.hpp"
#include "perf_codec/flags.hpp"
#include "perf_codec/run.hpp"

namespace zipccl::tools::perf {
namespace {

constexpr const char* kPerfHelp =
    "Measures a collective, native beside compressed, in the manner of nccl-tests, or the codec.";

constexpr const char* kCollectiveHelp =
    "Native and compressed calls are made in interleaved pairs, out of place and, where the\n"
    "collective has it, in place, over Gaussian or real tensors that differ from rank to rank and\n"
    "from call to call. After the timed calls, what arrives is compared with what was sent, bit "
    "for\n"
    "bit; of a reduction with its documented order, computed apart.";

constexpr const char* kExitStatus =
    "Defaults stand in brackets.\n"
    "\n"
    "Exit status: 0, 1 when a bit arrived wrong, 2 when the command line cannot be carried out,\n"
    "3 when something failed.\n"
    "\n"
    "Examples:\n";

std::string helpOf(CollectiveName name) {
  return std::string("Measures ") + typedName(name) + ": " + meaningOf(name) + ".\n\n" +
         kCollectiveHelp;
}

std::string footerOf(CollectiveName name) {
  const std::string command = std::string("zipccl perf ") + typedName(name);
  return kExitStatus + ("  " + command) + "\n  " + command +
         " --data file:data/model.safetensors -b 4M -e 64M -f 2\n  " + command +
         " --link 10Gbit\n  mpirun -n 4 " + command +
         " --transport mpi --strategy auto -J result.json\n  " + command +
         " --transport nccl --processes -b 1K -e 1G --strategy auto";
}

constexpr const char* kCodecHelp =
    "Measures the codec alone: encode and decode against a copy of the same bytes.\n"
    "\n"
    "Copy, encode and decode take turns, over buffers that no cache holds, on the host and, where\n"
    "there is one, on a GPU. After the timed calls all that they encoded is decoded and compared,\n"
    "bit for bit.";

constexpr const char* kCodecFooter =
    "Defaults stand in brackets.\n"
    "\n"
    "Exit status: 0, 1 when a bit came back wrong, 2 when the command line cannot be carried out,\n"
    "3 when something failed.\n"
    "\n"
    "Examples:\n"
    "  zipccl perf codec\n"
    "  zipccl perf codec --device gpu -b 256M -e 256M --data normal:0.02 --data zeros:0.4\n"
    "  zipccl perf codec --data file:data/model.safetensors --against nvcomp -J result.json";

}  // namespace

Command::Command(CLI::App& app) : perf_(app.add_subcommand("perf", kPerfHelp)) {
  perf_->require_subcommand(1);
  for (const CollectiveName name : kAllCollectiveNames) {
    CLI::App* const command = perf_->add_subcommand(typedName(name), helpOf(name));
    command->footer(footerOf(name));
    addFlags(*command, options_);
    addCollectiveFlags(*command, name, options_);
    command->callback([this, name] { options_.collective.name = name; });
  }
  codec_ = perf_->add_subcommand("codec", kCodecHelp);
  codec_->footer(kCodecFooter);
  perf_codec::addFlags(*codec_, codecOptions_);
}

bool Command::isChosen() const { return perf_->parsed(); }

ExitStatus Command::run(const std::vector<std::string>& arguments, const Streams& streams) {
  if (codec_->parsed()) return perf_codec::run(codecOptions_, arguments, streams);
  return perf::run(options_, arguments, streams);
}

}  // namespace zipccl::tools::perf
