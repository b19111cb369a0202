// SPDX-License-Identifier: Apache-2.0
//
// Puts data into the page, whose parts stand in the folder page.

#include "inspect/page.hpp"

#include <zipccl/version.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <numeric>
#include <string_view>

#include "inspect/page_parts.inc"  // kPageHtml, kPageCss, kPageJs

namespace zipccl::tools::inspect {
namespace {

using Json = nlohmann::ordered_json;

/// Six digits: more than a picture shows.
double rounded(double share) { return static_cast<double>(std::llround(share * 1e6)) * 1e-6; }

Json toJson(const Picture& picture) {
  Json expected = Json::array();
  for (const double share : picture.expected) expected.push_back(rounded(share));
  Json json = {{"first", picture.firstExponent},
               {"isRelative", picture.isRelative},
               {"counts", picture.counts},
               {"coded", picture.coded},
               {"escaped", picture.escaped},
               {"expected", std::move(expected)},
               {"zeroField", picture.zeroField},
               {"expectedZero", rounded(picture.expectedZeroField)},
               {"codedZero", picture.codedZeroField},
               {"escapedZero", picture.escapedZeroField},
               {"window", Json()},
               {"windowShare", rounded(picture.windowShare)}};
  if (picture.window) json["window"] = {picture.window->first, picture.window->second};
  return json;
}

/// What tensors, datatypes and totals have alike.
void addFigures(Json& json, const Sizes& sizes, std::uint64_t zstdBytes) {
  const bool isEncoded = sizes.elementCount != 0;
  json["encoded"] = isEncoded;
  json["zstd"] = zstdBytes == 0 ? Json() : Json(zstdBytes);
  if (!isEncoded) return;
  json["bits"] = sizes.bitsPerValue();
  json["ratio"] = sizes.ratio();
  json["limit"] = sizes.limitPerValue();
  const std::optional<double> inside = sizes.insideShare();
  json["inside"] = inside ? Json(*inside) : Json();
  json["tiles"] = sizes.tiles;
  json["raw"] = sizes.rawTiles;
  json["empty"] = sizes.emptyTiles;
  json["zero"] = sizes.zeroCodeTiles;
}

Json toJson(const std::optional<Picture>& picture) { return picture ? toJson(*picture) : Json(); }

Json toJson(const TensorSummary& tensor) {
  Json json = {{"name", tensor.name},
               {"dtype", tensor.dtype},
               {"elements", tensor.elementCount.value_or(0)},
               {"bytes", tensor.bytes},
               {"sigma", tensor.sigma}};
  addFigures(json, tensor.sizes, tensor.zstdBytes);
  return json;
}

Json toJson(const DtypeTotal& total) {
  Json json = {{"dtype", total.dtype},
               {"tensors", total.tensors},
               {"elements", total.elementCount},
               {"bytes", total.bytes},
               {"wireBytes", total.wireBytes()}};
  addFigures(json, total.sizes, total.zstdBytes);
  return json;
}

/// As it may stand in an element of a page: a name may hold </script>, or what opens a comment.
std::string embedded(const Json& json) {
  const std::string text = json.dump(-1, ' ', true, Json::error_handler_t::replace);
  std::string safe;
  safe.reserve(text.size());
  for (const char c : text) {
    if (c == '<') {
      safe += "\\u003c";
    } else {
      safe += c;
    }
  }
  return safe;
}

/// `text` with `part` in place of `mark`.
std::string placed(std::string_view text, std::string_view mark, std::string_view part) {
  const std::size_t at = text.find(mark);
  std::string whole(text.substr(0, at));
  whole += part;
  whole += text.substr(at + mark.size());
  return whole;
}

}  // namespace

PageBuilder::PageBuilder(const std::vector<InputTensor>& tensors) : isListed_(tensors.size()) {
  std::vector<std::size_t> places(tensors.size());
  std::iota(places.begin(), places.end(), std::size_t{0});
  std::stable_sort(places.begin(), places.end(), [&tensors](std::size_t a, std::size_t b) {
    return tensors[a].bytes.size() > tensors[b].bytes.size();
  });
  if (places.size() > kMostTensors) places.resize(kMostTensors);
  for (const std::size_t place : places) isListed_[place] = true;
}

void PageBuilder::add(std::size_t place, const TensorSummary& tensor,
                      const Statistics& statistics) {
  if (!tensor.hasFrame()) return;
  ofDatatypes_[tensor.dtype].add(statistics);
  if (!isListed_[place]) return;
  pictures_.emplace(
      place, Pictures{pictureOf(*tensor.datatype, statistics), relativePictureOf(statistics)});
}

std::string PageBuilder::text(const Report& report) const {
  Json json = {{"version", ZIPCCL_VERSION_STRING},
               {"startedAt", report.startedAt},
               {"files", report.paths},
               {"bytes", report.bytes()},
               {"wireBytes", report.wireBytes()},
               {"tensorCount", report.tensors.size()},
               {"leftOut", report.leftOut},
               {"leftOutOfPage", std::count(isListed_.begin(), isListed_.end(), false)},
               {"totals", Json::array()},
               {"groups", Json::array()},
               {"tensors", Json::array()}};
  for (const DtypeTotal& total : report.totals) {
    json["totals"].push_back(toJson(total));
    const auto statistics = ofDatatypes_.find(total.dtype);
    if (statistics == ofDatatypes_.end()) continue;
    json["groups"].push_back(toJson(total));
    json["groups"].back()["relative"] = toJson(relativePictureOf(statistics->second));
  }
  for (const std::size_t place : report.order) {
    if (!isListed_[place]) continue;
    Json& tensor = json["tensors"].emplace_back(toJson(report.tensors[place]));
    const auto pictures = pictures_.find(place);
    if (pictures == pictures_.end()) continue;
    tensor["absolute"] = toJson(pictures->second.absolute);
    tensor["relative"] = toJson(pictures->second.relative);
  }
  // The data last: in it a mark is a name of somebody's, no mark.
  std::string page = placed(kPageHtml, "/*STYLE*/", kPageCss);
  page = placed(page, "/*SCRIPT*/", kPageJs);
  return placed(page, "/*DATA*/", embedded(json));
}

}  // namespace zipccl::tools::inspect
