// SPDX-License-Identifier: Apache-2.0
//
// The cost model.

#include "policy/cost_model.hpp"

namespace zipccl::policy {
namespace {

constexpr double kBytesPerUsOfGBps = 1000.0;

double slope(const LinkPoint& from, const LinkPoint& to) noexcept {
  return (to.elapsedUs - from.elapsedUs) / static_cast<double>(to.bytesPerRank - from.bytesPerRank);
}

double chunkUs(const CallFacts& call, const Profile& profile, FrameLayout layout,
               const ClassStatistics& statistics, std::uint64_t chunkElements) noexcept {
  const double inputBytes = static_cast<double>(chunkElements * call.geometry.elementBytes);
  const double peers = static_cast<double>(call.rankCount - 1);
  const double encodeUs = profile.frameUs + inputBytes / (profile.encodeGBps * kBytesPerUsOfGBps);
  const double decodeUs =
      peers * (profile.frameUs + inputBytes / (profile.decodeGBps * kBytesPerUsOfGBps));
  const std::uint64_t wireBytes =
      staticBoundBytes(call.geometry, layout, statistics, chunkElements);
  return encodeUs + linkUs(profile.allGather, wireBytes) + decodeUs;
}

}  // namespace

double linkUs(const LinkProfile& link, std::uint64_t bytesPerRank) noexcept {
  const LinkPoint& first = link.points[0];
  if (bytesPerRank <= first.bytesPerRank) return first.elapsedUs;
  for (std::uint32_t i = 1; i < link.pointCount; ++i) {
    const LinkPoint& from = link.points[i - 1];
    const LinkPoint& to = link.points[i];
    if (bytesPerRank <= to.bytesPerRank) {
      return from.elapsedUs +
             slope(from, to) * static_cast<double>(bytesPerRank - from.bytesPerRank);
    }
  }
  const LinkPoint& last = link.points[link.pointCount - 1];
  const double lastSlope = slope(link.points[link.pointCount - 2], last);
  return last.elapsedUs + lastSlope * static_cast<double>(bytesPerRank - last.bytesPerRank);
}

double nativeAllGatherUs(const CallFacts& call, const Profile& profile) noexcept {
  return linkUs(profile.allGather, call.elementCount * call.geometry.elementBytes);
}

double stagedAllGatherUs(const CallFacts& call, const Profile& profile, const ChunkPlan& plan,
                         FrameLayout layout, const ClassStatistics& statistics) noexcept {
  const std::uint64_t fullChunks = plan.chunkCount - 1;
  const std::uint64_t lastElements = call.elementCount - fullChunks * plan.chunkElements;
  return static_cast<double>(fullChunks) *
             chunkUs(call, profile, layout, statistics, plan.chunkElements) +
         chunkUs(call, profile, layout, statistics, lastElements);
}

}  // namespace zipccl::policy
