// SPDX-License-Identifier: Apache-2.0
//
// Measures a codec against a copy: the same input bytes, in the same run, in turns, over buffers
// that no cache holds.

#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>
#include <zipccl/codec.hpp>

#include "perf_codec/data_set.hpp"

namespace zipccl::tools::perf_codec {

struct MeasurementPlan {
  int rounds = 25;
  int warmupRounds = 2;
  std::uint64_t rotatedBytes = std::uint64_t{1} << 30;  ///< inputs are rotated over at least this
  std::uint64_t graphBelowBytes = std::uint64_t{8} << 20;  ///< smaller ones by replay of graphs
  double regionUs = 3000.0;  ///< about what is timed at once, in many calls
};

/// Each operation once, one directly after the other; microseconds of one call.
struct CodecRound {
  double memcpyUs = 0.0;
  double encodeUs = 0.0;
  double decodeUs = 0.0;
  double bothUs = 0.0;  ///< encode, then decode of what it made
};

struct CodecResult {
  std::string data;
  codec::Datatype datatype = codec::Datatype::kBfloat16;
  codec::Layout layout = codec::Layout::kNarrow;
  std::uint64_t inputBytes = 0;
  std::uint64_t elementCount = 0;
  unsigned maxBlocks = 0;        ///< 0: no limit
  bool usesGraphs = false;       ///< replayed rather than launched call by call
  std::uint64_t sets = 0;        ///< of buffers, used in turn
  std::uint64_t callsTimed = 0;  ///< at once, in each round
  codec::FrameSpec spec;
  double meanFrameBytes = 0.0;   ///< with the default pool, over the sets
  double meanSteadyBytes = 0.0;  ///< with the pool of the steady state
  std::vector<CodecRound> rounds;
  std::uint64_t wrongBytes = 0;  ///< of all sets' outputs, after the last round
  std::uint32_t statusWord = 0;  ///< of all decodes together

  [[nodiscard]] std::vector<double> times(double CodecRound::*operation) const;
  /// memcpy's time over the operation's, of each round: above 1 is faster than memcpy.
  [[nodiscard]] std::vector<double> speeds(double CodecRound::*operation) const;
  [[nodiscard]] double bitsPerValue() const noexcept;
  [[nodiscard]] double steadyBitsPerValue() const noexcept;
  [[nodiscard]] bool isRight() const noexcept { return wrongBytes == 0 && statusWord == 0; }
};

/// Measures the GPU codec on `data`, against cudaMemcpyAsync from device to device, at each of
/// `sizesBytes` and under each of `blockLimits` (0: none), and hands each result to `done`. The
/// current device is used. Throws Failure, and what the codec throws when it does not have the
/// format.
void measureOnGpu(const DataSet& data, const std::vector<std::uint64_t>& sizesBytes,
                  const std::vector<unsigned>& blockLimits, const MeasurementPlan& plan,
                  const std::function<void(CodecResult)>& done);

}  // namespace zipccl::tools::perf_codec
