// SPDX-License-Identifier: Apache-2.0
//
// The values that are encoded, from the sources that the collectives are measured with.

#include "perf_codec/data_set.hpp"

#include <algorithm>
#include <memory>
#include <stdexcept>

#include "perf/data_source.hpp"
#include "perf/data_spec.hpp"
#include "perf/datatype.hpp"
#include "support/failure.hpp"
#include "support/file.hpp"
#include "support/text.hpp"

namespace zipccl::tools::perf_codec {
namespace {

/// More is not made: larger inputs repeat it.
constexpr std::uint64_t kMostBytes = std::uint64_t{64} << 20;
/// No power of two, so that what is generated and repeated does not come to stand at the same
/// places of tiles, groups and buffers.
constexpr std::uint64_t kOddElements = 12345;

/// What is made of `source` for inputs of up to `mostBytes` bytes.
std::uint64_t madeBytes(const perf::DataSource& source, std::uint64_t elementBytes,
                        std::uint64_t mostBytes) {
  const std::uint64_t wanted = std::min(mostBytes, kMostBytes);
  const std::uint64_t period = source.periodBytes();
  if (period == 0 || period > kMostBytes) {
    return (wanted / elementBytes + kOddElements) * elementBytes;
  }
  // Whole tensors, so that the repetition is no seam that they do not have: where their parameters
  // begin and end in tiles decides what they take.
  return std::max<std::uint64_t>(wanted / period, 1) * period;
}

bool areAllLowHalvesZero(std::span<const std::byte> elements) {
  for (std::size_t at = 0; at < elements.size(); at += 4) {
    if (elements[at] != std::byte{0} || elements[at + 1] != std::byte{0}) return false;
  }
  return true;
}

codec::Layout layoutFor(const DataSet& data, const DataWish& wish) {
  const bool isFloat = data.datatype == codec::Datatype::kFloat32;
  if (wish.layout == codec::Layout::kWide && !isFloat) {
    throw UsageError("--layout wide is for float, but " + inQuotes(data.name) + " is " +
                     perf::datatypeName(datatypeOf(data.datatype)));
  }
  if (wish.layout) return *wish.layout;
  return isFloat && !areAllLowHalvesZero(data.bytes) ? codec::Layout::kWide
                                                     : codec::Layout::kNarrow;
}

}  // namespace

const char* layoutName(codec::Layout layout) {
  return layout == codec::Layout::kWide ? "wide" : "narrow";
}

std::optional<codec::Datatype> codedDatatype(zipcclDataType_t datatype) {
  if (datatype == zipcclBfloat16) return codec::Datatype::kBfloat16;
  if (datatype == zipcclFloat16) return codec::Datatype::kFloat16;
  if (datatype == zipcclFloat32) return codec::Datatype::kFloat32;
  return std::nullopt;
}

zipcclDataType_t datatypeOf(codec::Datatype datatype) {
  switch (datatype) {
    case codec::Datatype::kBfloat16:
      return zipcclBfloat16;
    case codec::Datatype::kFloat16:
      return zipcclFloat16;
    case codec::Datatype::kFloat32:
      return zipcclFloat32;
  }
  throw std::logic_error("a datatype of the codec that is none of the C API");
}

DataSet makeDataSet(const std::string& text, const DataWish& wish) {
  const std::unique_ptr<perf::DataSource> source =
      perf::openDataSource(perf::parseDataSpec(text, isRegularFile), wish.datatype);
  const std::optional<codec::Datatype> datatype = codedDatatype(source->datatype());
  if (!datatype) {
    throw UsageError(inQuotes(text) + " is " + perf::datatypeName(source->datatype()) +
                     ", which the codec does not encode");
  }
  DataSet data;
  data.name = text;
  data.description = source->describe();
  data.usesSeed = source->usesSeed();
  data.datatype = *datatype;
  data.bytes.resize(madeBytes(*source, codec::elementBytes(*datatype), wish.mostBytes));
  source->fill(wish.seed, 0, 1, wish.threads, data.bytes);
  data.layout = layoutFor(data, wish);
  return data;
}

}  // namespace zipccl::tools::perf_codec
