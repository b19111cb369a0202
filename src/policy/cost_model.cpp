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

/// Frames that the busiest rank makes and reads for one chunk.
struct FrameWork {
  int encodes = 1;
  int decodes = 1;
};

FrameWork workOf(CollectiveKind collective, int rankCount) noexcept {
  const int peers = rankCount - 1;
  switch (collective) {
    case CollectiveKind::kAllGather:
    case CollectiveKind::kGather:
      return {1, peers};
    case CollectiveKind::kScatter:
      return {peers, 1};
    case CollectiveKind::kAlltoAll:
    case CollectiveKind::kAlltoAllv:
    case CollectiveKind::kReduceScatter:
      return {peers, peers};
    case CollectiveKind::kAllReduce:
      return {peers + 1, 2 * peers};
    case CollectiveKind::kBroadcast:
    case CollectiveKind::kSendRecv:
      return {1, 1};
  }
  return {1, peers};
}

const LinkProfile& exchangeOf(const Profile& profile) noexcept {
  return profile.exchange.pointCount != 0 ? profile.exchange : profile.allGather;
}

/// Whether ranks move frames that all of them get, which a plan may do one after the other.
bool isGather(CollectiveKind collective) noexcept {
  return collective == CollectiveKind::kAllGather || collective == CollectiveKind::kBroadcast;
}

/// A collective in which every rank reaches every other; those that only use a part of the links
/// are predicted as if they used all. A message between two ranks loads a link as an exchange does
/// that sends as many bytes to all of them together.
double transferUs(CollectiveKind collective, const Profile& profile, int rankCount,
                  std::uint64_t bytes) noexcept {
  if (isGather(collective)) return linkUs(profile.allGather, bytes);
  if (collective == CollectiveKind::kSendRecv && rankCount > 2) {
    return linkUs(exchangeOf(profile), bytes / static_cast<std::uint64_t>(rankCount - 1));
  }
  const double exchangeUs = linkUs(exchangeOf(profile), bytes);
  if (collective != CollectiveKind::kAllReduce) return exchangeUs;
  return exchangeUs + linkUs(profile.allGather, bytes);
}

/// The overlap of the links that the collective uses.
double overlapOf(CollectiveKind collective, const Profile& profile) noexcept {
  const double gather = static_cast<double>(profile.allGather.overlap);
  const double exchange = static_cast<double>(exchangeOf(profile).overlap);
  if (isGather(collective)) return gather;
  if (collective != CollectiveKind::kAllReduce) return exchange;
  return gather < exchange ? gather : exchange;
}

/// One chunk, on the busiest rank.
struct ChunkCost {
  double codecUs = 0.0;
  double transferUs = 0.0;

  [[nodiscard]] double allUs() const noexcept { return codecUs + transferUs; }
  [[nodiscard]] double shorterUs() const noexcept {
    return codecUs < transferUs ? codecUs : transferUs;
  }
};

ChunkCost costOf(const CallFacts& call, const Profile& profile, FrameLayout layout,
                 const ClassStatistics& statistics, std::uint64_t chunkElements) noexcept {
  const double inputBytes = static_cast<double>(chunkElements * call.geometry.elementBytes);
  const FrameWork work = workOf(call.collective, call.rankCount);
  const double encodeUs = profile.frameUs + inputBytes / (profile.encodeGBps * kBytesPerUsOfGBps);
  const double decodeUs = profile.frameUs + inputBytes / (profile.decodeGBps * kBytesPerUsOfGBps);
  const std::uint64_t wireBytes =
      staticBoundBytes(call.geometry, layout, statistics, chunkElements);
  return {work.encodes * encodeUs + work.decodes * decodeUs,
          transferUs(call.collective, profile, call.rankCount, wireBytes)};
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

double codecLead(const Profile& profile, int rankCount) noexcept {
  const LinkProfile& link = profile.allGather;
  const double linkUsPerByte =
      slope(link.points[link.pointCount - 2], link.points[link.pointCount - 1]);
  const double peers = rankCount - 1;
  const double codecUsPerByte =
      (1.0 / profile.encodeGBps + peers / profile.decodeGBps) / kBytesPerUsOfGBps;
  return linkUsPerByte / codecUsPerByte;
}

double nativeUs(const CallFacts& call, const Profile& profile) noexcept {
  if (call.transportReduces && isReduction(call.collective)) {
    const double onceUs = linkUs(profile.allGather, call.elementCount * call.geometry.elementBytes);
    return call.collective == CollectiveKind::kAllReduce ? 2.0 * onceUs : onceUs;
  }
  return transferUs(call.collective, profile, call.rankCount,
                    call.elementCount * call.geometry.elementBytes);
}

double stagedUs(const CallFacts& call, const Profile& profile, const ChunkPlan& plan,
                FrameLayout layout, const ClassStatistics& statistics) noexcept {
  const std::uint64_t fullChunks = plan.chunkCount - 1;
  const std::uint64_t lastElements = call.elementCount - fullChunks * plan.chunkElements;
  const ChunkCost last = costOf(call, profile, layout, statistics, lastElements);
  if (fullChunks == 0) return last.allUs();
  const ChunkCost full = costOf(call, profile, layout, statistics, plan.chunkElements);
  const auto fullCount = static_cast<double>(fullChunks);
  const double serialUs = fullCount * full.allUs() + last.allUs();
  const bool overlaps = !isGather(call.collective) || plan.chunksInFlight > 1;
  if (!overlaps) return serialUs;
  const double hiddenUs = (fullCount - 1.0) * full.shorterUs() + last.shorterUs();
  return serialUs - overlapOf(call.collective, profile) * hiddenUs;
}

}  // namespace zipccl::policy
