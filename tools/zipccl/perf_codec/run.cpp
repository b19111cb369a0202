// SPDX-License-Identifier: Apache-2.0
//
// A whole run of `zipccl perf codec`: data, devices, measurements, report.

#include "perf_codec/run.hpp"

#include <algorithm>
#include <memory>
#include <optional>
#include <ostream>

#include "perf/progress.hpp"
#include "perf/random_bits.hpp"
#include "perf/report.hpp"
#include "perf_codec/data_set.hpp"
#include "perf_codec/gpu_measurement.hpp"
#include "perf_codec/nvcomp.hpp"
#include "perf_codec/report.hpp"

namespace zipccl::tools::perf_codec {
namespace {

/// Which devices are measured; says in `info` why one is not.
std::vector<Device> chooseDevices(const Options& options, RunInfo& info) {
  std::vector<Device> devices;
  info.usesHost = options.device != DeviceChoice::kGpu;
  if (info.usesHost) devices.push_back(Device::kHost);
  if (options.device == DeviceChoice::kHost) return devices;
  GpuSearch search = findGpu();
  info.gpu = std::move(search.machine);
  if (info.gpu) {
    devices.push_back(Device::kGpu);
  } else if (options.device == DeviceChoice::kGpu) {
    throw Failure("--device gpu: there is none to measure: " + search.whyNot);
  } else {
    info.gpuNote = search.whyNot;
  }
  return devices;
}

/// nvCOMP, where it is measured; says in `info` why it is not.
std::unique_ptr<Nvcomp> chooseRival(const Options& options, RunInfo& info) {
  if (options.against == RivalChoice::kNone) return nullptr;
  const bool isWanted = options.against == RivalChoice::kNvcomp || !options.nvcompPath.empty();
  if (!info.gpu) {
    if (isWanted) throw Failure("nvCOMP runs on a GPU, and none is measured");
    return nullptr;
  }
  try {
    auto library = std::make_unique<Nvcomp>(options.nvcompPath);
    info.rivalVersion = library->version();
    return library;
  } catch (const Failure& failure) {
    if (isWanted) throw;
    info.rivalNote = failure.what();
    return nullptr;
  }
}

std::vector<DataSet> makeDataSets(const Options& options, const std::vector<Device>& devices,
                                  RunInfo& info) {
  DataWish wish;
  wish.datatype = options.datatype;
  wish.layout = options.layout;
  wish.seed = options.seed ? *options.seed : perf::freshSeed();
  wish.threads = std::max(info.machine.cores, 1);
  for (const Device device : devices) {
    wish.mostBytes = std::max(wish.mostBytes, inputSizes(options, device).back());
  }
  std::vector<DataSet> sets;
  for (const std::string& text : options.data) {
    sets.push_back(makeDataSet(text, wish));
    const DataSet& data = sets.back();
    info.data.push_back({data.name, data.description, data.datatype, data.layout});
    if (data.usesSeed) info.seed = wish.seed;
  }
  return sets;
}

}  // namespace

ExitStatus run(const Options& options, const std::vector<std::string>& arguments,
               const perf::Streams& streams) {
  RunReport report;
  RunInfo& info = report.info;
  info.arguments = arguments;
  info.options = options;
  info.startedAt = perf::utcNow();
  info.machine = perf::thisMachine();
  // All that can be wrong with the command line shows before the first second is spent.
  static_cast<void>(inputSizes(options, Device::kHost));
  std::optional<perf::ReportFile> file;
  if (!options.jsonPath.empty()) file.emplace(options.jsonPath);
  perf::Progress progress(streams.error, streams.isErrorTerminal);
  progress.show("making data");
  const std::vector<Device> devices = chooseDevices(options, info);
  const std::unique_ptr<Nvcomp> rival = chooseRival(options, info);
  const std::vector<DataSet> dataSets = makeDataSets(options, devices, info);
  progress.clear();
  streams.out << tableHead(info) << std::flush;

  const auto done = [&](CodecResult result) {
    progress.clear();
    streams.out << tableRow(info, result) << std::flush;
    report.results.push_back(std::move(result));
    progress.show("measuring");
  };
  for (const Device device : devices) {
    const std::vector<std::uint64_t> sizes = inputSizes(options, device);
    const MeasurementPlan plan = planFor(options, device);
    for (const DataSet& data : dataSets) {
      progress.show("measuring");
      if (device == Device::kGpu) {
        measureOnGpu(data, sizes, options.blockLimits, plan, rival.get(), done);
      } else {
        measureOnHost(data, sizes, plan, done);
      }
    }
  }
  progress.clear();
  streams.out << tableFoot(report) << std::flush;
  if (!streams.out) throw Failure("the table could not be written to stdout");
  if (file) file->commit(jsonText(report));
  return report.isRight() ? ExitStatus::kSuccess : ExitStatus::kWrongBits;
}

}  // namespace zipccl::tools::perf_codec
