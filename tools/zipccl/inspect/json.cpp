// SPDX-License-Identifier: Apache-2.0
//
// The JSON: what the table says, unrounded, and what it has no room for.

#include <zipccl/version.h>

#include <nlohmann/json.hpp>

#include "inspect/report.hpp"
#include "inspect/zstd.hpp"
#include "perf_codec/data_set.hpp"

namespace zipccl::tools::inspect {
namespace {

using Json = nlohmann::ordered_json;

/// Raised when a field changes its meaning or goes.
constexpr int kSchema = 1;

Json shareOrNull(std::optional<double> share) { return share ? Json(*share) : Json(); }

void addSizes(Json& json, const Sizes& sizes) {
  json["frameBytes"] = sizes.frameBytes;
  json["bitsPerValue"] = sizes.bitsPerValue();
  json["firstCallBitsPerValue"] = sizes.firstCallBitsPerValue();
  json["ratio"] = sizes.ratio();
  json["entropyLimitBits"] = sizes.limitPerValue();
  json["insideShare"] = shareOrNull(sizes.insideShare());
  json["escapes"] = sizes.escapes;
  json["tiles"] = sizes.tiles;
  json["rawTiles"] = sizes.rawTiles;
  json["emptyTiles"] = sizes.emptyTiles;
  json["zeroCodeTiles"] = sizes.zeroCodeTiles;
  json["lowTiles"] = sizes.lowTiles;
}

Json zstdJson(const Report& report, std::uint64_t zstdBytes) {
  return report.options.usesZstd && !Zstd::version().empty() ? Json(zstdBytes) : Json();
}

Json toJson(const Report& report, const TensorSummary& tensor) {
  Json json = {{"name", tensor.name},
               {"file", report.paths.at(tensor.file)},
               {"dtype", tensor.dtype},
               {"shape", tensor.shape},
               {"elements", tensor.elementCount ? Json(*tensor.elementCount) : Json()},
               {"bytes", tensor.bytes},
               {"encoded", tensor.hasFrame()}};
  if (tensor.hasFrame()) {
    json["layout"] = perf_codec::layoutName(tensor.layout);
    json["mean"] = tensor.mean;
    json["sigma"] = tensor.sigma;
    json["meanMagnitude"] = tensor.meanMagnitude;
    json["zeros"] = tensor.zeros;
    json["nonFinite"] = tensor.nonFinite;
    addSizes(json, tensor.sizes);
  }
  json["zstdBytes"] = zstdJson(report, tensor.zstdBytes);
  return json;
}

Json toJson(const Report& report, const DtypeTotal& total) {
  Json json = {{"dtype", total.dtype},           {"tensors", total.tensors},
               {"elements", total.elementCount}, {"bytes", total.bytes},
               {"wireBytes", total.wireBytes()}, {"encoded", total.sizes.elementCount != 0}};
  if (total.sizes.elementCount != 0) addSizes(json, total.sizes);
  json["zstdBytes"] = zstdJson(report, total.zstdBytes);
  return json;
}

/// Names and paths may hold bytes that are no UTF-8.
std::string dumped(const Json& json, int indent) {
  return json.dump(indent, ' ', true, Json::error_handler_t::replace);
}

}  // namespace

std::string jsonText(const Report& report) {
  Json json = {
      {"schema", kSchema},
      {"tool", "zipccl inspect"},
      {"argv", report.arguments},
      {"startedAt", report.startedAt},
      {"version", ZIPCCL_VERSION_STRING},
      {"files", report.paths},
      {"zstdVersion",
       report.options.usesZstd && !Zstd::version().empty() ? Json(Zstd::version()) : Json()},
      {"definitions",
       {{"sigma", "standard deviation of the finite values"},
        {"meanMagnitude", "mean absolute value of the finite values"},
        {"frameBytes", "of one frame of the tensor, with the pool of the steady state"},
        {"bitsPerValue", "8 frameBytes / elements; firstCall: with the default pool"},
        {"ratio", "bytes / frameBytes"},
        {"insideShare",
         "of the values in tiles that are neither raw nor empty, those that a code names"},
        {"entropyLimitBits",
         "entropy of the tensor's exponent fields plus the other bits; low halves of fp32 in tiles "
         "that have any which is not zero"},
        {"wireBytes", "frameBytes, and what is not encoded as it is"},
        {"zstdBytes", "by zstd at level 1, each MiB of a tensor by itself"}}},
      {"leftOutByMatch", report.leftOut},
      {"bytes", report.bytes()},
      {"wireBytes", report.wireBytes()},
      {"totals", Json::array()}};
  for (const DtypeTotal& total : report.totals) json["totals"].push_back(toJson(report, total));
  // Tensors one by one: as one tree a quarter of a million of them would take half a gigabyte.
  std::string text = dumped(json, 1);
  text.erase(text.rfind("\n}"));
  text += ",\n \"tensors\": [";
  const char* separator = "\n  ";
  for (const std::size_t place : report.order) {
    text += separator + dumped(toJson(report, report.tensors[place]), -1);
    separator = ",\n  ";
  }
  return text + "\n ]\n}\n";
}

}  // namespace zipccl::tools::inspect
