// SPDX-License-Identifier: Apache-2.0
//
// The command `zipccl`: which subcommand, and how it ends.

#include "command_line.hpp"

#include <zipccl/version.h>
#include <zipccl/zipccl.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <new>
#include <optional>
#include <ostream>
#include <string_view>
#include <thread>

#include "inspect/command.hpp"
#include "perf/command.hpp"
#include "run/command.hpp"

namespace zipccl::tools {
namespace {

constexpr const char* kHelp =
    "ZipCCL: collectives of LLM training that move fewer bytes and change no bit.";

/// Whether this process is the one that speaks where a launcher started several with the same
/// arguments.
bool isFirstProcess() {
  for (const char* name :
       {"RANK", "OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", "SLURM_PROCID"}) {
    const char* const rank = std::getenv(name);
    if (rank != nullptr) return std::string_view(rank) == "0";
  }
  return true;
}

std::string versionText() {
  int code = 0;
  std::string text = "zipccl " ZIPCCL_VERSION_STRING;
  if (zipcclGetVersion(&code) == zipcclSuccess && code != ZIPCCL_VERSION_CODE) {
    text += " with libzipccl " + std::to_string(code / 10000) + "." +
            std::to_string(code / 100 % 100) + "." + std::to_string(code % 100);
  }
  return text;
}

/// The innermost subcommand that was named, for `--help` hints.
std::string commandName(const CLI::App& app) {
  const std::vector<CLI::App*> chosen = app.get_subcommands();
  return chosen.empty() ? app.get_name() : app.get_name() + " " + commandName(*chosen.front());
}

ExitStatus endUsage(const CLI::App& app, const std::string& message, std::ostream& error) {
  error << "zipccl: " << message << "\nTry: " << commandName(app) << " --help\n";
  return ExitStatus::kUsage;
}

ExitStatus run(const std::vector<std::string>& arguments, const perf::Streams& streams) {
  CLI::App app(kHelp, "zipccl");
  app.set_version_flag("--version", versionText, "Prints the version");
  app.set_help_flag("-h,--help", "Prints this help");
  app.require_subcommand(1);
  launch::Commands runCommands(app);
  std::vector<std::string> own = arguments;
  runCommands.takeCommand(own);
  // All the flags of perf take more time than what `run` does.
  std::optional<perf::Command> perfCommand;
  std::optional<inspect::Command> inspectCommand;
  if (own.size() < 2 || own[1] != "run") {
    perfCommand.emplace(app);
    inspectCommand.emplace(app);
  }

  try {
    // CLI11 wants them without the program's name, last first.
    std::vector<std::string> reversed(own.rbegin(), own.rend());
    if (!reversed.empty()) reversed.pop_back();
    app.parse(reversed);
    if (perfCommand && perfCommand->isChosen()) return perfCommand->run(arguments, streams);
    if (inspectCommand && inspectCommand->isChosen())
      return inspectCommand->run(arguments, streams);
    if (runCommands.isChosen()) return runCommands.run(streams);
    return endUsage(app, "nothing to do", streams.error);
  } catch (const CLI::Success& answer) {
    if (isFirstProcess()) static_cast<void>(app.exit(answer, streams.out, streams.error));
    return streams.out.flush() ? ExitStatus::kSuccess : ExitStatus::kFailure;
  } catch (const CLI::ParseError& error) {
    if (!isFirstProcess()) throw SilentExit(ExitStatus::kUsage);
    return endUsage(app, error.what(), streams.error);
  } catch (const UsageError& error) {
    return endUsage(app, error.what(), streams.error);
  }
}

}  // namespace

ExitStatus runCommandLine(const std::vector<std::string>& arguments,
                          const perf::Streams& streams) noexcept {
  try {
    return run(arguments, streams);
  } catch (const SilentExit& exit) {
    // Launchers end all processes of a job when the first ends with an error, also the one that has
    // yet to say what happened.
    std::this_thread::sleep_for(std::chrono::seconds(1));
    return exit.status();
  } catch (const std::bad_alloc&) {
    streams.error << "zipccl: out of memory\n";
  } catch (const std::exception& error) {
    streams.error << "zipccl: " << error.what() << '\n';
  }
  return ExitStatus::kFailure;
}

}  // namespace zipccl::tools
