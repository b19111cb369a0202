// SPDX-License-Identifier: Apache-2.0
//
// The program: what a GPU leaves to a codec. It measures what `zipccl perf codec` does not, in the
// same way, prints a table and writes a JSON file. Exit status: 0, 2 when the command line cannot
// be carried out, 3 when something failed.

#include <zipccl/version.h>

#include <CLI/CLI.hpp>
#include <fstream>
#include <iostream>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "bench/codec_cases.hpp"
#include "bench/traffic_measurement.hpp"
#include "perf/machine.hpp"
#include "perf_codec/gpu_machine.hpp"
#include "perf_codec/measurement.hpp"
#include "perf_codec/report.hpp"
#include "support/failure.hpp"

namespace zipccl::bench {
namespace {

using tools::Failure;
using tools::perf_codec::Device;
using tools::perf_codec::GpuMachine;
using tools::perf_codec::MeasurementPlan;

constexpr int kUsage = 2;
constexpr int kFailure = 3;

/// Raised when a field changes its meaning or goes.
constexpr int kSchema = 2;

struct Options {
  std::vector<std::string> cases = defaultCodecCases();
  std::string jsonPath;
  MeasurementPlan plan = MeasurementPlan::forDevice(Device::kGpu);
};

struct Report {
  std::vector<std::string> arguments;
  std::string startedAt;
  GpuMachine gpu;
  std::vector<TrafficResult> traffic;
};

void addFlags(CLI::App& app, Options& options) {
  app.add_option("cases", options.cases,
                 "What to measure: KIND[@SIZE,SIZE...[/BLOCKS,BLOCKS...]]. KIND: traffic, kernels "
                 "that only read and write. SIZE in bytes with K, M or G [256M]. BLOCKS: how many "
                 "thread blocks, 0 one for each eight tiles [0]. Without any case a useful choice")
      ->type_name("CASE");
  app.add_option("-J,--json", options.jsonPath, "Write every sample, as JSON, to this file")
      ->type_name("FILE");
  app.add_option("-n,--rounds", options.plan.rounds, "Timed rounds of each case [25]")
      ->check(CLI::Range(1, 100000))
      ->type_name("COUNT");
  app.add_option("-w,--warmups", options.plan.warmupRounds, "Rounds before them, not timed [1]")
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

void printHead(const Report& report) {
  std::cout << report.gpu.name << ", " << report.gpu.multiprocessors << " multiprocessors, driver "
            << report.gpu.driver << ", CUDA " << report.gpu.cudaRuntime << ", " << report.startedAt
            << "\nGB/s (10^9 bytes) of input; in parentheses speed against cudaMemcpyAsync from "
               "device to device in the same round: median [least most]\n";
}

void writeJson(const std::string& path, const Report& report) {
  nlohmann::ordered_json json = {{"schema", kSchema},
                                 {"tool", "gpu_codec_bench"},
                                 {"argv", report.arguments},
                                 {"startedAt", report.startedAt},
                                 {"version", ZIPCCL_VERSION_STRING},
                                 {"gpu", tools::perf_codec::toJson(report.gpu)},
                                 {"traffic", nlohmann::ordered_json::array()}};
  for (const TrafficResult& result : report.traffic) json["traffic"].push_back(toJson(result));
  std::ofstream file(path);
  file << json.dump(1) << '\n';
  file.close();
  if (!file) throw Failure("cannot write " + path);
}

void measure(const Options& options, Report& report) {
  std::vector<CodecCase> cases;
  for (const std::string& text : options.cases) cases.push_back(parseCodecCase(text));
  report.gpu = tools::perf_codec::thisGpuMachine();
  printHead(report);
  printTrafficHead(std::cout);
  for (const CodecCase& trafficCase : cases) {
    measureTraffic(trafficCase, options.plan, [&](TrafficResult result) {
      printRow(std::cout, result);
      report.traffic.push_back(std::move(result));
    });
  }
}

int run(int argc, char** argv) {
  CLI::App app(
      "Measures what the memory of a GPU leaves to a codec, against cudaMemcpyAsync from device to "
      "device on the same bytes in the same run.");
  Options options;
  addFlags(app, options);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : kUsage;
  }
  Report report;
  report.arguments.assign(argv, argv + argc);
  report.startedAt = tools::perf::utcNow();
  try {
    measure(options, report);
    if (!options.jsonPath.empty()) writeJson(options.jsonPath, report);
  } catch (const Error& error) {
    const bool isUsage = error.code() == ErrorCode::kInvalidArgument;
    std::cerr << "gpu_codec_bench: " << (isUsage ? error.message() : error.what()) << '\n';
    return isUsage ? kUsage : kFailure;
  } catch (const std::exception& error) {
    std::cerr << "gpu_codec_bench: " << error.what() << '\n';
    return kFailure;
  }
  return 0;
}

}  // namespace
}  // namespace zipccl::bench

int main(int argc, char** argv) { return zipccl::bench::run(argc, argv); }
