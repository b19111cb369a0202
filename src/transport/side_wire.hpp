// SPDX-License-Identifier: Apache-2.0
//
// What the ends of a side channel say to each other, in the byte order of the hosts, which must be
// the same:
//
//   sender                          receiver
//     SideHello            ------>             once
//                          <------  SideWelcome  once; only then does the sender send more
//     SideMessageHeader    ------>             and as many bytes as it says, any number of times
//
// Each end shows the other's token, which only members of the communicator know. After its welcome
// the receiver sends nothing, so a sender that closes leaves nothing unread, and what it sent still
// arrives.

#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "base/random.hpp"

namespace zipccl::transport {

/// Where a rank listens, for the records of a handshake. All zeros are none.
struct SideAddress {
  std::uint64_t token = 0;               ///< random; who connects must show it
  std::array<std::uint8_t, 16> bytes{};  ///< the IP address, as in IpAddress
  std::uint16_t family = 0;
  std::uint16_t port = 0;
  std::uint32_t reserved = 0;  ///< zero

  [[nodiscard]] bool isPresent() const noexcept { return family != 0; }

  friend bool operator==(const SideAddress&, const SideAddress&) = default;
};

inline constexpr std::uint32_t kSideVersion = 1;

struct SideHello {
  static constexpr std::uint64_t kMagic = 0x9D1C6A5B4E2F8037u;

  std::uint64_t magic = kMagic;
  std::uint32_t version = kSideVersion;
  std::int32_t rank = 0;    ///< of the sender
  std::uint64_t token = 0;  ///< of the receiver

  friend bool operator==(const SideHello&, const SideHello&) = default;
};

struct SideWelcome {
  static constexpr std::uint64_t kMagic = 0xB7E04D93C85A216Fu;

  std::uint64_t magic = kMagic;
  std::uint32_t version = kSideVersion;
  std::int32_t rank = 0;    ///< of the receiver
  std::uint64_t token = 0;  ///< of the sender

  friend bool operator==(const SideWelcome&, const SideWelcome&) = default;
};

/// Its seal is over the rest: who believed a damaged size would wait for bytes that never come, or
/// take bytes of a message for a header.
struct SideMessageHeader {
  std::uint64_t bytes = 0;  ///< of the message behind this header
  std::uint64_t call = 0;
  std::uint64_t chunk = 0;
  std::uint64_t seal = 0;  ///< expectedSeal()

  [[nodiscard]] constexpr std::uint64_t expectedSeal() const noexcept {
    std::uint64_t state = bytes;
    state = splitMix64(state) ^ call;
    state = splitMix64(state) ^ chunk;
    return splitMix64(state);
  }
};

[[nodiscard]] constexpr SideMessageHeader sealedHeader(std::uint64_t bytes, std::uint64_t call,
                                                       std::uint64_t chunk) noexcept {
  SideMessageHeader header{.bytes = bytes, .call = call, .chunk = chunk};
  header.seal = header.expectedSeal();
  return header;
}

static_assert(sizeof(SideAddress) == 32 && offsetof(SideAddress, family) == 24);
static_assert(sizeof(SideHello) == 24 && offsetof(SideHello, token) == 16);
static_assert(sizeof(SideWelcome) == 24 && offsetof(SideWelcome, token) == 16);
static_assert(sizeof(SideMessageHeader) == 32 && offsetof(SideMessageHeader, seal) == 24);
static_assert(std::is_trivially_copyable_v<SideAddress> &&
              std::is_trivially_copyable_v<SideHello> &&
              std::is_trivially_copyable_v<SideWelcome> &&
              std::is_trivially_copyable_v<SideMessageHeader>);

}  // namespace zipccl::transport
