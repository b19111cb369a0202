// SPDX-License-Identifier: Apache-2.0
//
// The program: reads the command line, measures, prints the table and writes the JSON file. Exit
// status: 0, 1 when a bit did not come back, 2 when the command line cannot be carried out, 3 when
// something failed.

#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdio>
#include <ctime>
#include <fstream>
#include <iostream>
#include <map>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "base/random.hpp"
#include "bench/codec_cases.hpp"
#include "bench/codec_data.hpp"
#include "bench/traffic_measurement.hpp"
#include "perf_codec/gpu_machine.hpp"
#include "perf_codec/measurement.hpp"
#include "perf_codec/report.hpp"

namespace zipccl::bench {
namespace {

using tools::perf_codec::CodecReport;
using tools::perf_codec::CodecResult;
using tools::perf_codec::MeasurementPlan;
using tools::perf_codec::printCodecHead;
using tools::perf_codec::printHead;
using tools::perf_codec::printRow;

constexpr int kWrongBits = 1;
constexpr int kUsage = 2;
constexpr int kFailure = 3;

struct Options {
  std::vector<std::string> cases = defaultCodecCases();
  std::string jsonPath;
  std::uint64_t seed = freshSeed();
  MeasurementPlan plan;
};

void addFlags(CLI::App& app, Options& options) {
  app.add_option("cases", options.cases,
                 "What to measure: DATA[@SIZE,SIZE...[/BLOCKS,BLOCKS...]]. DATA: normal:SIGMA, "
                 "zeros:SHARE, random (bf16), widened:SIGMA, float:SIGMA (fp32), "
                 "file:X.safetensors[:TENSOR], or traffic, kernels that only read and write. "
                 "SIZE in bytes with K, M or G [256M]. BLOCKS: a limit on thread blocks, 0 none "
                 "[0]. Without any case a useful choice of them")
      ->type_name("CASE");
  app.add_option("-J,--json", options.jsonPath, "Write every sample, as JSON, to this file")
      ->type_name("FILE");
  app.add_option("--seed", options.seed, "Repeat the values of another run [a fresh one]")
      ->type_name("NUMBER");
  app.add_option("-n,--rounds", options.plan.rounds, "Timed rounds of each case [25]")
      ->check(CLI::Range(1, 100000))
      ->type_name("COUNT");
  app.add_option("-w,--warmups", options.plan.warmupRounds, "Rounds before them, not timed [2]")
      ->check(CLI::Range(0, 100000))
      ->type_name("COUNT");
  app.add_option("--region-us", options.plan.regionUs,
                 "About how long the calls take that are timed at once [3000]")
      ->check(CLI::PositiveNumber)
      ->type_name("MICROSECONDS");
  app.add_option(
         "--rotate", options.plan.rotatedBytes,
         "Bytes of inputs that calls go through before they come back to the first; several "
         "times the cache [1073741824]")
      ->check(CLI::PositiveNumber)
      ->type_name("BYTES");
}

std::string utcNow() {
  const std::time_t now = std::chrono::system_clock::to_time_t(std::chrono::system_clock::now());
  std::tm parts{};
  gmtime_r(&now, &parts);
  char text[32];
  std::strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%SZ", &parts);
  return text;
}

void measure(const std::vector<CodecCase>& cases, CodecReport& report,
             std::vector<TrafficResult>& traffic) {
  // All that can be wrong with the command line shows before the first minute is spent.
  std::map<std::string, DataSet> dataSets;
  for (const CodecCase& codecCase : cases) {
    if (codecCase.data == kTrafficData || dataSets.contains(codecCase.data)) continue;
    dataSets.emplace(codecCase.data, makeDataSet(codecCase.data, report.seed));
  }
  printHead(std::cout, report);
  bool lastWasTraffic = false;
  bool isFirst = true;
  for (const CodecCase& codecCase : cases) {
    const bool isTraffic = codecCase.data == kTrafficData;
    if (isFirst || isTraffic != lastWasTraffic) {
      isTraffic ? printTrafficHead(std::cout) : printCodecHead(std::cout);
    }
    isFirst = false;
    lastWasTraffic = isTraffic;
    if (isTraffic) {
      measureTraffic(codecCase, report.plan, [&](TrafficResult result) {
        printRow(std::cout, result);
        traffic.push_back(std::move(result));
      });
    } else {
      measureOnGpu(dataSets.at(codecCase.data), codecCase.sizesBytes, codecCase.blockLimits,
                   report.plan, [&](CodecResult result) {
                     printRow(std::cout, result);
                     report.codec.push_back(std::move(result));
                   });
    }
  }
}

void writeJson(const std::string& path, const CodecReport& report,
               const std::vector<TrafficResult>& traffic) {
  nlohmann::ordered_json json = toJson(report);
  json["traffic"] = nlohmann::ordered_json::array();
  for (const TrafficResult& result : traffic) json["traffic"].push_back(toJson(result));
  std::ofstream file(path);
  file << json.dump(1) << '\n';
  file.close();
  if (!file) fail(ErrorCode::kSystemError, "cannot write ", path);
}

int run(int argc, char** argv) {
  CLI::App app(
      "Measures encoding and decoding on the GPU against cudaMemcpyAsync from device to device, on "
      "the same bytes in the same run, and checks every bit of what it timed.");
  Options options;
  addFlags(app, options);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : kUsage;
  }
  CodecReport report;
  report.arguments.assign(argv, argv + argc);
  report.startedAt = utcNow();
  report.seed = options.seed;
  report.plan = options.plan;
  try {
    std::vector<CodecCase> cases;
    for (const std::string& text : options.cases) cases.push_back(parseCodecCase(text));
    report.machine = tools::perf_codec::thisGpuMachine();
    std::vector<TrafficResult> traffic;
    measure(cases, report, traffic);
    if (!options.jsonPath.empty()) writeJson(options.jsonPath, report, traffic);
  } catch (const Error& error) {
    const bool isUsage = error.code() == ErrorCode::kInvalidArgument;
    std::cerr << "gpu_codec_bench: " << (isUsage ? error.message() : error.what()) << '\n';
    return isUsage ? kUsage : kFailure;
  } catch (const std::exception& error) {
    std::cerr << "gpu_codec_bench: " << error.what() << '\n';
    return kFailure;
  }
  return report.isRight() ? 0 : kWrongBits;
}

}  // namespace
}  // namespace zipccl::bench

int main(int argc, char** argv) { return zipccl::bench::run(argc, argv); }
