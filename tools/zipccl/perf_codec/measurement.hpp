// SPDX-License-Identifier: Apache-2.0
//
// Measures a codec against a copy: the same input bytes, in the same run, in turns, over buffers
// that no cache holds.

#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>
#include <zipccl/codec.hpp>

#include "perf_codec/data_set.hpp"

namespace zipccl::tools::perf_codec {

enum class Device { kHost, kGpu };

/// `host` or `gpu`.
[[nodiscard]] const char* deviceName(Device device);

struct MeasurementPlan {
  std::optional<int> rounds;  ///< absent: as many as fit into the budget
  int warmupRounds = 1;
  bool checks = true;                 ///< whether every bit is held against its source at the end
  std::uint64_t rotatedBytes = 0;     ///< inputs are rotated over at least this
  double regionUs = 3000.0;           ///< about what is timed at once, in many calls
  std::uint64_t graphBelowBytes = 0;  ///< on a GPU, smaller inputs by replay of graphs

  static constexpr int kLeastRounds = 3;
  static constexpr int kMostRounds = 25;
  static constexpr double kBudgetSeconds = 1.5;

  /// For what runs on `device`.
  [[nodiscard]] static MeasurementPlan forDevice(Device device);

  /// Whether there are enough rounds after `roundCount`, which took `spentSeconds`.
  [[nodiscard]] bool isEnough(int roundCount, double spentSeconds) const noexcept;
};

/// Each operation once, one directly after the other; microseconds of one call.
struct CodecRound {
  double memcpyUs = 0.0;
  double encodeUs = 0.0;
  double decodeUs = 0.0;
  double bothUs = 0.0;  ///< encode, then decode of what it made
};

/// The same input through somebody else's codec, in the same rounds.
struct RivalRound {
  double encodeUs = 0.0;
  double decodeUs = 0.0;
};

/// Settings of the other codec that were tried to find the fastest.
struct RivalTrial {
  std::string settings;
  double bothUs = 0.0;  ///< encode, then decode; median
};

struct RivalResult {
  std::string settings;  ///< that it was run with, in words
  std::vector<RivalTrial> trials;
  std::uint64_t callsTimed = 0;
  double meanBytes = 0.0;  ///< of what it made, over the sets
  std::vector<RivalRound> rounds;
  std::uint64_t wrongElements = 0;
  std::uint64_t failedChunks = 0;  ///< of which it says itself that they failed

  [[nodiscard]] std::vector<double> times(double RivalRound::*operation) const;
};

struct CodecResult {
  Device device = Device::kHost;
  std::string data;
  codec::Datatype datatype = codec::Datatype::kBfloat16;
  codec::Layout layout = codec::Layout::kNarrow;
  std::uint64_t inputBytes = 0;
  std::uint64_t elementCount = 0;
  unsigned maxBlocks = 0;        ///< on a GPU; 0: no limit
  bool usesGraphs = false;       ///< replayed rather than launched call by call
  std::uint64_t sets = 0;        ///< of buffers, used in turn
  std::uint64_t callsTimed = 0;  ///< at once, in each round
  codec::FrameSpec spec;
  double meanFrameBytes = 0.0;   ///< with the default pool, over the sets
  double meanSteadyBytes = 0.0;  ///< with the pool of the steady state
  std::vector<CodecRound> rounds;
  bool wasChecked = false;
  std::uint64_t wrongElements = 0;  ///< of all sets' outputs, after the last round
  std::uint32_t statusWord = 0;     ///< 1 << DecodeStatus of each fault that a decoder reported
  std::optional<RivalResult> rival;

  [[nodiscard]] std::vector<double> times(double CodecRound::*operation) const;
  /// memcpy's time over the operation's, of each round: above 1 is faster than memcpy.
  [[nodiscard]] std::vector<double> speeds(double CodecRound::*operation) const;
  /// The rival's time over the codec's for the same operation, of each round.
  [[nodiscard]] std::vector<double> speedsToRival(double CodecRound::*operation,
                                                  double RivalRound::*rivalOperation) const;
  [[nodiscard]] double bitsPerValue() const noexcept;
  [[nodiscard]] double steadyBitsPerValue() const noexcept;
  [[nodiscard]] double rivalBitsPerValue() const noexcept;
  /// Nothing is known to be wrong, of the codec or of its rival.
  [[nodiscard]] bool isRight() const noexcept;
};

using ResultHandler = std::function<void(CodecResult)>;

/// Adds up what frames take, from their headers.
class FrameSizes {
 public:
  /// `header` are the first 128 bytes of a frame or more; false when they are no header.
  [[nodiscard]] bool add(std::span<const std::byte> header);
  /// Writes the means into `result`.
  void finish(CodecResult& result) const;

 private:
  double frameBytes_ = 0.0;
  double steadyBytes_ = 0.0;
  std::uint64_t frames_ = 0;
};

/// The spec to encode `inputBytes` of `data` with when nothing is known yet.
[[nodiscard]] codec::FrameSpec firstSpec(const DataSet& data, std::uint64_t inputBytes);

/// What is known of a result before it is measured.
[[nodiscard]] CodecResult emptyResult(Device device, const DataSet& data,
                                      const codec::FrameSpec& spec);

/// Measures the host codec on `data`, against memcpy, in one thread, at each of `sizesBytes`, and
/// hands each result to `done`. Throws Failure when buffers do not fit into memory.
void measureOnHost(const DataSet& data, const std::vector<std::uint64_t>& sizesBytes,
                   const MeasurementPlan& plan, const ResultHandler& done);

}  // namespace zipccl::tools::perf_codec
