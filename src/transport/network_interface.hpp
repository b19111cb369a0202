// SPDX-License-Identifier: Apache-2.0
//
// The network interfaces of this host, and which of them NCCL would choose for its bootstrap: the
// rules of NCCL_SOCKET_IFNAME and NCCL_SOCKET_FAMILY as a pure function over a list of interfaces.

#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace zipccl::transport {

/// An address of IPv4 or IPv6, without a port.
struct IpAddress {
  std::uint16_t family = 0;              ///< AF_INET, AF_INET6, or zero for none
  std::array<std::uint8_t, 16> bytes{};  ///< in network order; of IPv4 the first four
  std::uint32_t scope = 0;               ///< of a link-local address: this host's interface number

  [[nodiscard]] bool isLoopback() const noexcept;
  [[nodiscard]] bool isLinkLocal() const noexcept;

  friend bool operator==(const IpAddress&, const IpAddress&) = default;
};

/// `10.0.0.1:4711`, `[fd00::2]:4711`; `none` for none.
[[nodiscard]] std::string describeEndpoint(const IpAddress& address, std::uint16_t port);

/// One address of an interface; an interface with several addresses is listed several times.
struct NetworkInterface {
  std::string name;
  bool isRunning = false;  ///< up, and its link too
  IpAddress address;
};

/// The values of NCCL's variables, empty where they are not set.
struct SocketRules {
  std::string interfaceNames;  ///< NCCL_SOCKET_IFNAME
  std::string family;          ///< NCCL_SOCKET_FAMILY
};

/// The variables as they are in the environment now. They are no part of Settings, which are read
/// at the first call: NCCL puts what its configuration files say into the environment later, as it
/// starts.
[[nodiscard]] SocketRules readSocketRules();

/// All addresses of IPv4 and IPv6 of this host, in the system's order. Throws Error(kSystemError).
[[nodiscard]] std::vector<NetworkInterface> listNetworkInterfaces();

/// The interface that NCCL's bootstrap would take, which is the first that fits:
///  - one that runs, of the family that is named: AF_INET or AF_INET6; any other value means both;
///  - never the IPv6 loopback address;
///  - where `interfaceNames` is longer than one character: one of that list. `A,B` are prefixes of
///    names, `=A,B` whole names, `^A,B` and `^=A,B` all but those. What follows a colon is a port
///    of another use of such lists, and is ignored;
///  - else `ib*`, then what is neither `docker*` nor `lo*` nor `virbr*`, then `docker*`, then
///    `lo*`, then `virbr*`.
/// NCCL_COMM_ID, which would point to a subnet, is not looked at. Throws Error(kSystemError), with
/// the interfaces that there are and what to set, where none fits.
[[nodiscard]] const NetworkInterface& chooseNetworkInterface(
    std::span<const NetworkInterface> interfaces, const SocketRules& rules);

}  // namespace zipccl::transport
