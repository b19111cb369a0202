// SPDX-License-Identifier: Apache-2.0
//
// How results are shown: a table for people, JSON with every sample.

#pragma once

#include <cstdint>
#include <iosfwd>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "bench/codec_measurement.hpp"
#include "bench/gpu_machine.hpp"

namespace zipccl::bench {

struct CodecReport {
  GpuMachine machine;
  std::vector<std::string> arguments;  ///< of the program, its name first
  std::string startedAt;               ///< UTC, ISO 8601
  std::uint64_t seed = 0;
  MeasurementPlan plan;
  std::vector<TrafficResult> traffic;
  std::vector<CodecResult> codec;

  /// Whether every byte that was timed came back.
  [[nodiscard]] bool isRight() const noexcept;
};

void printHead(std::ostream& out, const CodecReport& report);
void printTrafficHead(std::ostream& out);
void printRow(std::ostream& out, const TrafficResult& result);
void printCodecHead(std::ostream& out);
void printRow(std::ostream& out, const CodecResult& result);

[[nodiscard]] nlohmann::ordered_json toJson(const CodecReport& report);

}  // namespace zipccl::bench
