// SPDX-License-Identifier: Apache-2.0
//
// The JSON file: everything that a figure needs to be believed and repeated, with every sample.

#include <unistd.h>
#include <zipccl/version.h>

#include <cerrno>
#include <cstdio>
#include <fstream>
#include <nlohmann/json.hpp>
#include <system_error>
#include <utility>
#include <vector>

#include "perf/datatype.hpp"
#include "perf/report.hpp"
#include "perf/spread_json.hpp"
#include "support/failure.hpp"

namespace zipccl::tools::perf {
namespace {

using Json = nlohmann::ordered_json;

/// Raised when a field changes its meaning or goes.
constexpr int kSchema = 1;

Json sideToJson(const RunInfo& info, const SizeResult& result, const std::vector<double>& timesUs) {
  const Spread spread = spreadOf(timesUs);
  return {{"timeUs", toJson(spread)},
          {"algbwGBs", algorithmBandwidth(result.sizeBytes, spread.median)},
          {"busbwGBs", busBandwidth(info, result.sizeBytes, spread.median)}};
}

Json toJson(const RunInfo& info, const SizeResult& result, const PlaceResult& place) {
  Json native = sideToJson(info, result, place.nativeTimesUs());
  Json zipccl = sideToJson(info, result, place.zipcclTimesUs());
  native["cores"] = toJson(spreadOf(place.nativeCores()));
  zipccl["cores"] = toJson(spreadOf(place.zipcclCores()));
  if (result.wasChecked) {
    native["wrongElements"] = place.nativeWrong;
    zipccl["wrongElements"] = place.zipcclWrong;
  }
  Json json = {{"native", std::move(native)},
               {"zipccl", std::move(zipccl)},
               {"speedup", toJson(spreadOf(place.speedups()))}};
  if (const std::vector<double> timesUs = place.plainMpiTimesUs(); !timesUs.empty()) {
    json["plainMpi"] = sideToJson(info, result, timesUs);
    json["plainMpi"]["speedup"] = toJson(spreadOf(place.plainMpiSpeedups()));
    if (result.wasChecked) json["plainMpi"]["wrongElements"] = place.plainMpiWrong;
  }
  Json& samples = json["samples"] = Json::array();
  for (const PairSample& sample : place.samples) {
    samples.push_back({{"nativeUs", sample.nativeUs},
                       {"zipcclUs", sample.zipcclUs},
                       {"nativeWireBytes", sample.nativeWireBytes},
                       {"zipcclWireBytes", sample.zipcclWireBytes},
                       {"nativeCpuUs", sample.nativeCpuUs},
                       {"zipcclCpuUs", sample.zipcclCpuUs},
                       {"strategy", sample.wasStaged ? "staged" : "native"},
                       {"nativeFirst", sample.wasNativeFirst}});
    if (sample.plainMpiUs) samples.back()["plainMpiUs"] = *sample.plainMpiUs;
  }
  return json;
}

Json toJson(const RunInfo& info, const SizeResult& result) {
  return {
      {"sizeBytes", result.sizeBytes},
      {"count", result.count},
      {"pairs", result.outOfPlace.samples.size()},
      {"checked", result.wasChecked},
      {"ratio", result.ratio() == 0.0 ? Json() : Json(result.ratio())},
      {"nativeWireBytes", result.nativeWireBytes()},
      {"zipcclWireBytes", result.zipcclWireBytes()},
      {"strategy", result.strategy()},
      {"reason", result.reason},
      {"errorAgainstFp64",
       isReduction(info.options.collective.name) && result.wasChecked
           ? Json({{"native", nativeError(result)},
                   {"zipccl", zipcclError(result)},
                   {"plainMpi", info.plainMpi.empty() ? Json() : Json(plainMpiError(result))}})
           : Json()},
      {"outOfPlace", toJson(info, result, result.outOfPlace)},
      {"inPlace", result.inPlace.samples.empty() ? Json() : toJson(info, result, result.inPlace)}};
}

Json toJson(const Machine& machine) {
  return {{"cpuModel", machine.cpuModel},
          {"cores", machine.cores},
          {"instructionSets", machine.instructionSets},
          {"system", machine.system},
          {"hostName", machine.hostName}};
}

Json toJson(const NcclInfo& nccl) {
  Json variables = Json::object();
  for (const auto& [name, value] : nccl.variables) variables[name] = value;
  return {{"version", nccl.version},
          {"file", nccl.file},
          {"device", nccl.device},
          {"processes", nccl.areProcesses},
          {"variables", std::move(variables)}};
}

std::string reasonOfErrno() { return std::generic_category().message(errno); }

}  // namespace

std::string jsonText(const RunReport& report) {
  const RunInfo& info = report.info;
  const Options& options = info.options;
  Json json = {
      {"schema", kSchema},
      {"tool", "zipccl perf"},
      {"collective", typedName(options.collective.name)},
      {"operation", isReduction(options.collective.name)
                        ? Json(operationName(options.collective.operation))
                        : Json()},
      {"root", hasRoot(options.collective.name) ? Json(options.collective.root) : Json()},
      {"splits", options.collective.splits.empty() ? Json() : Json(options.collective.splits)},
      {"argv", info.arguments},
      {"startedAt", info.startedAt},
      {"version", ZIPCCL_VERSION_STRING},
      {"libraryVersion", info.libraryVersion},
      {"machine", toJson(info.machine)},
      {"transport",
       {{"name", transportName(options.transport)},
        {"label", transportLabel(info)},
        {"emulatedLinkBytesPerSecond",
         options.linkBytesPerSecond == 0 ? Json() : Json(options.linkBytesPerSecond)},
        {"hosts", info.hosts},
        {"plainMpi", info.plainMpi.empty() ? Json() : Json(info.plainMpi)},
        {"nccl", info.nccl ? toJson(*info.nccl) : Json()}}},
      {"ranks", info.ranks},
      {"strategy", zipcclGetStrategyName(options.strategy)},
      {"datatype", datatypeName(info.datatype)},
      {"data",
       {{"source", options.data},
        {"description", info.dataDescription},
        {"seed", info.seed ? Json(*info.seed) : Json()}}},
      {"warmups", warmupsOf(options)},
      {"checks", options.checks},
      {"definitions",
       {{"timeUs", "of one call, on the rank that took longest"},
        {"wireBytes", "sent to other ranks by a rank in one call, mean over the ranks"},
        {"cpuUs", "processor time of all ranks' threads in one call"},
        {"cores", "cpuUs over timeUs: how many cores worked for the ranks"},
        {"ratio", "nativeWireBytes / zipcclWireBytes"},
        {"speedup", "nativeUs / zipcclUs of each pair of calls"},
        {"plainMpi", "MPI's own collective; its speedup: plainMpiUs / zipcclUs"},
        {"errorAgainstFp64", "root mean square error over root mean square of the sums"}}},
      {"wrongElements", report.wrongElements()},
      {"results", Json::array()}};
  for (const SizeResult& result : report.results) json["results"].push_back(toJson(info, result));
  // Arguments may hold bytes that are no UTF-8.
  return json.dump(1, ' ', true, Json::error_handler_t::replace) + "\n";
}

ReportFile::ReportFile(std::string path, const char* flag)
    : path_(std::move(path)),
      flag_(flag),
      partPath_(path_ + ".part-" + std::to_string(::getpid())) {
  if (!std::ofstream(partPath_)) {
    throw Failure(std::string(flag_) + ": cannot write " + partPath_ + ": " + reasonOfErrno());
  }
}

ReportFile::~ReportFile() {
  if (!isCommitted_) std::remove(partPath_.c_str());
}

void ReportFile::commit(const std::string& text) {
  std::ofstream file(partPath_);
  file << text;
  file.close();
  if (!file || std::rename(partPath_.c_str(), path_.c_str()) != 0) {
    throw Failure(std::string(flag_) + ": cannot write " + path_ + ": " + reasonOfErrno());
  }
  isCommitted_ = true;
}

}  // namespace zipccl::tools::perf
