// SPDX-License-Identifier: Apache-2.0
//
// How results are shown: a table for people, JSON with every sample.

#pragma once

#include <cstdint>
#include <iosfwd>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "perf_codec/gpu_machine.hpp"
#include "perf_codec/measurement.hpp"

namespace zipccl::tools::perf_codec {

struct CodecReport {
  GpuMachine machine;
  std::vector<std::string> arguments;  ///< of the program, its name first
  std::string startedAt;               ///< UTC, ISO 8601
  std::uint64_t seed = 0;
  MeasurementPlan plan;
  std::vector<CodecResult> codec;

  /// Whether every byte that was timed came back.
  [[nodiscard]] bool isRight() const noexcept;
};

void printHead(std::ostream& out, const CodecReport& report);
void printCodecHead(std::ostream& out);
void printRow(std::ostream& out, const CodecResult& result);

[[nodiscard]] nlohmann::ordered_json toJson(const CodecReport& report);

// Pieces of reports.

/// `text` after spaces that make it `width` characters.
[[nodiscard]] std::string padded(const std::string& text, std::size_t width);
/// `256 MiB`, or bytes where it is no whole number of these.
[[nodiscard]] std::string sizeText(std::uint64_t bytes);
/// `1.013 [0.978 1.034]`: the median, the least and the most.
[[nodiscard]] std::string spreadText(const std::vector<double>& samples);
/// 10^9 bytes a second.
[[nodiscard]] double gigabytesPerSecond(std::uint64_t bytes, double elapsedUs);
/// What is said of an operation on `inputBytes`; `speeds` are against the copy of the same round.
[[nodiscard]] nlohmann::ordered_json operationToJson(std::uint64_t inputBytes,
                                                     const std::vector<double>& timesUs,
                                                     const std::vector<double>& speeds);

}  // namespace zipccl::tools::perf_codec
