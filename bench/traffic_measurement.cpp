// SPDX-License-Identifier: Apache-2.0
//
// What kernels reach that only read and write.

#include "bench/traffic_measurement.hpp"

#include <algorithm>
#include <ostream>

#include "base/error.hpp"
#include "base/random.hpp"
#include "base/text.hpp"
#include "codec/layout.hpp"
#include "perf/statistics.hpp"
#include "perf_codec/cuda.hpp"
#include "perf_codec/gpu_timing.hpp"
#include "perf_codec/report.hpp"
#include "support/text.hpp"

namespace zipccl::bench {
namespace {

using tools::fixed;
using tools::perf::spreadOf;
using tools::perf_codec::aligned;
using tools::perf_codec::callsPerRegion;
using tools::perf_codec::check;
using tools::perf_codec::DeviceBuffer;
using tools::perf_codec::gigabytesPerSecond;
using tools::perf_codec::kLeastSets;
using tools::perf_codec::operationToJson;
using tools::perf_codec::padded;
using tools::perf_codec::Region;
using tools::perf_codec::spreadText;
using tools::perf_codec::Stream;
using tools::perf_codec::timeRounds;

/// Memory of constant bytes can be faster than memory of any.
void fillWithRandomBits(const Stream& stream, const DeviceBuffer& buffer) {
  constexpr std::size_t kMostBytesAtOnce = std::size_t{64} << 20;
  std::vector<std::byte> block(std::min<std::uint64_t>(kMostBytesAtOnce, buffer.bytes()));
  Random random(freshSeed());
  random.fill(block);
  for (std::uint64_t at = 0; at < buffer.bytes(); at += block.size()) {
    check(cudaMemcpyAsync(buffer.data() + at, block.data(),
                          std::min<std::uint64_t>(block.size(), buffer.bytes() - at),
                          cudaMemcpyHostToDevice, stream.get()),
          "filling");
  }
  stream.synchronize();
}

}  // namespace

std::vector<double> TrafficResult::times(double TrafficRound::*operation) const {
  std::vector<double> values;
  for (const TrafficRound& round : rounds) values.push_back(round.*operation);
  return values;
}

std::vector<double> TrafficResult::speeds() const {
  std::vector<double> values;
  for (const TrafficRound& round : rounds) values.push_back(round.memcpyUs / round.kernelUs);
  return values;
}

void measureTraffic(const CodecCase& trafficCase, const tools::perf_codec::MeasurementPlan& plan,
                    const std::function<void(TrafficResult)>& done) {
  const Stream stream;
  for (const std::uint64_t inputBytes : trafficCase.sizesBytes) {
    const std::uint64_t tiles = inputBytes / codec::kUpperBytes;
    const std::uint64_t bytes = aligned(tiles * codec::kUpperBytes);
    expects(tiles > 0, "traffic of ", inputBytes, " bytes is not one tile");
    const std::uint64_t sets = std::max(kLeastSets, (plan.rotatedBytes + bytes - 1) / bytes);
    const DeviceBuffer sources(sets * bytes);
    const DeviceBuffer destinations(sets * bytes);
    fillWithRandomBits(stream, sources);
    const std::uint64_t calls = callsPerRegion(plan, inputBytes);
    const auto source = [&](std::uint64_t i) { return sources.data() + i % sets * bytes; };
    const auto destination = [&](std::uint64_t i) {
      return destinations.data() + i % sets * bytes;
    };
    for (const unsigned limit : trafficCase.blockLimits) {
      // As the codec's own kernels: without a limit a block for each group of eight tiles.
      const unsigned blocks =
          limit != 0 ? limit
                     : static_cast<unsigned>((tiles + codec::kGroupTiles - 1) / codec::kGroupTiles);
      for (const TrafficMix& mix : kTrafficMixes) {
        Region copying(stream, calls, false, [&](std::uint64_t i) {
          check(cudaMemcpyAsync(destination(i), source(i), tiles * codec::kUpperBytes,
                                cudaMemcpyDeviceToDevice, stream.get()),
                "copying");
        });
        Region moving(stream, calls, false, [&](std::uint64_t i) {
          check(launchTraffic(mix, source(i), destination(i), tiles, blocks, stream.get()),
                "launching a traffic kernel");
        });
        TrafficResult result;
        result.mix = mix;
        result.inputBytes = inputBytes;
        result.blocks = blocks;
        for (const auto& [copyUs, kernelUs] : timeRounds<2>(plan, {&copying, &moving})) {
          result.rounds.push_back({copyUs, kernelUs});
        }
        done(std::move(result));
      }
    }
  }
}

void printTrafficHead(std::ostream& out) {
  out << "\nKernels that only read and write\n"
      << padded("size", 9) << padded("read", 6) << padded("written", 9) << padded("blocks", 8)
      << padded("memcpy", 9) << padded("kernel", 9) << "  (of memcpy)\n";
}

void printRow(std::ostream& out, const TrafficResult& result) {
  const auto speed = [&](double TrafficRound::*member) {
    return fixed(gigabytesPerSecond(result.inputBytes, spreadOf(result.times(member)).median), 0);
  };
  out << padded(tools::humanBytes(result.inputBytes), 9)
      << padded(concat(result.mix.readQuarters, "/4"), 6)
      << padded(concat(result.mix.writtenQuarters, "/4"), 9) << padded(concat(result.blocks), 8)
      << padded(speed(&TrafficRound::memcpyUs), 9) << padded(speed(&TrafficRound::kernelUs), 9)
      << "  (" << spreadText(result.speeds()) << ")\n"
      << std::flush;
}

nlohmann::ordered_json toJson(const TrafficResult& result) {
  const std::vector<double> memcpyUs = result.times(&TrafficRound::memcpyUs);
  const std::vector<double> ones(memcpyUs.size(), 1.0);
  return {{"readQuarters", result.mix.readQuarters},
          {"writtenQuarters", result.mix.writtenQuarters},
          {"inputBytes", result.inputBytes},
          {"blocks", result.blocks},
          {"memcpy", operationToJson(result.inputBytes, memcpyUs, ones)},
          {"kernel", operationToJson(result.inputBytes, result.times(&TrafficRound::kernelUs),
                                     result.speeds())}};
}

}  // namespace zipccl::bench
