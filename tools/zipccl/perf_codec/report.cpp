// SPDX-License-Identifier: Apache-2.0
//
// How results are shown.

#include "perf_codec/report.hpp"

#include <zipccl/version.h>

#include <algorithm>
#include <ostream>

#include "perf/statistics.hpp"
#include "support/text.hpp"

namespace zipccl::tools::perf_codec {

using perf::Spread;
using perf::spreadOf;

std::string padded(const std::string& text, std::size_t width) {
  return text.size() < width ? std::string(width - text.size(), ' ') + text : text;
}

std::string sizeText(std::uint64_t bytes) {
  constexpr std::uint64_t kMebibyte = std::uint64_t{1} << 20;
  if (bytes % kMebibyte == 0) return std::to_string(bytes / kMebibyte) + " MiB";
  return std::to_string(bytes) + " B";
}

std::string spreadText(const std::vector<double>& samples) {
  const Spread spread = spreadOf(samples);
  return fixed(spread.median, 3) + " [" + fixed(spread.least, 3) + " " + fixed(spread.most, 3) +
         "]";
}

double gigabytesPerSecond(std::uint64_t bytes, double elapsedUs) {
  return static_cast<double>(bytes) / elapsedUs * 1e-3;
}

namespace {

using Json = nlohmann::ordered_json;

/// Raised when a field changes its meaning or goes.
constexpr int kSchema = 1;

const char* datatypeText(codec::Datatype datatype) {
  switch (datatype) {
    case codec::Datatype::kBfloat16:
      return "bf16";
    case codec::Datatype::kFloat16:
      return "fp16";
    case codec::Datatype::kFloat32:
      return "fp32";
  }
  return "other";
}

const char* layoutText(codec::Layout layout) {
  return layout == codec::Layout::kWide ? "wide" : "narrow";
}

Json toJson(const Spread& spread) {
  return {{"median", spread.median},
          {"lowerQuartile", spread.lowerQuartile},
          {"upperQuartile", spread.upperQuartile},
          {"least", spread.least},
          {"most", spread.most}};
}

Json toJson(const CodecResult& result) {
  const auto operation = [&](double CodecRound::*member) {
    return operationToJson(result.inputBytes, result.times(member), result.speeds(member));
  };
  return {{"data", result.data},
          {"datatype", datatypeText(result.datatype)},
          {"layout", layoutText(result.layout)},
          {"inputBytes", result.inputBytes},
          {"elementCount", result.elementCount},
          {"maxBlocks", result.maxBlocks},
          {"method", result.usesGraphs ? "graph" : "launch"},
          {"sets", result.sets},
          {"callsTimed", result.callsTimed},
          {"poolBytes", result.spec.poolBytes},
          {"bitsPerValue", result.bitsPerValue()},
          {"steadyBitsPerValue", result.steadyBitsPerValue()},
          {"wrongBytes", result.wrongBytes},
          {"statusWord", result.statusWord},
          {"memcpy", operation(&CodecRound::memcpyUs)},
          {"encode", operation(&CodecRound::encodeUs)},
          {"decode", operation(&CodecRound::decodeUs)},
          {"encodeAndDecode", operation(&CodecRound::bothUs)}};
}

Json toJson(const GpuMachine& machine) {
  return {{"name", machine.name},
          {"computeCapability", machine.computeCapability},
          {"multiprocessors", machine.multiprocessors},
          {"memoryBytes", machine.memoryBytes},
          {"cacheBytes", machine.cacheBytes},
          {"driver", machine.driver},
          {"cudaDriver", machine.cudaDriver},
          {"cudaRuntime", machine.cudaRuntime},
          {"hostName", machine.hostName}};
}

}  // namespace

Json operationToJson(std::uint64_t inputBytes, const std::vector<double>& timesUs,
                     const std::vector<double>& speeds) {
  const Spread times = spreadOf(timesUs);
  return {{"timeUs", toJson(times)},
          {"inputGBs", gigabytesPerSecond(inputBytes, times.median)},
          {"speedToMemcpy", toJson(spreadOf(speeds))},
          {"samplesUs", timesUs}};
}

bool CodecReport::isRight() const noexcept {
  return std::all_of(codec.begin(), codec.end(),
                     [](const CodecResult& result) { return result.isRight(); });
}

void printHead(std::ostream& out, const CodecReport& report) {
  const GpuMachine& machine = report.machine;
  out << machine.name << ", " << machine.multiprocessors << " multiprocessors, driver "
      << (machine.driver.empty() ? "unknown" : machine.driver) << ", CUDA " << machine.cudaRuntime
      << ", " << report.startedAt << ", seed " << report.seed << '\n'
      << "GB/s (10^9 bytes) of input; in parentheses speed against cudaMemcpyAsync from device to "
         "device in the same round: median [least most] of "
      << report.plan.rounds << " rounds\n";
}

void printCodecHead(std::ostream& out) {
  out << "\nThe codec\n"
      << padded("size", 9) << padded("blocks", 8) << padded("memcpy", 8) << padded("encode", 8)
      << "  (of memcpy)        " << padded("decode", 8) << "  (of memcpy)        "
      << padded("both us", 9) << padded("bits", 8) << padded("steady", 8) << "  data\n";
}

void printRow(std::ostream& out, const CodecResult& result) {
  const auto speed = [&](double CodecRound::*member) {
    return fixed(gigabytesPerSecond(result.inputBytes, spreadOf(result.times(member)).median), 0);
  };
  const auto ratio = [&](double CodecRound::*member) {
    return "  (" + spreadText(result.speeds(member)) + ")";
  };
  out << padded(sizeText(result.inputBytes), 9)
      << padded(result.maxBlocks == 0 ? std::string("all") : std::to_string(result.maxBlocks), 8)
      << padded(speed(&CodecRound::memcpyUs), 8) << padded(speed(&CodecRound::encodeUs), 8)
      << ratio(&CodecRound::encodeUs) << padded(speed(&CodecRound::decodeUs), 8)
      << ratio(&CodecRound::decodeUs)
      << padded(fixed(spreadOf(result.times(&CodecRound::bothUs)).median, 1), 9)
      << padded(fixed(result.bitsPerValue(), 3), 8)
      << padded(fixed(result.steadyBitsPerValue(), 3), 8) << "  " << result.data
      << (result.usesGraphs ? ", by graph" : "");
  if (!result.isRight()) {
    out << ", WRONG: " << result.wrongBytes << " bytes, status word " << result.statusWord;
  }
  out << '\n' << std::flush;
}

Json toJson(const CodecReport& report) {
  Json json = {
      {"schema", kSchema},
      {"tool", "gpu_codec_bench"},
      {"argv", report.arguments},
      {"startedAt", report.startedAt},
      {"version", ZIPCCL_VERSION_STRING},
      {"gpu", toJson(report.machine)},
      {"seed", report.seed},
      {"rounds", report.plan.rounds},
      {"warmupRounds", report.plan.warmupRounds},
      {"rotatedBytes", report.plan.rotatedBytes},
      {"definitions",
       {{"timeUs", "of one call: a region of callsTimed calls between two events, divided"},
        {"inputGBs", "10^9 bytes of uncompressed values a second, at the median time"},
        {"speedToMemcpy",
         "time of cudaMemcpyAsync, device to device, of inputBytes over the operation's time, of "
         "each round"},
        {"bitsPerValue", "of the whole frame with the default pool, mean over the sets"},
        {"steadyBitsPerValue", "of the whole frame with a pool for what it turned out to need"}}},
      {"isRight", report.isRight()},
      {"codec", Json::array()}};
  for (const CodecResult& result : report.codec) json["codec"].push_back(toJson(result));
  return json;
}

}  // namespace zipccl::tools::perf_codec
