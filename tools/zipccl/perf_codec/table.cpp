// SPDX-License-Identifier: Apache-2.0
//
// The table: a row for each size, in the manner of the collectives.

#include <zipccl/version.h>

#include <algorithm>

#include "perf/datatype.hpp"
#include "perf/statistics.hpp"
#include "perf_codec/report.hpp"
#include "support/text.hpp"

namespace zipccl::tools::perf_codec {
namespace {

using perf::Spread;
using perf::spreadOf;

struct Column {
  const char* title;
  const char* unit;
  std::size_t width;
};

constexpr const char* kSpreadUnit = "of memcpy [least most]";

const std::vector<Column>& ownColumns() {
  static const std::vector<Column> columns = {
      {"device", "", 6},           {"size", "(B)", 12},         {"type", "", 9},
      {"layout", "", 7},           {"blocks", "", 7},           {"memcpy", "(GB/s)", 8},
      {"encode", "(GB/s)", 8},     {"encode", kSpreadUnit, 23}, {"decode", "(GB/s)", 8},
      {"decode", kSpreadUnit, 23}, {"both", "(us)", 10},        {"first", "(bits)", 8},
      {"steady", "(bits)", 8},     {"#wrong", "", 8},           {"rounds", "", 7}};
  return columns;
}

const std::vector<Column>& rivalColumns() {
  static const std::vector<Column> columns = {
      {"nvCOMP", "encode", 8},       {"nvCOMP", "decode", 8}, {"ours faster", "encode", 12},
      {"ours faster", "decode", 12}, {"nvCOMP", "(bits)", 8}, {"nvCOMP", "#wrong", 8}};
  return columns;
}

/// One line of titles, which stand over columns as wide as they are.
template <class TextOf>
std::string titleLine(const RunInfo& info, const char* last, const TextOf& textOf) {
  std::string line = "#";
  for (const Column& column : ownColumns()) line += padded(textOf(column), column.width);
  if (!info.rivalVersion.empty()) {
    for (const Column& column : rivalColumns()) line += padded(textOf(column), column.width);
  }
  line += last;
  line.erase(line.find_last_not_of(' ') + 1);
  return line + "\n";
}

void appendCells(std::string& line, const std::vector<Column>& columns,
                 const std::vector<std::string>& cells) {
  for (std::size_t i = 0; i < columns.size(); ++i) {
    const std::string& cell = cells.at(i);
    line += cell.size() < columns[i].width ? padded(cell, columns[i].width) : " " + cell;
  }
}

std::string speedText(std::uint64_t inputBytes, std::vector<double> timesUs) {
  const double speed = gigabytesPerSecond(inputBytes, spreadOf(std::move(timesUs)).median);
  return fixed(speed, speed < 10.0 ? 3 : speed < 100.0 ? 2 : 1);
}

std::vector<std::string> ownCells(const CodecResult& result) {
  const auto speed = [&](double CodecRound::*member) {
    return speedText(result.inputBytes, result.times(member));
  };
  const auto ratio = [&](double CodecRound::*member) { return spreadText(result.speeds(member)); };
  const std::string blocks = result.device == Device::kHost ? "-"
                             : result.maxBlocks == 0        ? "all"
                                                            : std::to_string(result.maxBlocks);
  return {deviceName(result.device),
          std::to_string(result.inputBytes),
          perf::datatypeName(datatypeOf(result.datatype)),
          layoutName(result.layout),
          blocks,
          speed(&CodecRound::memcpyUs),
          speed(&CodecRound::encodeUs),
          ratio(&CodecRound::encodeUs),
          speed(&CodecRound::decodeUs),
          ratio(&CodecRound::decodeUs),
          fixed(spreadOf(result.times(&CodecRound::bothUs)).median, 1),
          fixed(result.bitsPerValue(), 3),
          fixed(result.steadyBitsPerValue(), 3),
          result.wasChecked ? std::to_string(result.wrongElements) : "N/A",
          std::to_string(result.rounds.size())};
}

std::vector<std::string> rivalCells(const CodecResult& result) {
  if (!result.rival) return std::vector<std::string>(rivalColumns().size(), "-");
  const RivalResult& rival = *result.rival;
  const auto faster = [&](double CodecRound::*own, double RivalRound::*other) {
    return fixed(spreadOf(result.speedsToRival(own, other)).median, 2);
  };
  return {speedText(result.inputBytes, rival.times(&RivalRound::encodeUs)),
          speedText(result.inputBytes, rival.times(&RivalRound::decodeUs)),
          faster(&CodecRound::encodeUs, &RivalRound::encodeUs),
          faster(&CodecRound::decodeUs, &RivalRound::decodeUs),
          fixed(result.rivalBitsPerValue(), 3),
          result.wasChecked ? std::to_string(rival.wrongElements) : "N/A"};
}

std::string joined(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : " ") + word;
  return text;
}

std::string dataLines(const RunInfo& info) {
  std::string lines;
  for (const DataNote& data : info.data) {
    lines += "# data " + printable(data.name, 400) + ": " + data.description + "\n";
  }
  if (info.seed) lines += "# seed " + std::to_string(*info.seed) + "\n";
  return lines;
}

std::string machineLines(const RunInfo& info) {
  std::string lines = "# machine: " + info.machine.cpuModel + ", " +
                      std::to_string(info.machine.cores) +
                      (info.machine.cores == 1 ? " core" : " cores");
  if (!info.machine.instructionSets.empty()) lines += ", " + joined(info.machine.instructionSets);
  if (info.usesHost) lines += "; the host codec runs in one thread";
  lines += "\n";
  if (info.gpu) {
    const GpuMachine& gpu = *info.gpu;
    lines += "# gpu: " + gpu.name + ", " + std::to_string(gpu.multiprocessors) +
             " multiprocessors, driver " + (gpu.driver.empty() ? "unknown" : gpu.driver) +
             ", CUDA " + gpu.cudaRuntime + "\n";
  }
  if (!info.gpuNote.empty()) lines += "# gpu: not measured, " + info.gpuNote + "\n";
  if (!info.rivalVersion.empty()) {
    lines += "# nvCOMP " + info.rivalVersion + ", ANS, in the same rounds\n";
  }
  if (!info.rivalNote.empty()) lines += "# nvCOMP: not measured, " + info.rivalNote + "\n";
  return lines;
}

/// What the run says of one result, in a sentence.
std::string conclusion(const CodecResult& result) {
  const double saved =
      100.0 * (1.0 - result.meanSteadyBytes / static_cast<double>(result.inputBytes));
  std::string text = std::string("# ") + deviceName(result.device) + ", " +
                     humanBytes(result.inputBytes) + " of " + printable(result.data, 400) + ": ";
  if (!result.wasChecked) {
    text += "nothing was checked (-c 0); ";
  } else if (result.wrongElements == 0 && result.statusWord == 0) {
    text += "every bit came back; ";
  } else {
    text += "WRONG BITS came back; ";
  }
  text += saved >= 0.0 ? fixed(saved, 1) + " % smaller" : fixed(-saved, 1) + " % larger";
  text += ", encoded and decoded at " +
          fixed(spreadOf(result.speeds(&CodecRound::encodeUs)).median, 2) + " and " +
          fixed(spreadOf(result.speeds(&CodecRound::decodeUs)).median, 2) +
          " of the speed of a copy\n";
  return text;
}

}  // namespace

std::string padded(const std::string& text, std::size_t width) {
  return text.size() < width ? std::string(width - text.size(), ' ') + text : text;
}

std::string spreadText(const std::vector<double>& samples) {
  const Spread spread = spreadOf(samples);
  return fixed(spread.median, 3) + " [" + fixed(spread.least, 3) + " " + fixed(spread.most, 3) +
         "]";
}

std::string tableHead(const RunInfo& info) {
  std::string head = "# zipccl " ZIPCCL_VERSION_STRING " perf codec\n";
  head += dataLines(info) + machineLines(info);
  head +=
      "# GB/s (10^9 bytes) of input, at the median of the rounds; of memcpy: speed against a copy "
      "of"
      " the same bytes in the same round\n"
      "# both: encode, then decode; bits a value, of the whole frame: at the first call, and in the"
      " steady state\n#\n";
  head += titleLine(info, "  data", [](const Column& column) { return std::string(column.title); });
  head += titleLine(info, "", [](const Column& column) { return std::string(column.unit); });
  return head;
}

std::string tableRow(const RunInfo& info, const CodecResult& result) {
  std::string line = " ";
  appendCells(line, ownColumns(), ownCells(result));
  if (!info.rivalVersion.empty()) appendCells(line, rivalColumns(), rivalCells(result));
  return line + "  " + printable(result.data, 400) + "\n";
}

std::string tableFoot(const RunReport& report) {
  std::string foot = "#\n";
  const bool wasChecked = std::any_of(report.results.begin(), report.results.end(),
                                      [](const CodecResult& result) { return result.wasChecked; });
  if (wasChecked) foot += "# wrong elements: " + std::to_string(report.wrongElements()) + "\n";
  for (const CodecResult& result : report.results) {
    for (unsigned bit = 0; bit < 32; ++bit) {
      if ((result.statusWord >> bit & 1U) == 0) continue;
      foot += std::string("# ") + deviceName(result.device) + ", " + humanBytes(result.inputBytes) +
              ": a frame was rejected: " + codec::describe(static_cast<codec::DecodeStatus>(bit)) +
              "\n";
    }
    if (result.rival && result.rival->failedChunks != 0) {
      foot += "# nvCOMP failed on " + std::to_string(result.rival->failedChunks) + " chunks of " +
              humanBytes(result.inputBytes) + "\n";
    }
  }
  // The last of each device and data set, which is the largest.
  for (std::size_t i = 0; i < report.results.size(); ++i) {
    const CodecResult& result = report.results[i];
    const bool isLast = i + 1 == report.results.size() ||
                        report.results[i + 1].device != result.device ||
                        report.results[i + 1].data != result.data;
    if (isLast) foot += conclusion(result);
  }
  return foot;
}

}  // namespace zipccl::tools::perf_codec
