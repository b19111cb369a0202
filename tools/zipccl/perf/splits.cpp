// SPDX-License-Identifier: Apache-2.0
//
// How an uneven all-to-all is cut.

#include "perf/splits.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <numeric>
#include <string_view>

#include "support/failure.hpp"
#include "support/text.hpp"
#include "tensors/safetensors.hpp"

namespace zipccl::tools::perf {
namespace {

constexpr double kMostExponent = 10.0;
/// Far above any model's number of experts.
constexpr std::uint64_t kMostExperts = 1U << 20;

double parseExponent(const std::string& text) {
  double exponent = 0.0;
  const char* const end = text.data() + text.size();
  const auto parsed = std::from_chars(text.data(), end, exponent);
  if (parsed.ec == std::errc() && parsed.ptr == end && exponent >= 0.0 &&
      exponent <= kMostExponent) {
    return exponent;
  }
  throw UsageError("--splits zipf:EXPONENT wants a number from 0 to 10, not " + inQuotes(text));
}

/// The integers of `bytes`, each of type Integer; none may be negative.
template <class Integer>
std::vector<std::uint64_t> countsOf(const std::vector<std::byte>& bytes, const std::string& what) {
  std::vector<std::uint64_t> counts(bytes.size() / sizeof(Integer));
  for (std::size_t i = 0; i < counts.size(); ++i) {
    Integer value{};
    std::memcpy(&value, bytes.data() + i * sizeof(value), sizeof(value));
    if (value < 0) throw UsageError(what + " holds a number below zero");
    counts[i] = static_cast<std::uint64_t>(value);
  }
  return counts;
}

std::vector<std::uint64_t> readTokens(const FileSpec& spec) {
  const SafetensorsFile file(spec.path);
  const std::string& name = *spec.tensor;
  const std::string what = "--splits: tensor " + inQuotes(name) + " of " + file.path();
  const std::vector<Tensor>& all = file.tensors();
  const auto tensor = std::find_if(all.begin(), all.end(),
                                   [&name](const Tensor& each) { return each.name == name; });
  if (tensor == all.end()) throw UsageError(what + " does not exist");
  if (tensor->bytes() > kMostExperts * sizeof(std::int64_t)) {
    throw UsageError(what + " is no list of experts: it is too large");
  }
  std::vector<std::byte> bytes(tensor->bytes());
  file.read(*tensor, 0, bytes);
  if (tensor->dtype == "I32") return countsOf<std::int32_t>(bytes, what);
  if (tensor->dtype == "I64") return countsOf<std::int64_t>(bytes, what);
  throw UsageError(what + " is " + printable(tensor->dtype) + ", neither I32 nor I64");
}

}  // namespace

SplitsSpec parseSplits(const std::string& text,
                       const std::function<bool(const std::string&)>& isFile) {
  constexpr std::string_view kZipf = "zipf:";
  constexpr std::string_view kFile = "file:";
  if (text.starts_with(kZipf)) return ZipfSplits{parseExponent(text.substr(kZipf.size()))};
  if (text.starts_with(kFile)) {
    FileSpec file = parseFileSpec("--splits", text.substr(kFile.size()), isFile);
    if (file.tensor) return file;
    throw UsageError("--splits file:X.safetensors:TENSOR wants the name of a tensor");
  }
  throw UsageError("--splits is " + inQuotes(text) +
                   ", neither zipf:EXPONENT nor file:X.safetensors:TENSOR");
}

std::vector<double> shares(const SplitsSpec& spec, int ranks) {
  if (const auto* file = std::get_if<FileSpec>(&spec)) {
    return sharesOfExperts(readTokens(*file), ranks);
  }
  std::vector<double> weights(static_cast<std::size_t>(ranks));
  for (std::size_t rank = 0; rank < weights.size(); ++rank) {
    weights[rank] = std::pow(static_cast<double>(rank + 1), -std::get<ZipfSplits>(spec).exponent);
  }
  const double sum = std::accumulate(weights.begin(), weights.end(), 0.0);
  for (double& weight : weights) weight /= sum;
  return weights;
}

std::vector<double> sharesOfExperts(const std::vector<std::uint64_t>& tokens, int ranks) {
  // In floating point, where nothing overflows.
  double all = 0.0;
  std::vector<double> ofRank(static_cast<std::size_t>(ranks));
  for (std::size_t expert = 0; expert < tokens.size(); ++expert) {
    const auto count = static_cast<double>(tokens[expert]);
    ofRank[expert * ofRank.size() / tokens.size()] += count;
    all += count;
  }
  if (all == 0.0) throw UsageError("--splits: the router sent no token to any expert");
  for (double& share : ofRank) share /= all;
  return ofRank;
}

std::vector<std::uint64_t> cut(const std::vector<double>& shares, std::uint64_t elements) {
  std::size_t last = 0;
  for (std::size_t i = 0; i < shares.size(); ++i) last = shares[i] > 0.0 ? i : last;
  std::vector<std::uint64_t> parts(shares.size());
  double upTo = 0.0;
  std::uint64_t given = 0;
  for (std::size_t i = 0; i <= last; ++i) {
    upTo += shares[i];
    // Ends are rounded rather than parts, so that what is lost does not add up.
    const std::uint64_t end =
        i == last ? elements
                  : std::min(elements, static_cast<std::uint64_t>(
                                           std::llround(upTo * static_cast<double>(elements))));
    parts[i] = end - given;
    given = end;
  }
  return parts;
}

}  // namespace zipccl::tools::perf
