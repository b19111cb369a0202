// SPDX-License-Identifier: Apache-2.0
//
// What kernels reach that only read and write, against cudaMemcpyAsync in the same run: measured
// and shown as the codec is.

#pragma once

#include <cstdint>
#include <functional>
#include <iosfwd>
#include <nlohmann/json.hpp>
#include <vector>

#include "bench/codec_cases.hpp"
#include "bench/traffic.hpp"
#include "perf_codec/measurement.hpp"

namespace zipccl::bench {

struct TrafficRound {
  double memcpyUs = 0.0;
  double kernelUs = 0.0;
};

struct TrafficResult {
  TrafficMix mix{};
  std::uint64_t inputBytes = 0;  ///< the larger of what is read and what is written
  unsigned blocks = 0;
  std::vector<TrafficRound> rounds;

  [[nodiscard]] std::vector<double> times(double TrafficRound::*operation) const;
  [[nodiscard]] std::vector<double> speeds() const;
};

/// Measures each size and limit on blocks of `trafficCase` and hands each result to `done`. The
/// current device is used. Throws Failure.
void measureTraffic(const CodecCase& trafficCase, const tools::perf_codec::MeasurementPlan& plan,
                    const std::function<void(TrafficResult)>& done);

void printTrafficHead(std::ostream& out);
void printRow(std::ostream& out, const TrafficResult& result);
[[nodiscard]] nlohmann::ordered_json toJson(const TrafficResult& result);

}  // namespace zipccl::bench
