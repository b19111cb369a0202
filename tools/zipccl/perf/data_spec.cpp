// SPDX-License-Identifier: Apache-2.0
//
// Reads the argument of `--data`.

#include "perf/data_spec.hpp"

#include <charconv>
#include <cmath>
#include <optional>
#include <string_view>

#include "support/failure.hpp"
#include "support/text.hpp"

namespace zipccl::tools::perf {
namespace {

/// The number that `text` is; nothing when it is none.
template <class Number>
std::optional<Number> numberOf(std::string_view text) {
  Number number{};
  const char* const end = text.data() + text.size();
  const auto parsed = std::from_chars(text.data(), end, number);
  if (parsed.ec != std::errc() || parsed.ptr != end) return std::nullopt;
  return number;
}

double parseSigma(const std::string& kind, const std::string& text) {
  const std::optional<double> sigma = numberOf<double>(text);
  if (sigma && std::isfinite(*sigma) && *sigma > 0.0) return *sigma;
  throw UsageError("--data " + kind + ":SIGMA wants a positive number, not " + inQuotes(text));
}

double parseShare(const std::string& text) {
  const std::optional<double> share = numberOf<double>(text);
  if (share && *share >= 0.0 && *share <= 1.0) return *share;
  throw UsageError("--data zeros:P wants a number from 0 to 1, not " + inQuotes(text));
}

int parseOctaves(const std::string& text) {
  constexpr int kMostOctaves = 100;
  const std::optional<int> octaves = numberOf<int>(text);
  if (octaves && *octaves >= 1 && *octaves <= kMostOctaves) return *octaves;
  throw UsageError("--data uniform-exponent:N wants a whole number from 1 to " +
                   std::to_string(kMostOctaves) + ", not " + inQuotes(text));
}

}  // namespace

FileSpec parseFileSpec(const char* flag, const std::string& text,
                       const std::function<bool(const std::string&)>& isFile) {
  for (std::size_t end = text.find(':'); end != std::string::npos; end = text.find(':', end + 1)) {
    const std::string path = text.substr(0, end);
    if (isFile(path)) return {path, text.substr(end + 1)};
  }
  if (isFile(text)) return {text, std::nullopt};
  throw UsageError(std::string(flag) + " file: there is no file " + inQuotes(text));
}

DataSpec parseDataSpec(const std::string& text,
                       const std::function<bool(const std::string&)>& isFile) {
  const std::size_t colon = text.find(':');
  const bool isBare = colon == std::string::npos;
  const std::string kind = text.substr(0, colon);
  const std::string rest = isBare ? std::string() : text.substr(colon + 1);
  if (kind == "normal") return GaussianSpec{parseSigma(kind, rest)};
  if (kind == "widened") return isBare ? WidenedSpec{} : WidenedSpec{parseSigma(kind, rest)};
  if (kind == "zeros") return ZerosSpec{.share = parseShare(rest)};
  if (text == "random-bits") return RandomBitsSpec{};
  if (kind == "uniform-exponent") {
    return isBare ? UniformExponentSpec{} : UniformExponentSpec{parseOctaves(rest)};
  }
  if (kind == "file") return parseFileSpec("--data", rest, isFile);
  throw UsageError("--data is " + inQuotes(text) +
                   ", none of normal:SIGMA, widened[:SIGMA], zeros:P, random-bits, "
                   "uniform-exponent[:N], file:X.safetensors, file:X.safetensors:TENSOR");
}

}  // namespace zipccl::tools::perf
