// SPDX-License-Identifier: Apache-2.0
//
// The measurement of a profile.

#include "collectives/profile_measurement.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <chrono>
#include <cstring>
#include <functional>
#include <vector>

#include "base/random.hpp"
#include "collectives/scratch.hpp"

namespace zipccl::collectives {
namespace {

constexpr std::uint64_t kSampleElements = std::uint64_t{1} << 17;
constexpr std::uint64_t kSampleBytes = 2 * kSampleElements;
constexpr std::uint64_t kTinyElements = 1024;
constexpr int kRepeats = 3;

constexpr std::array<std::uint64_t, 5> kLinkBytes = {1U << 12, 1U << 15, 1U << 18, 1U << 21,
                                                     1U << 23};
constexpr double kLongestStepUs = 50'000.0;
constexpr std::uint64_t kMostGatheredBytes = std::uint64_t{64} << 20;

/// Elapsed microseconds of the fastest of a few runs.
double fastestUs(const std::function<void()>& prepare, const std::function<void()>& work) {
  using Clock = std::chrono::steady_clock;
  double fastest = 0.0;
  for (int i = 0; i < kRepeats; ++i) {
    prepare();
    const Clock::time_point start = Clock::now();
    work();
    const double us = std::chrono::duration<double, std::micro>(Clock::now() - start).count();
    fastest = i == 0 ? us : std::min(fastest, us);
  }
  return std::max(fastest, 0.01);
}

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

std::vector<std::uint16_t> gaussianSample() {
  Random random(1);
  std::vector<std::uint16_t> sample(kSampleElements);
  for (std::uint16_t& element : sample) {
    const auto value = static_cast<float>(0.02 * random.normal());
    element = static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(value) >> 16);
  }
  return sample;
}

void measureCodec(transport::Transport& transport, FrameCodec& codec, std::span<std::byte> scratch,
                  policy::Profile& profile) {
  const codec::FrameSpec spec{
      .elementCount = kSampleElements,
      .poolBytes = codec::defaultPoolBytes(codec::Datatype::kBfloat16, codec::Layout::kNarrow,
                                           kSampleElements)};
  const codec::FrameSpec tinySpec{.elementCount = kTinyElements, .poolBytes = 128};
  const std::span<std::byte> sample = scratch.first(kSampleBytes);
  const std::span<std::byte> decoded = scratch.subspan(kSampleBytes, kSampleBytes);
  const std::span<std::byte> frame = scratch.subspan(2 * kSampleBytes);
  const std::vector<std::uint16_t> elements = gaussianSample();
  codec.copy(sample.data(), elements.data(), kSampleBytes, {});

  codec::DecodeStatus status{};
  std::array<FrameReport, 1> reports;
  const auto wait = [&] { codec.finish({}); };
  const auto encode = [&](const codec::FrameSpec& of) {
    codec.encode(of, sample.data(), frame, {}, {});
    codec.finish({});
  };
  const double tinyUs = fastestUs(wait, [&] { encode(tinySpec); });
  const double encodeUs = fastestUs(wait, [&] { encode(spec); });
  const std::uint64_t staticBytes = codec::staticBytes(spec);
  codec.readReports(frame.data(), 0, reports, {});
  const FrameParts parts{frame.first(staticBytes),
                         frame.subspan(staticBytes, reports[0].dynamicBytes)};
  const double decodeUs = fastestUs(wait, [&] {
    codec.decode(spec, parts, decoded, &status, {});
    codec.finish({});
  });
  const auto agreed = slowest(transport, std::array{tinyUs, encodeUs, decodeUs});
  profile.frameUs = agreed[0];
  profile.encodeGBps = static_cast<double>(kSampleBytes) / agreed[1] / 1000.0;
  profile.decodeGBps = static_cast<double>(kSampleBytes) / agreed[2] / 1000.0;
}

void measureAllGather(transport::Transport& transport, std::span<std::byte> scratch,
                      policy::LinkProfile& link) {
  for (const std::uint64_t bytes : kLinkBytes) {
    const auto ranks = static_cast<std::uint64_t>(transport.rankCount());
    if ((ranks + 1) * bytes > scratch.size()) return;
    const double us =
        fastestUs([&] { transport.barrier(); },
                  [&] { transport.allGather(scratch.data(), scratch.data() + bytes, bytes); });
    const double agreedUs = slowest(transport, std::array{us})[0];
    const double previousUs =
        link.pointCount == 0 ? 0.0 : link.points[link.pointCount - 1].elapsedUs;
    link.points[link.pointCount++] = {bytes, std::max(agreedUs, previousUs)};
    // The next size is eight times this one, at most, and is run a few times.
    if (8 * agreedUs * kRepeats > kLongestStepUs) return;
  }
}

}  // namespace

policy::Profile measureProfile(transport::Transport& transport, FrameCodec& codec,
                               std::uint64_t maxScratchBytes) {
  const auto ranks = static_cast<std::uint64_t>(transport.rankCount());
  const std::uint64_t codecBytes =
      2 * kSampleBytes + codec::maxFrameBytes(codec::Datatype::kBfloat16, kSampleElements);
  if (maxScratchBytes < std::max(codecBytes, (ranks + 1) * kLinkBytes[1])) return {};

  const std::uint64_t wantedBytes = std::min((ranks + 1) * kLinkBytes.back(), kMostGatheredBytes);
  Scratch scratch(codec, maxScratchBytes);
  const std::span<std::byte> memory =
      scratch.reserve(std::min(std::max(codecBytes, wantedBytes), maxScratchBytes));
  policy::Profile profile;
  measureCodec(transport, codec, memory, profile);
  codec.clear(memory.data(), std::min<std::uint64_t>(memory.size(), kLinkBytes.back()), {});
  codec.finish({});
  measureAllGather(transport, memory, profile.allGather);
  return profile;
}

}  // namespace zipccl::collectives
