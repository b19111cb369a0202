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
constexpr std::uint64_t kLeastOverlapElements = 1U << 14;

constexpr std::array<std::uint64_t, 5> kLinkBytes = {1U << 12, 1U << 15, 1U << 18, 1U << 21,
                                                     1U << 23};
constexpr std::uint64_t kMostGatheredBytes = std::uint64_t{64} << 20;

// What takes no longer is repeated; larger messages are tried while time lasts.
constexpr int kRepeats = 3;
constexpr double kQuickUs = 10'000.0;

/// For everything, and of that at least so much for each link, that a slow codec leaves none.
constexpr double kBudgetUs = 250'000.0;
constexpr double kLeastLinkBudgetUs = 50'000.0;

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

/// What the measurements of a profile share: the ranks, and the time that is left, which all ranks
/// count alike.
struct Session {
  transport::Transport& transport;
  FrameCodec& codec;
  double spentUs = 0.0;

  [[nodiscard]] double leftUs() const noexcept { return std::max(kBudgetUs - spentUs, 0.0); }
};

/// Times `work`, which all ranks start together, in microseconds: on the slowest rank the fastest
/// of a few runs, or the only one where it is not quick. The ranks decide on repetitions alike,
/// from what the slowest needed.
double measure(Session& session, const std::function<void()>& work) {
  transport::Transport& transport = session.transport;
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
  session.spentUs += agreed[1];
  return std::max(agreed[0], 0.01);
}

/// What measure() takes of work that takes so long.
double measuringUs(double onceUs) { return (onceUs <= kQuickUs ? kRepeats : 1) * onceUs; }

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

/// Fills memory with Gaussian bf16.
void fillSample(FrameCodec& codec, std::span<std::byte> sample) {
  const std::vector<std::uint16_t> values = gaussianValues();
  for (std::size_t at = 0; at < sample.size();) {
    const std::size_t bytes = std::min(2 * values.size(), sample.size() - at);
    codec.copy(sample.data() + at, values.data(), bytes, {});
    at += bytes;
  }
  codec.finish({});
}

codec::FrameSpec sampleSpec(std::uint64_t elementCount) {
  return {.elementCount = elementCount,
          .poolBytes = codec::defaultPoolBytes(codec::Datatype::kBfloat16, codec::Layout::kNarrow,
                                               elementCount)};
}

void measureCodec(Session& session, std::span<std::byte> scratch, policy::Profile& profile) {
  FrameCodec& codec = session.codec;
  const std::uint64_t elementCount = sampleElementsFor(scratch.size());
  const std::uint64_t sampleBytes = 2 * elementCount;
  const codec::FrameSpec spec = sampleSpec(elementCount);
  const codec::FrameSpec tinySpec{.elementCount = kTinyElements, .poolBytes = 128};
  const std::span<std::byte> sample = scratch.first(sampleBytes);
  const std::span<std::byte> decoded = scratch.subspan(sampleBytes, sampleBytes);
  const std::span<std::byte> frame = scratch.subspan(2 * sampleBytes);
  fillSample(codec, sample);

  const auto encode = [&](const codec::FrameSpec& of) {
    codec.encode(of, sample.data(), frame, {}, {});
    codec.finish({});
  };
  const double tinyUs = measure(session, [&] { encode(tinySpec); });
  const double encodeUs = measure(session, [&] { encode(spec); });

  std::array<FrameReport, 1> reports;
  codec.readReports(frame.data(), 0, reports, {});
  const FrameReport& report = reports[0];
  requireIntact(report.status);
  expects(report.isSealIntact, ErrorCode::kInternalError,
          "the codec did not seal the frame that it made for its measurement");
  const std::uint64_t staticBytes = codec::staticBytes(spec);
  const FrameParts parts{frame.first(staticBytes), frame.subspan(staticBytes, report.dynamicBytes)};
  codec::DecodeStatus status{};
  const double decodeUs = measure(session, [&] {
    codec.decode(spec, parts, decoded, &status, {});
    codec.finish({});
  });
  requireIntact(status);

  profile.frameUs = tinyUs;
  profile.encodeGBps = static_cast<double>(sampleBytes) / encodeUs / 1000.0;
  profile.decodeGBps = static_cast<double>(sampleBytes) / decodeUs / 1000.0;
}

/// An operation of so many bytes of each rank, in the first ranks + 1 times as many bytes of
/// memory.
struct LinkOperation {
  std::function<void(std::uint64_t bytes)> native;
  std::function<transport::Request(std::uint64_t bytes)> start;  ///< as staged calls do it
};

/// Times the operation for messages of a few sizes, while `budgetUs` last.
void measureLink(Session& session, std::span<std::byte> memory, const LinkOperation& operation,
                 double budgetUs, policy::LinkProfile& link) {
  const auto ranks = static_cast<std::uint64_t>(session.transport.rankCount());
  const double endUs = session.spentUs + budgetUs;
  for (const std::uint64_t bytes : kLinkBytes) {
    if ((ranks + 1) * bytes > memory.size()) return;
    // One point tells a latency and no bandwidth: so there are two whatever they cost.
    const bool isKnown = link.pointCount >= policy::LinkProfile::kLeastPoints;
    if (isKnown && session.spentUs + policy::linkUs(link, bytes) > endUs) return;
    const double us = measure(session, [&] { operation.native(bytes); });
    const double previousUs =
        link.pointCount == 0 ? 0.0 : link.points[link.pointCount - 1].elapsedUs;
    link.points[link.pointCount++] = {bytes, std::max(us, previousUs)};
  }
}

/// Times the largest message again, where time is left, and keeps the better figure: what else a
/// machine does while a job starts, and links that are slow at first, would make compression look
/// better than it is.
void measureLargestAgain(Session& session, const LinkOperation& operation,
                         policy::LinkProfile& link) {
  if (link.pointCount < policy::LinkProfile::kLeastPoints) return;
  policy::LinkPoint& largest = link.points[link.pointCount - 1];
  if (measuringUs(largest.elapsedUs) > session.leftUs() / 2.0) return;
  const double us = measure(session, [&] { operation.native(largest.bytesPerRank); });
  const double leastUs = link.points[link.pointCount - 2].elapsedUs;
  largest.elapsedUs = std::clamp(us, leastUs, largest.elapsedUs);
}

/// Elements to encode while `point` is on its way, in about the same time: none where there is no
/// room, or no time for that.
std::uint64_t overlappedElements(const Session& session, std::uint64_t memoryBytes,
                                 const policy::LinkPoint& point, double encodeGBps) {
  const auto ranks = static_cast<std::uint64_t>(session.transport.rankCount());
  const std::uint64_t linkBytes = (ranks + 1) * point.bytesPerRank;
  if (linkBytes >= memoryBytes) return 0;
  // Alone and beside the transfer; what is quick a few times.
  if (3.0 * measuringUs(point.elapsedUs) > session.leftUs()) return 0;
  const double wanted = point.elapsedUs * encodeGBps * 1000.0 / sizeof(std::uint16_t);
  auto elements =
      static_cast<std::uint64_t>(std::clamp(wanted, 0.0, static_cast<double>(kMostSampleElements)));
  while (elements >= kLeastOverlapElements && linkBytes + codecBytes(elements) > memoryBytes) {
    elements /= 2;
  }
  // What is far shorter than the transfer would be lost in its noise.
  const bool isEnough =
      elements >= kLeastOverlapElements && 4.0 * static_cast<double>(elements) >= wanted;
  return isEnough ? elements : 0;
}

/// How much of the operation's time passes while the ranks encode: by the largest message for which
/// there is room and time. Without one, nothing is believed to.
float measureOverlap(Session& session, std::span<std::byte> memory, const LinkOperation& operation,
                     double encodeGBps, const policy::LinkProfile& link) {
  const auto ranks = static_cast<std::uint64_t>(session.transport.rankCount());
  for (std::uint32_t i = link.pointCount; i-- > 0;) {
    const policy::LinkPoint& point = link.points[i];
    const std::uint64_t elements = overlappedElements(session, memory.size(), point, encodeGBps);
    if (elements == 0) continue;
    const std::span<std::byte> behind = memory.subspan((ranks + 1) * point.bytesPerRank);
    const std::span<std::byte> sample = behind.first(2 * elements);
    const std::span<std::byte> frame = behind.subspan(sample.size());
    fillSample(session.codec, sample);
    const auto encode = [&] {
      session.codec.encode(sampleSpec(elements), sample.data(), frame, {}, {});
      session.codec.finish({});
    };
    const double encodeUs = measure(session, encode);
    const double bothUs = measure(session, [&] {
      transport::Request request = operation.start(point.bytesPerRank);
      encode();
      session.transport.wait(request);
    });
    const double hiddenUs = encodeUs + point.elapsedUs - bothUs;
    const double share = hiddenUs / std::min(encodeUs, point.elapsedUs);
    return static_cast<float>(std::clamp(share, 0.0, 1.0));
  }
  return 0.0F;
}

/// Sends the first `bytes` to every other rank and receives as many from each behind them.
transport::Request exchangeWithAll(transport::Transport& transport, std::span<std::byte> memory,
                                   std::uint64_t bytes, bool isBesideWork) {
  std::vector<transport::SendMessage> sends;
  std::vector<transport::ReceiveMessage> receives;
  for (int step = 1; step < transport.rankCount(); ++step) {
    const int peer = (transport.rank() + step) % transport.rankCount();
    sends.push_back({peer, memory.data(), bytes, isBesideWork});
    receives.push_back(
        {peer, memory.data() + static_cast<std::uint64_t>(step) * bytes, bytes, isBesideWork});
  }
  return transport.startExchange(sends, receives);
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
  Session session{transport, codec};
  policy::Profile profile;
  measureCodec(session, memory, profile);
  codec.clear(memory.data(), std::min<std::uint64_t>(memory.size(), kLinkBytes.back()), {});
  codec.finish({});

  const LinkOperation gather = {
      .native =
          [&](std::uint64_t bytes) {
            transport.allGather(memory.data(), memory.data() + bytes, bytes);
          },
      .start =
          [&](std::uint64_t bytes) {
            return transport.startAllGather(memory.data(), memory.data() + bytes, bytes);
          }};
  const LinkOperation exchange = {
      .native =
          [&](std::uint64_t bytes) {
            transport::Request request = exchangeWithAll(transport, memory, bytes, false);
            transport.wait(request);
          },
      .start =
          [&](std::uint64_t bytes) { return exchangeWithAll(transport, memory, bytes, true); }};
  // A third of what is left for each link, the rest for how they overlap.
  const double linkBudgetUs = std::max(session.leftUs() / 3.0, kLeastLinkBudgetUs);
  measureLink(session, memory, gather, linkBudgetUs, profile.allGather);
  measureLink(session, memory, exchange, linkBudgetUs, profile.exchange);
  measureLargestAgain(session, gather, profile.allGather);
  measureLargestAgain(session, exchange, profile.exchange);
  profile.allGather.overlap =
      measureOverlap(session, memory, gather, profile.encodeGBps, profile.allGather);
  profile.exchange.overlap =
      measureOverlap(session, memory, exchange, profile.encodeGBps, profile.exchange);
  return profile;
}

}  // namespace zipccl::collectives
