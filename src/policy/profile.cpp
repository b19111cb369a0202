// SPDX-License-Identifier: Apache-2.0
//
// Checks of a profile.

#include "policy/profile.hpp"

#include <limits>

namespace zipccl::policy {
namespace {

constexpr double kLargest = std::numeric_limits<double>::max();

bool isPositive(double value) noexcept { return value > 0.0 && value <= kLargest; }

bool isSound(const LinkProfile& link) noexcept {
  if (link.pointCount < LinkProfile::kLeastPoints || link.pointCount > LinkProfile::kMaxPoints) {
    return false;
  }
  if (!(link.overlap >= 0.0F && link.overlap <= 1.0F)) return false;
  for (std::uint32_t i = 0; i < link.pointCount; ++i) {
    const LinkPoint& point = link.points[i];
    if (!isPositive(point.elapsedUs)) return false;
    if (i == 0) continue;
    const LinkPoint& previous = link.points[i - 1];
    if (point.bytesPerRank <= previous.bytesPerRank || point.elapsedUs < previous.elapsedUs) {
      return false;
    }
  }
  return true;
}

}  // namespace

bool isUsable(const Profile& profile) noexcept {
  return isPositive(profile.encodeGBps) && isPositive(profile.decodeGBps) &&
         profile.frameUs >= 0.0 && profile.frameUs <= kLargest && isSound(profile.allGather) &&
         (profile.exchange.pointCount == 0 || isSound(profile.exchange));
}

}  // namespace zipccl::policy
