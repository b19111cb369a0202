// SPDX-License-Identifier: Apache-2.0
//
// The collectives by name: the kinds that can be chosen in settings, decided on by the policy, and
// counted in statistics.

#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

namespace zipccl {

/// A call that may travel compressed. Grouped ncclSend and ncclRecv are kSendRecv.
enum class CollectiveKind : std::uint8_t {
  kAllGather,
  kAllReduce,
  kAlltoAll,
  kAlltoAllv,
  kBroadcast,
  kGather,
  kReduceScatter,
  kScatter,
  kSendRecv,
};

inline constexpr std::array kAllCollectiveKinds = {
    CollectiveKind::kAllGather,     CollectiveKind::kAllReduce, CollectiveKind::kAlltoAll,
    CollectiveKind::kAlltoAllv,     CollectiveKind::kBroadcast, CollectiveKind::kGather,
    CollectiveKind::kReduceScatter, CollectiveKind::kScatter,   CollectiveKind::kSendRecv,
};

/// NCCL's spelling, such as `AllGather`.
[[nodiscard]] constexpr std::string_view collectiveName(CollectiveKind kind) noexcept {
  switch (kind) {
    case CollectiveKind::kAllGather:
      return "AllGather";
    case CollectiveKind::kAllReduce:
      return "AllReduce";
    case CollectiveKind::kAlltoAll:
      return "AlltoAll";
    case CollectiveKind::kAlltoAllv:
      return "AlltoAllv";
    case CollectiveKind::kBroadcast:
      return "Broadcast";
    case CollectiveKind::kGather:
      return "Gather";
    case CollectiveKind::kReduceScatter:
      return "ReduceScatter";
    case CollectiveKind::kScatter:
      return "Scatter";
    case CollectiveKind::kSendRecv:
      return "SendRecv";
  }
  return "unknown";
}

/// The kind of that name in any case of letters, if there is one.
[[nodiscard]] std::optional<CollectiveKind> collectiveByName(std::string_view name) noexcept;

/// A set of collectives.
class CollectiveSet {
 public:
  constexpr CollectiveSet() noexcept = default;

  [[nodiscard]] static constexpr CollectiveSet all() noexcept {
    CollectiveSet set;
    for (const CollectiveKind kind : kAllCollectiveKinds) set.insert(kind);
    return set;
  }

  constexpr void insert(CollectiveKind kind) noexcept { bits_ |= bit(kind); }
  constexpr void erase(CollectiveKind kind) noexcept { bits_ &= ~bit(kind); }
  [[nodiscard]] constexpr bool contains(CollectiveKind kind) const noexcept {
    return (bits_ & bit(kind)) != 0;
  }
  [[nodiscard]] constexpr bool isEmpty() const noexcept { return bits_ == 0; }
  friend constexpr bool operator==(CollectiveSet, CollectiveSet) noexcept = default;

 private:
  static constexpr std::uint32_t bit(CollectiveKind kind) noexcept {
    return 1U << static_cast<std::uint32_t>(kind);
  }

  std::uint32_t bits_ = 0;
};

}  // namespace zipccl
