// SPDX-License-Identifier: Apache-2.0
//
// A whole run of `zipccl inspect`: files, threads, report.

#include "inspect/run.hpp"

#include <algorithm>
#include <chrono>
#include <optional>
#include <ostream>

#include "inspect/inputs.hpp"
#include "inspect/page.hpp"
#include "inspect/report.hpp"
#include "inspect/scan.hpp"
#include "inspect/zstd.hpp"
#include "perf/machine.hpp"
#include "perf/progress.hpp"
#include "perf/report.hpp"
#include "support/mapped_file.hpp"
#include "support/text.hpp"

namespace zipccl::tools::inspect {
namespace {

using Clock = std::chrono::steady_clock;

std::string progressText(std::uint64_t doneBytes, std::uint64_t allBytes, Clock::time_point start) {
  const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
  const double done = static_cast<double>(doneBytes);
  return "inspecting: " +
         fixed(100.0 * done / static_cast<double>(std::max<std::uint64_t>(allBytes, 1)), 0) +
         " % of " + humanBytes(allBytes) + ", " + fixed(done / seconds * 1e-9, 2) + " GB/s";
}

/// Looks at all tensors; the report, and `page` where it is not null, lack nothing then.
void inspectTensors(const Inputs& inputs, const perf::Streams& streams, Report& report,
                    PageBuilder* page) {
  const Options& options = report.options;
  perf::Progress progress(streams.error, streams.isErrorTerminal);
  const Clock::time_point start = Clock::now();
  const std::uint64_t allBytes = inputs.bytes();
  ScanPlan plan;
  plan.threads = options.threads != 0
                     ? options.threads
                     : static_cast<unsigned>(std::max(perf::thisMachine().cores, 1));
  plan.usesZstd = options.usesZstd && !Zstd::version().empty();
  plan.release = giveBack;
  plan.progress = [&](std::uint64_t doneBytes) {
    progress.show(progressText(doneBytes, allBytes, start));
  };
  report.tensors.reserve(inputs.tensors.size());
  const BusErrorGuard guard;
  scan(inputs.tensors, plan, [&](std::size_t place, const Statistics& statistics) {
    report.tensors.push_back(summarize(inputs.tensors[place], statistics));
    if (page != nullptr) page->add(place, report.tensors.back(), statistics);
  });
  report.totals = totalsOf(report.tensors);
  report.order = sortedPlaces(report.tensors, options.sortKey, options.isReversed);
}

}  // namespace

ExitStatus run(const Options& options, const std::vector<std::string>& arguments,
               const perf::Streams& streams) {
  Report report;
  report.arguments = arguments;
  report.options = options;
  report.startedAt = perf::utcNow();
  const Inputs inputs = openInputs(options);
  report.paths = inputs.paths;
  report.leftOut = inputs.leftOut;
  // What cannot be written shows before the first second is spent.
  const bool isJsonOnStdout = options.jsonPath == "-";
  std::optional<perf::ReportFile> json;
  if (!options.jsonPath.empty() && !isJsonOnStdout) json.emplace(options.jsonPath);
  std::optional<perf::ReportFile> html;
  std::optional<PageBuilder> page;
  if (!options.htmlPath.empty()) {
    html.emplace(options.htmlPath, "--html");
    page.emplace(inputs.tensors);
  }
  inspectTensors(inputs, streams, report, page ? &*page : nullptr);
  streams.out << (isJsonOnStdout ? jsonText(report) : tableText(report)) << std::flush;
  if (!streams.out) throw Failure("the report could not be written to stdout");
  if (json) json->commit(jsonText(report));
  if (html) html->commit(page->text(report));
  return ExitStatus::kSuccess;
}

}  // namespace zipccl::tools::inspect
