// SPDX-License-Identifier: Apache-2.0
//
// Facts and profiles for the tests of the policy.

#pragma once

#include <cstdint>

#include "base/random.hpp"
#include "policy/facts.hpp"
#include "policy/profile.hpp"

namespace zipccl::policy::testing {

/// Frames of bf16 as docs/format.md has them: 1408 bytes of record, 4 of descriptor, an eighth
/// of 8.
inline FrameGeometry bfloat16Geometry() {
  return {.elementBytes = 2,
          .tileElements = 1024,
          .groupElements = 8192,
          .frameOverheadBytes = 512,
          .narrowTileBytes = 1413,
          .wideTileBytes = 0,
          .maxNarrowExtraBytes = 640,
          .maxWideExtraBytes = 0,
          .lowPlaneBytes = 0,
          .defaultPoolBytes = 36,
          .poolAlignment = 128};
}

inline FrameGeometry float32Geometry() {
  FrameGeometry geometry = bfloat16Geometry();
  geometry.elementBytes = 4;
  geometry.wideTileBytes = 3461;
  geometry.maxNarrowExtraBytes = 2688;
  geometry.maxWideExtraBytes = 640;
  geometry.lowPlaneBytes = 2048;
  return geometry;
}

/// `linkGBps` for each rank's contribution, after `latencyUs`.
inline LinkProfile affineLink(double latencyUs, double linkGBps) {
  LinkProfile link;
  link.pointCount = 2;
  link.points[0] = {0, latencyUs};
  link.points[1] = {1'000'000, latencyUs + 1e6 / (linkGBps * 1000.0)};
  return link;
}

inline Profile slowLink() {
  return {.encodeGBps = 2.0, .decodeGBps = 4.0, .frameUs = 5.0, .allGather = affineLink(50, 0.1)};
}

inline Profile fastLink() {
  return {.encodeGBps = 1.0, .decodeGBps = 1.0, .frameUs = 5.0, .allGather = affineLink(5, 50)};
}

inline CallFacts bfloat16Call(std::uint64_t elementCount, int rankCount = 4) {
  CallFacts call;
  call.elementCount = elementCount;
  call.rankCount = rankCount;
  call.hasFormat = true;
  call.geometry = bfloat16Geometry();
  call.settings.maxScratchBytes = std::uint64_t{256} << 20;
  return call;
}

inline CallFacts float32Call(std::uint64_t elementCount, int rankCount = 4) {
  CallFacts call = bfloat16Call(elementCount, rankCount);
  call.geometry = float32Geometry();
  return call;
}

/// A usable profile with up to kMaxPoints points and speeds over four decades.
inline Profile randomProfile(Random& random) {
  const auto speed = [&] {
    double value = 0.05 * (1.0 + random.uniform());
    for (std::uint64_t i = random.below(12); i > 0; --i) value *= 2.0;
    return value;
  };
  Profile profile{.encodeGBps = speed(), .decodeGBps = speed(), .frameUs = random.uniform() * 50};
  profile.allGather.pointCount = static_cast<std::uint32_t>(
      random.between(LinkProfile::kLeastPoints, LinkProfile::kMaxPoints));
  std::uint64_t bytes = random.below(1000);
  double us = 1.0 + random.uniform() * 100;
  for (std::uint32_t i = 0; i < profile.allGather.pointCount; ++i) {
    profile.allGather.points[i] = {bytes, us};
    bytes += random.between(1, 1 << 22);
    us += random.uniform() * 5000;
  }
  return profile;
}

}  // namespace zipccl::policy::testing
