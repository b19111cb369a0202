// SPDX-License-Identifier: Apache-2.0
//
// The table: the columns of nccl-tests, native beside zipccl.

#include <zipccl/version.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <span>
#include <vector>

#include "perf/datatype.hpp"
#include "perf/report.hpp"
#include "support/text.hpp"

namespace zipccl::tools::perf {
namespace {

struct Column {
  const char* title;
  const char* unit;
  std::size_t width;
};

struct Group {
  const char* title;
  std::span<const Column> columns;
};

constexpr std::array kMessageColumns = {Column{"size", "(B)", 11},
                                        Column{"count", "(elements)", 11}, Column{"type", "", 9}};
constexpr std::array kNativeColumns = {Column{"time", "(us)", 9}, Column{"+-%", "", 4},
                                       Column{"algbw", "(GB/s)", 7}, Column{"busbw", "(GB/s)", 7}};
constexpr std::array kZipcclColumns = {Column{"time", "(us)", 9},    Column{"+-%", "", 4},
                                       Column{"algbw", "(GB/s)", 7}, Column{"busbw", "(GB/s)", 7},
                                       Column{"#wrong", "", 7},      Column{"speedup", "", 8}};
constexpr std::array kMoreColumns = {Column{"ratio", "", 6}, Column{"wire", "(B)", 11},
                                     Column{"strategy", "", 9}, Column{"pairs", "", 6}};

constexpr std::array kPlainMpiColumns = {Column{"time", "(us)", 10}, Column{"+-%", "", 4},
                                         Column{"algbw", "(GB/s)", 7}, Column{"busbw", "(GB/s)", 7},
                                         Column{"speedup", "", 8}};

/// MPI's own collective stands at the end, so that the others keep their places.
std::vector<Group> groupsOf(const RunInfo& info) {
  std::vector<Group> groups = {{"", kMessageColumns},
                               {"native, out of place", kNativeColumns},
                               {"zipccl, out of place", kZipcclColumns},
                               {"zipccl, in place", kZipcclColumns},
                               {"", kMoreColumns}};
  if (!info.plainMpi.empty()) groups.push_back({"MPI's own, out of place", kPlainMpiColumns});
  return groups;
}

std::string padded(const std::string& text, std::size_t width) {
  return text.size() < width ? std::string(width - text.size(), ' ') + text : " " + text;
}

std::string withoutTrailingSpaces(std::string line) {
  line.erase(line.find_last_not_of(' ') + 1);
  return line + "\n";
}

/// One line of titles, which stand over columns as wide as they are.
template <class TextOf>
std::string titleLine(const std::vector<Group>& groups, const TextOf& textOf) {
  std::string line = "#";
  for (const Group& group : groups) {
    for (const Column& column : group.columns) line += padded(textOf(column), column.width);
  }
  return withoutTrailingSpaces(line);
}

std::string groupLine(const std::vector<Group>& groups) {
  std::string line = "#";
  for (const Group& group : groups) {
    std::size_t width = 0;
    for (const Column& column : group.columns) width += column.width;
    const std::string title = group.title;
    const std::size_t left = width - title.size() - (width - title.size()) / 2;
    line += std::string(left, ' ') + title + std::string(width - title.size() - left, ' ');
  }
  return withoutTrailingSpaces(line);
}

std::string timeText(double us) { return fixed(us, us < 1e5 ? 1 : 0); }
std::string bandwidthText(double gigabytes) { return fixed(gigabytes, gigabytes < 100.0 ? 2 : 1); }

void addTimes(std::vector<std::string>& cells, const RunInfo& info, const SizeResult& result,
              const std::vector<double>& timesUs) {
  const Spread spread = spreadOf(timesUs);
  cells.push_back(timeText(spread.median));
  cells.push_back(fixed(spread.percent(), 0));
  cells.push_back(bandwidthText(algorithmBandwidth(result.sizeBytes, spread.median)));
  cells.push_back(bandwidthText(busBandwidth(info, result.sizeBytes, spread.median)));
}

void addPlace(std::vector<std::string>& cells, const RunInfo& info, const SizeResult& result,
              const PlaceResult& place) {
  if (place.samples.empty()) {
    // The collective has no such form.
    cells.insert(cells.end(), kZipcclColumns.size(), "N/A");
    return;
  }
  addTimes(cells, info, result, place.zipcclTimesUs());
  cells.push_back(result.wasChecked ? std::to_string(place.zipcclWrong) : "N/A");
  cells.push_back(fixed(spreadOf(place.speedups()).median, 2));
}

std::string scientific(double value) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.2e", value);
  return text.data();
}

/// `10 Gbit/s`, `250 Mbit/s`.
std::string linkSpeedText(std::uint64_t bytesPerSecond) {
  const double megabits = static_cast<double>(bytesPerSecond) * 8e-6;
  return megabits < 1000.0 ? fixed(megabits, megabits < 10.0 ? 2 : 0) + " Mbit/s"
                           : fixed(megabits / 1000.0, megabits < 10'000.0 ? 1 : 0) + " Gbit/s";
}

std::string joined(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : " ") + word;
  return text;
}

double averageBusBandwidth(const RunReport& report, bool isNative) {
  double sum = 0.0;
  for (const SizeResult& result : report.results) {
    const std::vector<double> times =
        isNative ? result.outOfPlace.nativeTimesUs() : result.outOfPlace.zipcclTimesUs();
    sum += busBandwidth(report.info, result.sizeBytes, spreadOf(times).median);
  }
  return report.results.empty() ? 0.0 : sum / static_cast<double>(report.results.size());
}

/// `1.35 times as fast`, `1.2 times as slow`.
std::string comparison(double speedup) {
  return speedup >= 1.0 ? fixed(speedup, 2) + " times as fast"
                        : fixed(1.0 / speedup, 1) + " times as slow";
}

/// What the run says, in a sentence or two, of its largest message.
std::string conclusion(const RunReport& report) {
  const SizeResult& largest = report.results.back();
  std::string text = "# " + humanBytes(largest.sizeBytes) + ": ";
  if (!largest.wasChecked) {
    text += "nothing was checked (-c 0); ";
  } else if (report.wrongElements() == 0) {
    text += "every bit arrived as it was sent; ";
  } else {
    text += "WRONG BITS arrived; ";
  }
  const double nativeBytes = largest.nativeWireBytes();
  if (nativeBytes == 0.0) return text + "there was nothing to send\n";
  const double saved = 100.0 * (1.0 - largest.zipcclWireBytes() / nativeBytes);
  const double speedup = spreadOf(largest.outOfPlace.speedups()).median;
  text += saved >= 0.0 ? fixed(saved, 1) + " % fewer" : fixed(-saved, 1) + " % more";
  text += " bytes went between ranks than natively, ";
  text += comparison(speedup);
  if (!report.info.plainMpi.empty()) {
    text += "; " + comparison(spreadOf(largest.outOfPlace.plainMpiSpeedups()).median) +
            " as MPI's own collective";
  }
  if (report.info.options.transport == TransportKind::kLocal &&
      report.info.options.linkBytesPerSecond == 0 && speedup < 1.0 && saved > 0.0) {
    text +=
        ":\n# memory of one process is faster than any codec on its cores; fewer bytes save"
        " time where a link is slower than the codec";
  }
  return text + "\n";
}

}  // namespace

std::uint64_t RunReport::wrongElements() const noexcept {
  std::uint64_t wrong = 0;
  for (const SizeResult& result : results) wrong += result.wrongElements();
  return wrong;
}

double busBandwidth(const RunInfo& info, std::uint64_t sizeBytes, double timeUs) noexcept {
  return algorithmBandwidth(sizeBytes, timeUs) *
         busFactor(info.options.collective.name, info.ranks);
}

double nativeError(const SizeResult& result) noexcept {
  SquaredError error = result.outOfPlace.nativeError;
  return (error += result.inPlace.nativeError).relative();
}

double plainMpiError(const SizeResult& result) noexcept {
  return result.outOfPlace.plainMpiError.relative();
}

double zipcclError(const SizeResult& result) noexcept {
  SquaredError error = result.outOfPlace.zipcclError;
  return (error += result.inPlace.zipcclError).relative();
}

std::string transportLabel(const RunInfo& info) {
  const Options& options = info.options;
  const std::string hosts = std::to_string(info.hosts) + (info.hosts == 1 ? " host" : " hosts");
  if (options.transport == TransportKind::kMpi) return "MPI processes on " + hosts;
  if (info.nccl) {
    std::string label = "NCCL " + info.nccl->version + ", " + info.nccl->device + ", " +
                        (info.nccl->areProcesses ? "processes" : "threads") + " on " + hosts;
    for (const auto& [name, value] : info.nccl->variables) {
      label.append(", ").append(name).append("=").append(value);
    }
    return label;
  }
  if (options.linkBytesPerSecond != 0) {
    return "threads of one process, EMULATED link of " + linkSpeedText(options.linkBytesPerSecond) +
           " each way for each rank";
  }
  return "threads of one process, shared memory: compression cannot gain speed here, ratio and"
         " wire show what it saves";
}

std::string tableHead(const RunInfo& info) {
  const Options& options = info.options;
  std::string head = "# zipccl " ZIPCCL_VERSION_STRING " perf " + describe(options.collective) +
                     ": " + std::to_string(info.ranks) +
                     (info.ranks == 1 ? " rank, " : " ranks, ") + datatypeName(info.datatype) +
                     ", strategy " + zipcclGetStrategyName(options.strategy) + "\n";
  head += std::string("# transport ") + transportName(options.transport) + ": " +
          transportLabel(info) + "\n";
  if (!info.plainMpi.empty()) head += "# MPI's own collective beside it: " + info.plainMpi + "\n";
  if (!info.noPlainMpi.empty()) {
    head += "# MPI's own collective is not measured: " + info.noPlainMpi + "\n";
  }
  head += "# data: " + info.dataDescription;
  if (info.seed) head += ", seed " + std::to_string(*info.seed);
  head += "\n# machine: " + info.machine.cpuModel + ", " + std::to_string(info.machine.cores) +
          (info.machine.cores == 1 ? " core" : " cores");
  if (!info.machine.instructionSets.empty()) head += ", " + joined(info.machine.instructionSets);
  head +=
      "\n# time: slowest rank, median of the pairs of calls; +-%: half the distance of their"
      " quartiles; speedup: median of native / zipccl"
      "\n# algbw, busbw: of uncompressed bytes; ratio: uncompressed / wire; wire: what a rank sent"
      " to the others\n#\n";
  const std::vector<Group> groups = groupsOf(info);
  head += groupLine(groups);
  head += titleLine(groups, [](const Column& column) { return std::string(column.title); });
  head += titleLine(groups, [](const Column& column) { return std::string(column.unit); });
  return head;
}

std::string tableRow(const RunInfo& info, const SizeResult& result) {
  std::vector<std::string> cells = {std::to_string(result.sizeBytes), std::to_string(result.count),
                                    datatypeName(info.datatype)};
  addTimes(cells, info, result, result.outOfPlace.nativeTimesUs());
  addPlace(cells, info, result, result.outOfPlace);
  addPlace(cells, info, result, result.inPlace);
  cells.push_back(result.ratio() == 0.0 ? "-" : fixed(result.ratio(), 3));
  cells.push_back(fixed(result.zipcclWireBytes(), 0));
  cells.emplace_back(result.strategy());
  cells.push_back(std::to_string(result.outOfPlace.samples.size()));
  if (!info.plainMpi.empty()) {
    addTimes(cells, info, result, result.outOfPlace.plainMpiTimesUs());
    cells.push_back(fixed(spreadOf(result.outOfPlace.plainMpiSpeedups()).median, 2));
  }

  std::string line = " ";
  auto cell = cells.begin();
  for (const Group& group : groupsOf(info)) {
    for (const Column& column : group.columns) line += padded(*cell++, column.width);
  }
  return line + "\n";
}

std::string tableFoot(const RunReport& report) {
  std::string foot = "#\n";
  std::uint64_t nativeWrong = 0;
  bool wasChecked = false;
  std::vector<std::string> reasons;
  for (const SizeResult& result : report.results) {
    nativeWrong += result.outOfPlace.nativeWrong + result.inPlace.nativeWrong;
    wasChecked = wasChecked || result.wasChecked;
    // Why it is not as the user wanted it, or what the policy chose.
    if (result.strategy() != std::string(zipcclGetStrategyName(report.info.options.strategy)) &&
        std::find(reasons.begin(), reasons.end(), result.reason) == reasons.end()) {
      reasons.push_back(result.reason);
    }
  }
  for (const std::string& reason : reasons) foot += "# strategy: " + reason + "\n";
  if (wasChecked) {
    foot += "# wrong elements: " + std::to_string(report.wrongElements());
    if (nativeWrong != 0) foot += ", of them native: " + std::to_string(nativeWrong);
    foot += "\n";
  }
  if (wasChecked && isReduction(report.info.options.collective.name)) {
    const SizeResult& largest = report.results.back();
    foot +=
        "# error against fp64, root mean square, of the largest size: native " +
        scientific(nativeError(largest)) + ", zipccl " + scientific(zipcclError(largest)) +
        (report.info.plainMpi.empty() ? "" : ", MPI's own " + scientific(plainMpiError(largest))) +
        " of the exact values\n";
  }
  if (!report.results.empty()) {
    const PlaceResult& largest = report.results.back().outOfPlace;
    foot += "# cores at work in the largest size: native " +
            fixed(spreadOf(largest.nativeCores()).median, 2) + ", zipccl " +
            fixed(spreadOf(largest.zipcclCores()).median, 2) + "\n";
  }
  foot += "# average busbw, out of place: native " +
          bandwidthText(averageBusBandwidth(report, true)) + ", zipccl " +
          bandwidthText(averageBusBandwidth(report, false)) + " GB/s\n";
  return foot + conclusion(report);
}

}  // namespace zipccl::tools::perf
