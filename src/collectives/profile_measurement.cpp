// SPDX-License-Identifier: Apache-2.0
//
// The measurement of a profile.

#include "collectives/profile_measurement.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <chrono>
#include <functional>
#include <vector>

#include "base/error.hpp"
#include "base/random.hpp"
#include "collectives/scratch.hpp"
#include "policy/cost_model.hpp"

namespace zipccl::collectives {
namespace {

// A sample of 4 MiB is larger than a core's own caches, as the messages are that compression is
// for. Where scratch has less room it is smaller.
constexpr std::uint64_t kMostSampleElements = std::uint64_t{1} << 21;
constexpr std::uint64_t kLeastSampleElements = std::uint64_t{1} << 17;
constexpr std::uint64_t kTinyElements = 1024;

constexpr std::array<std::uint64_t, 5> kLinkBytes = {1U << 12, 1U << 15, 1U << 18, 1U << 21,
                                                     1U << 23};
constexpr std::uint64_t kMostGatheredBytes = std::uint64_t{64} << 20;

// What takes no longer is repeated; larger messages are tried while the link's share of time lasts.
constexpr int kRepeats = 3;
constexpr double kQuickUs = 10'000.0;
constexpr double kLinkBudgetUs = 150'000.0;

/// The largest of the ranks' values, element by element.
template <std::size_t count>
std::array<double, count> slowest(transport::Transport& transport,
                                  const std::array<double, count>& mine) {
  std::vector<std::array<double, count>> all(static_cast<std::size_t>(transport.rankCount()));
  transport.allGatherControl(std::as_bytes(std::span(&mine, 1)),
                             std::as_writable_bytes(std::span(all)));
  std::array<double, count> most = all[0];
  for (const std::array<double, count>& ofRank : all) {
    for (std::size_t i = 0; i < count; ++i) most[i] = std::max(most[i], ofRank[i]);
  }
  return most;
}

class Stopwatch {
 public:
  [[nodiscard]] double elapsedUs() const {
    return std::chrono::duration<double, std::micro>(Clock::now() - start_).count();
  }

 private:
  using Clock = std::chrono::steady_clock;
  Clock::time_point start_ = Clock::now();
};

/// What every rank knows of one measurement, in microseconds.
struct Measured {
  double workUs = 0.0;   ///< the work once, on the slowest rank
  double spentUs = 0.0;  ///< the measurement as a whole
};

/// Times `work`, which all ranks start together: the fastest of a few runs, or the only one where
/// it is not quick. The ranks decide on repetitions alike, from what the slowest needed.
Measured measure(transport::Transport& transport, const std::function<void()>& work) {
  const Stopwatch whole;
  const auto run = [&] {
    transport.barrier();
    const Stopwatch stopwatch;
    work();
    return stopwatch.elapsedUs();
  };
  double fastestUs = run();
  const bool isQuick = slowest(transport, std::array{fastestUs})[0] <= kQuickUs;
  for (int i = 1; isQuick && i < kRepeats; ++i) fastestUs = std::min(fastestUs, run());
  const auto agreed = slowest(transport, std::array{fastestUs, whole.elapsedUs()});
  return {std::max(agreed[0], 0.01), agreed[1]};
}

std::vector<std::uint16_t> gaussianValues() {
  Random random(1);
  std::vector<std::uint16_t> values(kLeastSampleElements);
  for (std::uint16_t& element : values) {
    const auto value = static_cast<float>(0.02 * random.normal());
    element = static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(value) >> 16);
  }
  return values;
}

/// Room for a sample of bf16, its frame, and what is decoded from it.
std::uint64_t codecBytes(std::uint64_t sampleElements) {
  return 4 * sampleElements + codec::maxFrameBytes(codec::Datatype::kBfloat16, sampleElements);
}

std::uint64_t sampleElementsFor(std::uint64_t scratchBytes) {
  std::uint64_t elements = kMostSampleElements;
  while (elements > kLeastSampleElements && codecBytes(elements) > scratchBytes) elements /= 2;
  return elements;
}

void requireIntact(codec::DecodeStatus status) {
  expects(status == codec::DecodeStatus::kOk, ErrorCode::kInternalError,
          "the codec cannot read the frame that it made for its measurement: ",
          codec::describe(status));
}

void measureCodec(transport::Transport& transport, FrameCodec& codec, std::span<std::byte> scratch,
                  policy::Profile& profile) {
  const std::uint64_t elementCount = sampleElementsFor(scratch.size());
  const std::uint64_t sampleBytes = 2 * elementCount;
  const codec::FrameSpec spec{
      .elementCount = elementCount,
      .poolBytes = codec::defaultPoolBytes(codec::Datatype::kBfloat16, codec::Layout::kNarrow,
                                           elementCount)};
  const codec::FrameSpec tinySpec{.elementCount = kTinyElements, .poolBytes = 128};
  const std::span<std::byte> sample = scratch.first(sampleBytes);
  const std::span<std::byte> decoded = scratch.subspan(sampleBytes, sampleBytes);
  const std::span<std::byte> frame = scratch.subspan(2 * sampleBytes);
  const std::vector<std::uint16_t> values = gaussianValues();
  const std::uint64_t valueBytes = 2 * values.size();
  for (std::uint64_t at = 0; at < sampleBytes; at += valueBytes) {
    codec.copy(sample.data() + at, values.data(), valueBytes, {});
  }
  codec.finish({});

  const auto encode = [&](const codec::FrameSpec& of) {
    codec.encode(of, sample.data(), frame, {}, {});
    codec.finish({});
  };
  const double tinyUs = measure(transport, [&] { encode(tinySpec); }).workUs;
  const double encodeUs = measure(transport, [&] { encode(spec); }).workUs;

  std::array<FrameReport, 1> reports;
  codec.readReports(frame.data(), 0, reports, {});
  const FrameReport& report = reports[0];
  requireIntact(report.status);
  expects(report.isSealIntact, ErrorCode::kInternalError,
          "the codec did not seal the frame that it made for its measurement");
  const std::uint64_t staticBytes = codec::staticBytes(spec);
  const FrameParts parts{frame.first(staticBytes), frame.subspan(staticBytes, report.dynamicBytes)};
  codec::DecodeStatus status{};
  const double decodeUs = measure(transport, [&] {
                            codec.decode(spec, parts, decoded, &status, {});
                            codec.finish({});
                          }).workUs;
  requireIntact(status);

  profile.frameUs = tinyUs;
  profile.encodeGBps = static_cast<double>(sampleBytes) / encodeUs / 1000.0;
  profile.decodeGBps = static_cast<double>(sampleBytes) / decodeUs / 1000.0;
}

/// Times `move` for messages of a few sizes.
void measureLink(transport::Transport& transport, std::span<std::byte> scratch,
                 const std::function<void(std::uint64_t)>& move, policy::LinkProfile& link) {
  const auto ranks = static_cast<std::uint64_t>(transport.rankCount());
  double spentUs = 0.0;
  for (const std::uint64_t bytes : kLinkBytes) {
    if ((ranks + 1) * bytes > scratch.size()) return;
    // One point tells a latency and no bandwidth: so there are two whatever they cost.
    const bool isKnown = link.pointCount >= policy::LinkProfile::kLeastPoints;
    if (isKnown && spentUs + policy::linkUs(link, bytes) > kLinkBudgetUs) return;
    const Measured measured = measure(transport, [&] { move(bytes); });
    spentUs += measured.spentUs;
    const double previousUs =
        link.pointCount == 0 ? 0.0 : link.points[link.pointCount - 1].elapsedUs;
    link.points[link.pointCount++] = {bytes, std::max(measured.workUs, previousUs)};
  }
}

/// Sends the first `bytes` to every other rank and receives as many from each behind them.
void exchangeWithAll(transport::Transport& transport, std::span<std::byte> scratch,
                     std::uint64_t bytes) {
  std::vector<transport::SendMessage> sends;
  std::vector<transport::ReceiveMessage> receives;
  for (int step = 1; step < transport.rankCount(); ++step) {
    const int peer = (transport.rank() + step) % transport.rankCount();
    sends.push_back({peer, scratch.data(), bytes});
    receives.push_back({peer, scratch.data() + static_cast<std::uint64_t>(step) * bytes, bytes});
  }
  transport.exchange(sends, receives);
}

}  // namespace

policy::Profile measureProfile(transport::Transport& transport, FrameCodec& codec,
                               std::uint64_t maxScratchBytes) {
  const std::uint64_t shards = static_cast<std::uint64_t>(transport.rankCount()) + 1;
  const std::uint64_t leastLinkBytes = shards * kLinkBytes[policy::LinkProfile::kLeastPoints - 1];
  if (maxScratchBytes < std::max(codecBytes(kLeastSampleElements), leastLinkBytes)) return {};

  const std::uint64_t wantedBytes =
      std::max({codecBytes(kMostSampleElements), leastLinkBytes,
                std::min(shards * kLinkBytes.back(), kMostGatheredBytes)});
  Scratch scratch(codec, transport, maxScratchBytes);
  const std::span<std::byte> memory = scratch.reserve(std::min(wantedBytes, maxScratchBytes));
  policy::Profile profile;
  measureCodec(transport, codec, memory, profile);
  codec.clear(memory.data(), std::min<std::uint64_t>(memory.size(), kLinkBytes.back()), {});
  codec.finish({});
  measureLink(
      transport, memory,
      [&](std::uint64_t bytes) {
        transport.allGather(memory.data(), memory.data() + bytes, bytes);
      },
      profile.allGather);
  measureLink(
      transport, memory, [&](std::uint64_t bytes) { exchangeWithAll(transport, memory, bytes); },
      profile.exchange);
  return profile;
}

}  // namespace zipccl::collectives
