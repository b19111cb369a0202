// SPDX-License-Identifier: Apache-2.0
//
// What is known of the machine and the link: how fast frames are made and read, and how long the
// transport's own collectives take by size. All ranks of a communicator use the same one.

#pragma once

#include <array>
#include <cstdint>
#include <type_traits>

namespace zipccl::policy {

/// One measured time of a native collective.
struct LinkPoint {
  std::uint64_t bytesPerRank = 0;
  double elapsedUs = 0.0;

  friend bool operator==(const LinkPoint&, const LinkPoint&) = default;
};

/// Times of one native collective for one number of ranks, by size: bytes and times ascend.
struct LinkProfile {
  static constexpr std::uint32_t kMaxPoints = 5;
  /// One point cannot tell latency from bandwidth.
  static constexpr std::uint32_t kLeastPoints = 2;

  std::array<LinkPoint, kMaxPoints> points{};
  std::uint32_t pointCount = 0;
  /// The part of its time that passes while the ranks are in the codec: 0 where their cores move
  /// the data, 1 where links do.
  float overlap = 0.0F;

  friend bool operator==(const LinkProfile&, const LinkProfile&) = default;
};

/// Speeds count uncompressed bytes, 1 GB/s being 1000 bytes a microsecond.
struct Profile {
  double encodeGBps = 0.0;
  double decodeGBps = 0.0;
  double frameUs = 0.0;  ///< what making or reading one frame costs whatever its size
  LinkProfile allGather{};
  LinkProfile exchange{};  ///< every rank sends as many bytes to each other; may have no points

  friend bool operator==(const Profile&, const Profile&) = default;
};
static_assert(std::is_trivially_copyable_v<Profile>, "profiles travel in the handshake");

/// Whether a decision can be made on `profile`: at least two points of the all-gather, points that
/// ascend, speeds above zero, overlaps from 0 to 1, every number finite. A profile that came from
/// elsewhere must pass this first.
[[nodiscard]] bool isUsable(const Profile& profile) noexcept;

}  // namespace zipccl::policy
