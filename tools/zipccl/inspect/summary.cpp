// SPDX-License-Identifier: Apache-2.0
//
// Adds up, divides and sorts.

#include "inspect/summary.hpp"

#include <algorithm>
#include <map>
#include <numeric>
#include <utility>

namespace zipccl::tools::inspect {
namespace {

// docs/format.md section 1.
constexpr std::uint64_t kLowPlaneBytes = 2048;

double quotient(std::uint64_t over, std::uint64_t under) noexcept {
  return under == 0 ? 0.0 : static_cast<double>(over) / static_cast<double>(under);
}

/// fp32 has two layouts; what suits the tensor is taken, as calls come to do.
codec::Layout smallerLayout(codec::Datatype datatype, std::uint64_t elementCount,
                            const codec::EncodeResult& encoded) {
  if (datatype != codec::Datatype::kFloat32) return codec::Layout::kNarrow;
  const auto bytesOf = [&](codec::Layout layout) {
    return wholeFrameBytes(datatype, layout, elementCount, encoded, false);
  };
  return bytesOf(codec::Layout::kWide) < bytesOf(codec::Layout::kNarrow) ? codec::Layout::kWide
                                                                         : codec::Layout::kNarrow;
}

Sizes sizesOf(codec::Datatype datatype, codec::Layout layout, const Statistics& statistics) {
  const codec::EncodeResult& encoded = statistics.encoded;
  Sizes sizes;
  sizes.elementCount = statistics.elementCount;
  sizes.valueBytes = statistics.elementCount * codec::elementBytes(datatype);
  sizes.frameBytes = wholeFrameBytes(datatype, layout, sizes.elementCount, encoded, false);
  sizes.firstFrameBytes = wholeFrameBytes(datatype, layout, sizes.elementCount, encoded, true);
  sizes.tiles = encoded.tiles;
  sizes.rawTiles = encoded.rawTiles;
  sizes.emptyTiles = encoded.emptyTiles;
  sizes.zeroCodeTiles = encoded.zeroCodeTiles;
  sizes.lowTiles = encoded.lowTiles;
  sizes.escapes = encoded.escapes;
  sizes.limitBits =
      entropyLimit(datatype, statistics) * static_cast<double>(statistics.elementCount);
  return sizes;
}

/// What a tensor is sorted by; nothing where it has no such value.
std::optional<double> valueOf(const TensorSummary& tensor, SortKey key) {
  const auto ofFrame = [&tensor](double value) {
    return tensor.hasFrame() ? std::optional(value) : std::nullopt;
  };
  switch (key) {
    case SortKey::kElements:
      if (!tensor.elementCount) return std::nullopt;
      return static_cast<double>(*tensor.elementCount);
    case SortKey::kBytes:
      return static_cast<double>(tensor.bytes);
    case SortKey::kSigma:
      return ofFrame(tensor.sigma);
    case SortKey::kInside:
      return tensor.sizes.insideShare();
    case SortKey::kBits:
      return ofFrame(tensor.sizes.bitsPerValue());
    case SortKey::kRatio:
      return ofFrame(tensor.sizes.ratio());
    case SortKey::kLimit:
      return ofFrame(tensor.sizes.limitPerValue());
    case SortKey::kZstd:
      if (tensor.zstdBytes == 0) return std::nullopt;
      return quotient(tensor.bytes, tensor.zstdBytes);
    case SortKey::kFile:
    case SortKey::kName:
      break;
  }
  return std::nullopt;
}

}  // namespace

void Sizes::add(const Sizes& other) noexcept {
  elementCount += other.elementCount;
  valueBytes += other.valueBytes;
  frameBytes += other.frameBytes;
  firstFrameBytes += other.firstFrameBytes;
  tiles += other.tiles;
  rawTiles += other.rawTiles;
  emptyTiles += other.emptyTiles;
  zeroCodeTiles += other.zeroCodeTiles;
  lowTiles += other.lowTiles;
  escapes += other.escapes;
  limitBits += other.limitBits;
}

double Sizes::bitsPerValue() const noexcept { return 8.0 * quotient(frameBytes, elementCount); }

double Sizes::firstCallBitsPerValue() const noexcept {
  return 8.0 * quotient(firstFrameBytes, elementCount);
}

double Sizes::ratio() const noexcept { return quotient(valueBytes, frameBytes); }

double Sizes::limitPerValue() const noexcept {
  return elementCount == 0 ? 0.0 : limitBits / static_cast<double>(elementCount);
}

std::optional<double> Sizes::insideShare() const noexcept {
  const std::uint64_t coded = kTileElements * (tiles - rawTiles - emptyTiles);
  if (coded == 0) return std::nullopt;
  return 1.0 - quotient(escapes, coded);
}

double entropyLimit(codec::Datatype datatype, const Statistics& statistics) noexcept {
  const ElementFormat format = elementFormat(datatype);
  double otherBits = format.elementBits - format.exponentBits;
  if (datatype == codec::Datatype::kFloat32) {
    otherBits -= 16.0 * (1.0 - quotient(statistics.lowElements, statistics.elementCount));
  }
  return otherBits + entropyBits(statistics.exponents);
}

std::uint64_t wholeFrameBytes(codec::Datatype datatype, codec::Layout layout,
                              std::uint64_t elementCount, const codec::EncodeResult& encoded,
                              bool isFirstCall) {
  std::uint64_t extraBytes = encoded.extraBytes;
  // The wide layout has low halves in its records.
  if (layout == codec::Layout::kWide) extraBytes -= encoded.lowTiles * kLowPlaneBytes;
  codec::FrameSpec spec = {.datatype = datatype, .layout = layout, .elementCount = elementCount};
  spec.poolBytes = isFirstCall ? codec::defaultPoolBytes(datatype, layout, elementCount)
                               : codec::steadyPoolBytes(datatype, layout, elementCount, extraBytes);
  return codec::staticBytes(spec) + extraBytes - std::min(extraBytes, spec.poolBytes);
}

TensorSummary summarize(const InputTensor& tensor, const Statistics& statistics) {
  TensorSummary summary;
  summary.name = tensor.name;
  summary.file = tensor.file;
  summary.dtype = tensor.dtype;
  summary.shape = tensor.shape;
  summary.elementCount = tensor.elementCount;
  summary.bytes = tensor.bytes.size();
  summary.datatype = tensor.datatype;
  if (summary.datatype && statistics.elementCount != 0) {
    summary.layout = smallerLayout(*summary.datatype, statistics.elementCount, statistics.encoded);
    summary.sizes = sizesOf(*summary.datatype, summary.layout, statistics);
  }
  summary.zstdBytes = statistics.zstdBytes;
  summary.mean = statistics.moments.mean;
  summary.sigma = statistics.moments.sigma();
  summary.meanMagnitude = statistics.moments.meanMagnitude();
  summary.zeros = statistics.zeros;
  summary.nonFinite = statistics.nonFinite;
  return summary;
}

std::vector<DtypeTotal> totalsOf(const std::vector<TensorSummary>& tensors) {
  std::map<std::string, DtypeTotal> byDtype;
  for (const TensorSummary& tensor : tensors) {
    DtypeTotal& total = byDtype[tensor.dtype];
    total.dtype = tensor.dtype;
    total.datatype = tensor.datatype;
    ++total.tensors;
    total.elementCount += tensor.elementCount.value_or(0);
    total.bytes += tensor.bytes;
    total.zstdBytes += tensor.zstdBytes;
    total.sizes.add(tensor.sizes);
  }
  std::vector<DtypeTotal> totals;
  totals.reserve(byDtype.size());
  for (auto& [dtype, total] : byDtype) totals.push_back(std::move(total));
  std::stable_sort(totals.begin(), totals.end(),
                   [](const DtypeTotal& a, const DtypeTotal& b) { return a.bytes > b.bytes; });
  return totals;
}

std::vector<std::size_t> sortedPlaces(const std::vector<TensorSummary>& tensors, SortKey key,
                                      bool isReversed) {
  std::vector<std::size_t> places(tensors.size());
  std::iota(places.begin(), places.end(), std::size_t{0});
  const auto comesFirst = [&](std::size_t a, std::size_t b) {
    if (key == SortKey::kName) return tensors[a].name < tensors[b].name;
    const std::optional<double> first = valueOf(tensors[a], key);
    const std::optional<double> second = valueOf(tensors[b], key);
    if (!first || !second) return first.has_value() && !second.has_value();
    return isReversed ? *first < *second : *first > *second;
  };
  if (key != SortKey::kFile) std::stable_sort(places.begin(), places.end(), comesFirst);
  const bool isByPlace = key == SortKey::kFile || key == SortKey::kName;
  if (isReversed && isByPlace) std::reverse(places.begin(), places.end());
  return places;
}

}  // namespace zipccl::tools::inspect
