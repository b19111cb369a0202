// SPDX-License-Identifier: Apache-2.0
//
// A whole run of `zipccl perf`: what the transports have in common is here, how ranks are made and
// come to agree is in thread_run.cpp and process_run.cpp.

#include "perf/run.hpp"

#include <algorithm>
#include <ostream>

#include "perf/datatype.hpp"
#include "perf/run_parts.hpp"
#include "perf_nccl/run.hpp"
#include "support/file.hpp"
#include "support/text.hpp"

namespace zipccl::tools::perf {

namespace {

/// Flags that would have no effect.
void expectFlagsOfTransport(const Options& options) {
  if (options.linkBytesPerSecond != 0 && options.transport != TransportKind::kLocal) {
    throw UsageError("--link emulates links of --transport local only");
  }
  if (options.transport == TransportKind::kNccl) return;
  const auto refuse = [](bool isGiven, const char* flag) {
    if (isGiven) throw UsageError(std::string(flag) + " is a flag of --transport nccl only");
  };
  refuse(options.usesProcesses, "--processes");
  refuse(!options.nccl.empty(), "--nccl");
  refuse(!options.rendezvous.empty(), "--rendezvous");
}

}  // namespace

RunSetup prepare(const Options& options, const std::vector<std::string>& arguments) {
  expectFlagsOfTransport(options);
  RunSetup setup;
  setup.source = openDataSource(parseDataSpec(options.data, isRegularFile), options.datatype);
  setup.sizes = messageSizes(options);
  setup.plan = {setup.source->datatype(), warmupsOf(options), options.iterations, options.checks};

  RunInfo& info = setup.report.info;
  info.arguments = arguments;
  info.options = options;
  info.machine = thisMachine();
  if (zipcclGetVersion(&info.libraryVersion) != zipcclSuccess) {
    throw Failure(zipcclGetLastError(nullptr));
  }
  info.datatype = setup.source->datatype();
  info.dataDescription = setup.source->describe();
  info.startedAt = utcNow();
  return setup;
}

std::vector<std::uint64_t> messageCounts(const RunSetup& setup, const Collective& collective) {
  std::vector<std::uint64_t> counts;
  for (const std::uint64_t sizeBytes : setup.sizes) {
    counts.push_back(collective.countOf(sizeBytes / elementBytes(setup.plan.datatype)));
  }
  return counts;
}

std::uint64_t mostSendElements(const Collective& collective, std::uint64_t count) {
  std::uint64_t most = 0;
  for (int rank = 0; rank < collective.ranks(); ++rank) {
    most = std::max(most, collective.sendElements(count, rank));
  }
  return most;
}

std::uint64_t mostReceiveElements(const Collective& collective, std::uint64_t count) {
  std::uint64_t most = 0;
  for (int rank = 0; rank < collective.ranks(); ++rank) {
    most = std::max(most, collective.receiveElements(count, rank));
  }
  return most;
}

void expectMemory(std::uint64_t mostCount, const PoolGeometry& geometry,
                  const Collective& collective, const MachineShare& share) {
  // In floating point, where nothing overflows: what every rank of the run sends, a copy of what
  // the process's own ranks send, what they receive, and what they expect.
  const auto all = static_cast<double>(collective.ranks());
  const auto own = static_cast<double>(share.ranksOfProcess);
  const double received = static_cast<double>(mostReceiveElements(collective, mostCount)) *
                          static_cast<double>(geometry.elementBytes());
  const double neededBytes =
      share.processes * ((all + own) * static_cast<double>(geometry.bytes()) + 2 * own * received);
  const std::uint64_t presentBytes = physicalMemoryBytes();
  if (neededBytes > static_cast<double>(presentBytes)) {
    throw Failure("messages of this size need " + fixed(neededBytes / 0x1.0p30, 1) +
                  " GiB of memory for " + std::to_string(share.processes * share.ranksOfProcess) +
                  " ranks, of which this machine has " + humanBytes(presentBytes) +
                  "; choose a smaller --maxbytes");
  }
}

Reporter::Reporter(RunReport& report, const Streams& streams)
    : report_(report), streams_(streams), progress_(streams.error, streams.isErrorTerminal) {
  if (!report.info.options.jsonPath.empty()) file_.emplace(report.info.options.jsonPath);
}

void Reporter::begin() { streams_.out << tableHead(report_.info) << std::flush; }

void Reporter::add(const SizeResult& result) {
  progress_.clear();
  report_.results.push_back(result);
  streams_.out << tableRow(report_.info, result) << std::flush;
}

void Reporter::end() {
  streams_.out << tableFoot(report_) << std::flush;
  if (!streams_.out) throw Failure("the table could not be written to stdout");
  if (file_) file_->commit(jsonText(report_));
}

ExitStatus run(const Options& options, const std::vector<std::string>& arguments,
               const Streams& streams) {
  switch (options.transport) {
    case TransportKind::kLocal:
      return runLocal(options, arguments, streams);
    case TransportKind::kMpi:
      return runMpi(options, arguments, streams);
    case TransportKind::kNccl:
      return perf_nccl::runNccl(options, arguments, streams);
  }
  throw Failure("an unknown transport");
}

}  // namespace zipccl::tools::perf
