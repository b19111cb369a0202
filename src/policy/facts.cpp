// SPDX-License-Identifier: Apache-2.0
//
// Names, and the arithmetic of the statistics that all ranks share: integers only.

#include "policy/facts.hpp"

#include <algorithm>

namespace zipccl::policy {

const char* name(Strategy strategy) noexcept {
  switch (strategy) {
    case Strategy::kNative:
      return "native";
    case Strategy::kStaged:
      return "staged";
  }
  return "unknown";
}

const char* name(FrameLayout layout) noexcept {
  switch (layout) {
    case FrameLayout::kNarrow:
      return "narrow";
    case FrameLayout::kWide:
      return "wide";
  }
  return "unknown";
}

namespace {

ExtraSpace larger(const ExtraSpace& a, const ExtraSpace& b) noexcept {
  return {std::max(a.narrow, b.narrow), std::max(a.wide, b.wide)};
}

BytesPerTile256 perTile(std::uint64_t bytes, std::uint64_t tileCount) noexcept {
  return (bytes * kPerTileUnit + tileCount - 1) / tileCount;
}

}  // namespace

ExtraSpace ClassStatistics::largest() const noexcept {
  ExtraSpace most;
  for (std::uint32_t i = 0; i < observed; ++i) most = larger(most, recent[i]);
  return most;
}

void CallObservation::add(const FrameFacts& frame) noexcept {
  if (frame.tileCount == 0) return;
  const std::uint64_t lowBytes = frame.lowTiles * geometry_.lowPlaneBytes;
  const bool storedInExtra = frame.layout == FrameLayout::kNarrow;
  const std::uint64_t upperBytes =
      storedInExtra ? frame.extraBytes - std::min(frame.extraBytes, lowBytes) : frame.extraBytes;
  extra_ = larger(extra_, {perTile(upperBytes + lowBytes, frame.tileCount),
                           perTile(upperBytes, frame.tileCount)});
}

ClassStatistics afterStaged(ClassStatistics statistics, const ExtraSpace& seen) noexcept {
  if (statistics.nativeStreak != 0) statistics = ClassStatistics{};
  statistics.recent[statistics.next] = seen;
  statistics.next = (statistics.next + 1) % ClassStatistics::kWindow;
  statistics.observed = std::min(statistics.observed + 1, ClassStatistics::kWindow);
  return statistics;
}

ClassStatistics afterNative(ClassStatistics statistics) noexcept {
  ++statistics.nativeStreak;
  return statistics;
}

}  // namespace zipccl::policy
