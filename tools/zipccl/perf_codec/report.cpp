// SPDX-License-Identifier: Apache-2.0
//
// The JSON file: everything that a figure needs to be believed and repeated, with every sample.

#include "perf_codec/report.hpp"

#include <zipccl/version.h>

#include <algorithm>
#include <utility>

#include "perf/datatype.hpp"
#include "perf/spread_json.hpp"
#include "perf/statistics.hpp"

namespace zipccl::tools::perf_codec {
namespace {

using Json = nlohmann::ordered_json;
using perf::Spread;
using perf::spreadOf;

/// Raised when a field changes its meaning or goes.
constexpr int kSchema = 1;

Json rivalToJson(const CodecResult& result) {
  const RivalResult& rival = *result.rival;
  const std::vector<double> memcpyUs = result.times(&CodecRound::memcpyUs);
  const auto operation = [&](double RivalRound::*member) {
    const std::vector<double> timesUs = rival.times(member);
    return operationToJson(result.inputBytes, timesUs, perf::pairRatios(memcpyUs, timesUs));
  };
  Json json = {
      {"name", "nvCOMP ANS"},
      {"settings", rival.settings},
      {"callsTimed", rival.callsTimed},
      {"bitsPerValue", result.rivalBitsPerValue()},
      {"failedChunks", rival.failedChunks},
      {"encode", operation(&RivalRound::encodeUs)},
      {"decode", operation(&RivalRound::decodeUs)},
      {"encodeSpeedup",
       toJson(spreadOf(result.speedsToRival(&CodecRound::encodeUs, &RivalRound::encodeUs)))},
      {"decodeSpeedup",
       toJson(spreadOf(result.speedsToRival(&CodecRound::decodeUs, &RivalRound::decodeUs)))}};
  if (result.wasChecked) json["wrongElements"] = rival.wrongElements;
  json["trials"] = Json::array();
  for (const RivalTrial& trial : rival.trials) {
    json["trials"].push_back({{"settings", trial.settings}, {"bothUs", trial.bothUs}});
  }
  return json;
}

Json toJson(const CodecResult& result) {
  const auto operation = [&](double CodecRound::*member) {
    return operationToJson(result.inputBytes, result.times(member), result.speeds(member));
  };
  Json json = {{"device", deviceName(result.device)},
               {"data", result.data},
               {"datatype", perf::datatypeName(datatypeOf(result.datatype))},
               {"layout", layoutName(result.layout)},
               {"inputBytes", result.inputBytes},
               {"elementCount", result.elementCount},
               {"maxBlocks", result.maxBlocks},
               {"method", result.usesGraphs ? "graph" : "launch"},
               {"sets", result.sets},
               {"callsTimed", result.callsTimed},
               {"rounds", result.rounds.size()},
               {"poolBytes", result.spec.poolBytes},
               {"bitsPerValue", result.bitsPerValue()},
               {"steadyBitsPerValue", result.steadyBitsPerValue()},
               {"checked", result.wasChecked},
               {"statusWord", result.statusWord},
               {"memcpy", operation(&CodecRound::memcpyUs)},
               {"encode", operation(&CodecRound::encodeUs)},
               {"decode", operation(&CodecRound::decodeUs)},
               {"encodeAndDecode", operation(&CodecRound::bothUs)}};
  if (result.wasChecked) json["wrongElements"] = result.wrongElements;
  if (result.rival) json["rival"] = rivalToJson(result);
  return json;
}

Json toJson(const perf::Machine& machine) {
  return {{"cpuModel", machine.cpuModel},
          {"cores", machine.cores},
          {"instructionSets", machine.instructionSets},
          {"system", machine.system},
          {"hostName", machine.hostName}};
}

Json toJson(const DataNote& data) {
  return {{"source", data.name},
          {"description", data.description},
          {"datatype", perf::datatypeName(datatypeOf(data.datatype))},
          {"layout", layoutName(data.layout)}};
}

}  // namespace

std::uint64_t RunReport::wrongElements() const noexcept {
  std::uint64_t wrong = 0;
  for (const CodecResult& result : results) {
    wrong += result.wrongElements + (result.rival ? result.rival->wrongElements : 0);
  }
  return wrong;
}

bool RunReport::isRight() const noexcept {
  return std::all_of(results.begin(), results.end(),
                     [](const CodecResult& result) { return result.isRight(); });
}

double gigabytesPerSecond(std::uint64_t bytes, double elapsedUs) noexcept {
  return elapsedUs == 0.0 ? 0.0 : static_cast<double>(bytes) / elapsedUs * 1e-3;
}

Json operationToJson(std::uint64_t inputBytes, const std::vector<double>& timesUs,
                     const std::vector<double>& speeds) {
  const Spread times = spreadOf(timesUs);
  return {{"timeUs", toJson(times)},
          {"inputGBs", gigabytesPerSecond(inputBytes, times.median)},
          {"speedToMemcpy", toJson(spreadOf(speeds))},
          {"samplesUs", timesUs}};
}

Json toJson(const GpuMachine& machine) {
  return {{"name", machine.name},
          {"computeCapability", machine.computeCapability},
          {"multiprocessors", machine.multiprocessors},
          {"memoryBytes", machine.memoryBytes},
          {"cacheBytes", machine.cacheBytes},
          {"driver", machine.driver},
          {"cudaDriver", machine.cudaDriver},
          {"cudaRuntime", machine.cudaRuntime}};
}

std::string jsonText(const RunReport& report) {
  const RunInfo& info = report.info;
  Json json = {
      {"schema", kSchema},
      {"tool", "zipccl perf codec"},
      {"argv", info.arguments},
      {"startedAt", info.startedAt},
      {"version", ZIPCCL_VERSION_STRING},
      {"machine", toJson(info.machine)},
      {"gpu", info.gpu ? toJson(*info.gpu) : Json()},
      {"nvcompVersion", info.rivalVersion.empty() ? Json() : Json(info.rivalVersion)},
      {"seed", info.seed ? Json(*info.seed) : Json()},
      {"data", Json::array()},
      {"warmupRounds", info.options.warmups},
      {"definitions",
       {{"timeUs", "of one call: callsTimed calls, one directly after the other, divided"},
        {"inputGBs", "10^9 bytes of uncompressed values a second, at the median time"},
        {"speedToMemcpy",
         "time of a copy of inputBytes (cudaMemcpyAsync, device to device; memcpy on the host, in "
         "one thread as the codec) over the operation's time, of each round"},
        {"bitsPerValue", "of the whole frame with the default pool, mean over the sets"},
        {"steadyBitsPerValue", "of the whole frame with a pool for what it turned out to need"},
        {"rival",
         "another codec on the same input in the same rounds; encodeSpeedup and "
         "decodeSpeedup are its time over ours; trials are the settings of which the fastest were "
         "taken"}}},
      {"isRight", report.isRight()},
      {"wrongElements", report.wrongElements()},
      {"results", Json::array()}};
  for (const DataNote& data : info.data) json["data"].push_back(toJson(data));
  for (const CodecResult& result : report.results) json["results"].push_back(toJson(result));
  // Arguments may hold bytes that are no UTF-8.
  return json.dump(1, ' ', true, Json::error_handler_t::replace) + "\n";
}

}  // namespace zipccl::tools::perf_codec
