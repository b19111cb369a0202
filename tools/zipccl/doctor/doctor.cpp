// SPDX-License-Identifier: Apache-2.0
//
// The doctor's findings.

#include "doctor/doctor.hpp"

#include <unistd.h>
#include <zipccl/settings.h>
#include <zipccl/version.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iomanip>
#include <map>
#include <nlohmann/json.hpp>
#include <ostream>
#include <string_view>
#include <system_error>

#include "support/engine_path.hpp"
#include "support/text.hpp"

namespace zipccl::tools::doctor {
namespace {

struct Symbol {
  std::string_view name;
  std::string_view action;
  std::string_view what;
};

constexpr Symbol kSymbols[] = {
#define ZIPCCL_NCCL_SYMBOL(name, action, what) {#name, action, what},
#include "nccl_symbols.inc"
#undef ZIPCCL_NCCL_SYMBOL
};

std::string versionText(int code) {
  return std::to_string(code / 10000) + "." + std::to_string(code / 100 % 100) + "." +
         std::to_string(code % 100);
}

void printFiles(const std::filesystem::path& engine, const launch::Files& files,
                std::ostream& out) {
  out << "ZipCCL " ZIPCCL_VERSION_STRING "\n"
      << "  engine       " << engine.string() << "\n"
      << "  interposer   " << files.interposer << "\n"
      << "  replacement  " << files.replacement << "  (--replace-nccl)\n";
}

void printSettings(std::ostream& out) {
  out << "\nSettings in force (* set in the environment)\n";
  zipcclSettingInfo info = {};
  for (int i = 0; zipcclGetSetting(i, &info) == 1; ++i) {
    const bool isSet = std::getenv(info.name) != nullptr;
    const std::string value = *info.value != '\0' ? printable(info.value) : info.defaultValue;
    out << (isSet ? "* " : "  ") << std::left << std::setw(22) << info.name << value << "\n";
  }
}

void printSymbols(std::ostream& out) {
  std::map<std::string_view, std::string> byWhat;
  std::string passed;
  for (const Symbol& symbol : kSymbols) {
    std::string& names = symbol.action == "hook" ? byWhat[symbol.what] : passed;
    const std::string name(symbol.name.substr(4));
    names += names.empty() ? name : ", " + name;
  }
  out << "\nWhat becomes of NCCL's calls\n";
  for (const auto& [what, names] : byWhat) out << "  " << what << ": " << names << "\n";
  out << "  untouched: " << passed << "\n";
}

/// A file that goes with its owner.
class ReportFile {
 public:
  ReportFile() {
    std::string name = (std::filesystem::temp_directory_path() / "zipccl-doctor.XXXXXX").string();
    const int file = ::mkstemp(name.data());
    if (file < 0) throw Failure(name + ": " + std::generic_category().message(errno));
    ::close(file);
    path_ = name;
  }
  ReportFile(const ReportFile&) = delete;
  ReportFile& operator=(const ReportFile&) = delete;
  ~ReportFile() {
    std::error_code ignored;
    std::filesystem::remove(path_, ignored);
  }
  [[nodiscard]] const std::string& path() const noexcept { return path_; }

 private:
  std::string path_;
};

void note(Process& process, const nlohmann::json& line) {
  const std::string event = line.value("event", "");
  if (event == "nccl") {
    process.nccl = line.value("path", "");
    process.how = line.value("how", "");
    process.version = line.value("version", 0);
    process.isDisabled = line.value("disabled", false);
  } else if (event == "engine") {
    process.engine = line.value("path", "");
    process.engineProblem = line.value("why", "");
  } else if (event == "communicator") {
    const std::string why = line.value("why", "");
    if (why.empty()) {
      ++process.attached;
    } else {
      process.leftAlone.push_back(why);
    }
  } else if (event == "end") {
    process.program = line.value("program", "");
    process.mappedNccl = line.value("nccl", "");
  }
}

}  // namespace

std::vector<Process> readReport(std::istream& in) {
  std::vector<Process> processes;
  for (std::string text; std::getline(in, text);) {
    const nlohmann::json line = nlohmann::json::parse(text, nullptr, false);
    if (!line.is_object()) continue;
    const int pid = line.value("pid", 0);
    auto process = std::find_if(processes.begin(), processes.end(),
                                [pid](const Process& each) { return each.pid == pid; });
    if (process == processes.end()) {
      process = processes.insert(process, Process());
      process->pid = pid;
    }
    note(*process, line);
  }
  return processes;
}

std::string verdict(const Process& process) {
  if (process.nccl.empty()) {
    return "has " + process.mappedNccl +
           " loaded, but no call of NCCL came by: it takes the functions from a handle "
           "(--replace-nccl reaches those), or made none";
  }
  std::string text =
      "NCCL " + versionText(process.version) + " (" + process.nccl + ", " + process.how + "); ";
  if (process.isDisabled) return text + "everything passes: ZIPCCL_DISABLE=1, or an unknown NCCL";
  if (!process.engineProblem.empty()) return text + "everything passes: " + process.engineProblem;
  if (process.engine.empty()) return text + "no communicator was made that could be attached";
  text += std::to_string(process.attached) + " communicators attached";
  if (!process.leftAlone.empty()) {
    text += ", " + std::to_string(process.leftAlone.size()) + " left alone (" +
            process.leftAlone.front() + ")";
  }
  return text;
}

ExitStatus run(const launch::Options& options, std::ostream& out) {
  const std::filesystem::path engine = enginePath();
  const launch::Files files = launch::findFiles(engine.parent_path());
  printFiles(engine, files, out);
  printSettings(out);
  printSymbols(out);
  if (options.command.empty()) return ExitStatus::kSuccess;

  out << "\nRunning " << printable(options.command.front()) << "\n" << std::flush;
  const ReportFile report;
  std::map<std::string, std::string> variables = launch::variables(options, files);
  variables["ZIPCCL_REPORT"] = report.path();
  const int status = launch::runAndWait(options.command, variables);
  out << "It ended with status " << status << "\n";
  std::ifstream file(report.path());
  int withoutNccl = 0;
  for (const Process& process : readReport(file)) {
    if (process.nccl.empty() && process.mappedNccl.empty()) {
      ++withoutNccl;
      continue;
    }
    out << "  process " << process.pid << " " << printable(process.program) << ": "
        << printable(verdict(process), 1000) << "\n";
  }
  out << "  " << withoutNccl << " processes without NCCL\n";
  return static_cast<ExitStatus>(status);
}

}  // namespace zipccl::tools::doctor
