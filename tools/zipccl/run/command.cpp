// SPDX-License-Identifier: Apache-2.0
//
// The subcommands `zipccl run` and `zipccl doctor`: help and flags.

#include "run/command.hpp"

#include <CLI/CLI.hpp>
#include <algorithm>

#include "doctor/doctor.hpp"
#include "support/engine_path.hpp"

namespace zipccl::tools::launch {
namespace {

constexpr const char* kRunHelp =
    "Runs a program with ZipCCL in front of NCCL: its collectives move fewer bytes.";

constexpr const char* kRunFooter =
    "The program is run in this process's place, with its exit status. Settings are environment\n"
    "variables (docs/settings.md). A program that takes NCCL's functions from a handle, as vLLM "
    "and\n"
    "JAX do, needs --replace-nccl; `zipccl doctor` tells.\n"
    "\n"
    "Examples:\n"
    "  zipccl run -- torchrun --nproc-per-node 8 train.py\n"
    "  ZIPCCL_DEBUG=INFO zipccl run --replace-nccl -- vllm serve model";

constexpr const char* kDoctorHelp =
    "Tells what would be intercepted here, and why not; with a program, runs it and tells what "
    "was.";

constexpr const char* kDoctorFooter =
    "Exit status: that of the program, if one was run; else 0.\n"
    "\n"
    "Examples:\n"
    "  zipccl doctor\n"
    "  zipccl doctor -- python -c 'import torch; torch.cuda.nccl.version()'";

void addFlags(CLI::App& app, Options& options) {
  app.add_flag("--replace-nccl", options.replacesNccl,
               "Takes NCCL's place as libnccl.so.2, for programs that load it by that name");
  app.add_option("--nccl", options.nccl, "The NCCL to load where the program loads none itself");
}

}  // namespace

Commands::Commands(CLI::App& app)
    : run_(app.add_subcommand("run", kRunHelp)),
      doctor_(app.add_subcommand("doctor", kDoctorHelp)) {
  run_->footer(kRunFooter);
  doctor_->footer(kDoctorFooter);
  addFlags(*run_, options_);
  addFlags(*doctor_, options_);
}

bool Commands::isChosen() const { return run_->parsed() || doctor_->parsed(); }

void Commands::takeCommand(std::vector<std::string>& arguments) {
  if (arguments.size() < 2 || (arguments[1] != "run" && arguments[1] != "doctor")) return;
  const auto separator = std::find(arguments.begin(), arguments.end(), "--");
  if (separator == arguments.end()) return;
  options_.command.assign(separator + 1, arguments.end());
  arguments.erase(separator, arguments.end());
}

ExitStatus Commands::run(const perf::Streams& streams) {
  if (doctor_->parsed()) return doctor::run(options_, streams.out);
  if (options_.command.empty()) throw UsageError("no program to run: it stands after --");
  replaceProcess(options_.command, variables(options_, findFiles(enginePath().parent_path())));
  return ExitStatus::kFailure;
}

}  // namespace zipccl::tools::launch
