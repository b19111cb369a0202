// SPDX-License-Identifier: Apache-2.0
//
// Times work on a GPU: regions of many calls between two events, each call on the next set of
// buffers; the operations take turns, round after round, and who begins changes.

#pragma once

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "perf_codec/cuda.hpp"
#include "perf_codec/measurement.hpp"

namespace zipccl::tools::perf_codec {

/// Sets of buffers that are used in turn, however large they are.
inline constexpr std::uint64_t kLeastSets = 3;

/// Buffers of a set begin at multiples of this.
[[nodiscard]] constexpr std::uint64_t aligned(std::uint64_t bytes) {
  constexpr std::uint64_t kAlignment = 256;
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

/// How often a region repeats an operation on `inputBytes`; nothing that is reported depends on it.
[[nodiscard]] inline std::uint64_t callsPerRegion(const MeasurementPlan& plan,
                                                  std::uint64_t inputBytes) {
  constexpr double kBytesPerUs = 1.5e6;
  constexpr double kLeastCallUs = 3.0;
  const double callUs = std::max(kLeastCallUs, static_cast<double>(inputBytes) / kBytesPerUs);
  return static_cast<std::uint64_t>(std::clamp(plan.regionUs / callUs, 4.0, 1000.0));
}

/// An operation that is timed: `call(i)` puts its i-th call on the stream.
class Region {
 public:
  Region(const Stream& stream, std::uint64_t calls, bool usesGraph,
         std::function<void(std::uint64_t)> call)
      : stream_(stream), calls_(calls), call_(std::move(call)) {
    if (usesGraph) graph_.emplace(stream_, [this] { callAll(); });
  }

  /// Microseconds of one call, from the whole region. Waits.
  double time() {
    start_.record(stream_.get());
    if (graph_) {
      graph_->launch(stream_.get());
    } else {
      callAll();
    }
    end_.record(stream_.get());
    end_.synchronize();
    return end_.elapsedUsSince(start_) / static_cast<double>(calls_);
  }

 private:
  // Later regions go on with later sets, so that none finds in the cache what the last one left.
  void callAll() {
    for (std::uint64_t i = 0; i < calls_; ++i) call_(next_++);
  }

  const Stream& stream_;
  std::uint64_t calls_;
  std::uint64_t next_ = 0;
  std::function<void(std::uint64_t)> call_;
  std::optional<Graph> graph_;
  Event start_;
  Event end_;
};

/// Times each of `regions` once a round, beginning with another one each time, until the plan has
/// enough rounds.
template <std::size_t kCount>
std::vector<std::array<double, kCount>> timeRounds(const MeasurementPlan& plan,
                                                   const std::array<Region*, kCount>& regions) {
  using Clock = std::chrono::steady_clock;
  std::vector<std::array<double, kCount>> rounds;
  double spentSeconds = 0.0;
  for (int turn = 0; !plan.isEnough(static_cast<int>(rounds.size()), spentSeconds); ++turn) {
    const Clock::time_point start = Clock::now();
    std::array<double, kCount> times{};
    for (std::size_t i = 0; i < kCount; ++i) {
      const std::size_t which = (static_cast<std::size_t>(turn) + i) % kCount;
      times[which] = regions[which]->time();
    }
    if (turn < plan.warmupRounds) continue;
    rounds.push_back(times);
    spentSeconds += std::chrono::duration<double>(Clock::now() - start).count();
  }
  return rounds;
}

}  // namespace zipccl::tools::perf_codec
