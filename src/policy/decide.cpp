// SPDX-License-Identifier: Apache-2.0
//
// The decision.

#include "policy/decide.hpp"

#include "base/text.hpp"
#include "policy/chunks.hpp"
#include "policy/cost_model.hpp"

namespace zipccl::policy {
namespace {

Decision native(Reason reason) noexcept { return {.reason = reason}; }

/// The layout whose static part is expected to be smaller.
FrameLayout chooseLayout(const CallFacts& call, std::uint64_t chunkElements) noexcept {
  // Before anything is known narrow is right: its dynamic part carries what it must and no more.
  if (call.geometry.wideTileBytes == 0 || call.statistics.observed == 0) {
    return FrameLayout::kNarrow;
  }
  const auto bytes = [&](FrameLayout layout) {
    return staticBoundBytes(call.geometry, layout, call.statistics, chunkElements);
  };
  return bytes(FrameLayout::kWide) < bytes(FrameLayout::kNarrow) ? FrameLayout::kWide
                                                                 : FrameLayout::kNarrow;
}

Decision staged(const CallFacts& call, const ChunkPlan& plan, Reason reason) noexcept {
  Decision decision;
  decision.strategy = Strategy::kStaged;
  decision.reason = reason;
  decision.layout = chooseLayout(call, plan.chunkElements);
  decision.chunkElements = plan.chunkElements;
  decision.chunkCount = plan.chunkCount;
  decision.chunksInFlight = plan.chunksInFlight;
  decision.poolBytes =
      poolBytes(call.geometry, decision.layout, call.statistics, plan.chunkElements);
  return decision;
}

Decision decideByCost(const CallFacts& call, const Profile& profile,
                      const ChunkPlan& plan) noexcept {
  if (call.linkIsMemory && !call.isProfileGiven) return native(Reason::kLinkIsMemory);
  if (!isUsable(profile)) return native(Reason::kNoProfile);
  if (!call.isProfileGiven && codecLead(profile, call.rankCount) < call.codecLeadNeeded) {
    return native(Reason::kLinkIsFast);
  }
  const double plainUs = nativeUs(call, profile);
  const auto predict = [&](const ClassStatistics& statistics, FrameLayout layout) {
    return stagedUs(call, profile, plan, layout, statistics);
  };
  const auto pays = [&](double us) { return us <= kStagedGainNeeded * plainUs; };

  Decision decision = staged(call, plan, Reason::kStagedIsFaster);
  const double expectedUs = predict(call.statistics, decision.layout);
  if (!pays(expectedUs)) {
    const bool wouldPayOnFreshData = pays(predict(ClassStatistics{}, FrameLayout::kNarrow));
    const bool probe = wouldPayOnFreshData && call.statistics.nativeStreak + 1 >= kProbeInterval;
    decision = probe ? staged(call, plan, Reason::kProbe) : native(Reason::kNativeIsFaster);
  }
  decision.nativeUs = plainUs;
  decision.stagedUs = expectedUs;
  return decision;
}

/// For reductions whose bits depend on the choice: from the table alone, whatever earlier calls
/// were like.
Decision decideByTable(CallFacts call, const Profile& profile, const ChunkPlan& plan) noexcept {
  if (!call.isProfileGiven || !isUsable(profile)) return native(Reason::kNoTable);
  call.statistics = ClassStatistics{};
  return decideByCost(call, profile, plan);
}

std::string roundedUs(double us) {
  // Beyond, which a profile from elsewhere may lead to, a cast has no meaning.
  constexpr double kMostUs = 1e18;
  if (!(us < kMostUs)) return "more than 30000 years";
  return concat(static_cast<std::uint64_t>(us + 0.5), " us");
}

std::string predictions(const Decision& decision) {
  return concat("predicted ", roundedUs(decision.stagedUs), " staged, ",
                roundedUs(decision.nativeUs), " native");
}

}  // namespace

Decision decide(const CallFacts& call, const Profile& profile) noexcept {
  if (call.elementCount == 0 || call.rankCount <= 1) return native(Reason::kNothingToSend);
  if (!call.compressionAgreed) return native(Reason::kSettingsDiffer);
  if (call.settings.strategy == StrategyChoice::kNative) return native(Reason::kNativeForced);
  if (!call.settings.collectives.contains(call.collective)) {
    return native(Reason::kCollectiveOff);
  }
  if (!call.hasFormat) return native(Reason::kNoFormat);
  const bool reduces = isReduction(call.collective);
  if (reduces && !call.isScaledSum) return native(Reason::kOtherOperation);
  if (reduces && call.settings.reduce == ReduceMode::kOff) return native(Reason::kReduceOff);
  if (call.elementCount * call.geometry.elementBytes < call.settings.minBytes) {
    return native(Reason::kBelowMinBytes);
  }
  const ChunkPlan plan = planChunks(call.collective, call.geometry, call.rankCount,
                                    call.settings.maxScratchBytes, call.elementCount, call.overlap);
  if (plan.chunkCount == 0) return native(Reason::kScratchTooSmall);
  const bool isReduceForced = reduces && call.settings.reduce == ReduceMode::kOn;
  if (call.settings.strategy != StrategyChoice::kAuto || isReduceForced) {
    return staged(call, plan, Reason::kStagedForced);
  }
  if (plan.chunkCount > 1 && plan.chunkElements * call.geometry.elementBytes < kMinChunkBytes) {
    return native(Reason::kChunksTooSmall);
  }
  if (reduces && (call.rankCount > 2 || !call.keepsRounding)) {
    return decideByTable(call, profile, plan);
  }
  return decideByCost(call, profile, plan);
}

std::string describe(const Decision& decision) {
  std::string strategy = concat(name(decision.strategy), ": ");
  switch (decision.reason) {
    case Reason::kSettingsDiffer:
      return concat(strategy, "settings differ between ranks");
    case Reason::kNativeForced:
    case Reason::kStagedForced:
      return concat(strategy, "asked for");
    case Reason::kCollectiveOff:
      return concat(strategy, "this collective is not to be compressed");
    case Reason::kNoFormat:
      return concat(strategy, "the datatype has no frame format");
    case Reason::kOtherOperation:
      return concat(strategy, "only Sum, Avg and PreMulSum are compressed");
    case Reason::kReduceOff:
      return concat(strategy, "reductions are not to be compressed");
    case Reason::kNoTable:
      return concat(strategy, "no table says that compressing a reduction pays");
    case Reason::kNothingToSend:
      return concat(strategy, "nothing to send");
    case Reason::kBelowMinBytes:
      return concat(strategy, "below the minimum of bytes");
    case Reason::kScratchTooSmall:
      return concat(strategy, "no room in scratch");
    case Reason::kChunksTooSmall:
      return concat(strategy, "scratch would cut it into chunks below ", kMinChunkBytes, " bytes");
    case Reason::kLinkIsMemory:
      return concat(strategy, "memory is as fast as any codec that writes to it");
    case Reason::kLinkIsFast:
      return concat(strategy, "the link is nearly as fast as the codec, and shares its processor");
    case Reason::kNoProfile:
      return concat(strategy, "no profile of link and codec");
    case Reason::kNotInGroup:
      return concat(strategy, "not in a group");
    case Reason::kPassesThrough:
      return concat(strategy, "to itself, captured into a graph, or in a symmetric window");
    case Reason::kNothingSaved:
      return concat(strategy, "a frame would be as large");
    case Reason::kNativeIsFaster:
    case Reason::kStagedIsFaster:
      return concat(strategy, predictions(decision));
    case Reason::kProbe:
      return concat(strategy, "a probe, ", predictions(decision));
  }
  return strategy;
}

}  // namespace zipccl::policy
