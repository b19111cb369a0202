// SPDX-License-Identifier: Apache-2.0
//
// Reads the argument of `--data`.

#include "perf/data_spec.hpp"

#include <charconv>
#include <cmath>
#include <string_view>

#include "support/failure.hpp"
#include "support/text.hpp"

namespace zipccl::tools::perf {
namespace {

GaussianSpec parseGaussian(std::string_view text) {
  GaussianSpec spec;
  const char* const end = text.data() + text.size();
  const auto parsed = std::from_chars(text.data(), end, spec.sigma);
  if (parsed.ec != std::errc() || parsed.ptr != end || !std::isfinite(spec.sigma) ||
      spec.sigma <= 0.0) {
    throw UsageError("--data normal:SIGMA wants a positive number, not " + inQuotes(text));
  }
  return spec;
}

FileSpec parseFile(const std::string& text, const std::function<bool(const std::string&)>& isFile) {
  for (std::size_t end = text.find(':'); end != std::string::npos; end = text.find(':', end + 1)) {
    const std::string path = text.substr(0, end);
    if (isFile(path)) return {path, text.substr(end + 1)};
  }
  if (isFile(text)) return {text, std::nullopt};
  throw UsageError("--data file: there is no file " + inQuotes(text));
}

}  // namespace

DataSpec parseDataSpec(const std::string& text,
                       const std::function<bool(const std::string&)>& isFile) {
  const std::size_t colon = text.find(':');
  const std::string kind = text.substr(0, colon);
  const std::string rest = colon == std::string::npos ? std::string() : text.substr(colon + 1);
  if (kind == "normal") return parseGaussian(rest);
  if (kind == "file") return parseFile(rest, isFile);
  throw UsageError("--data is " + inQuotes(text) +
                   ", none of normal:SIGMA, file:X.safetensors, file:X.safetensors:TENSOR");
}

}  // namespace zipccl::tools::perf
