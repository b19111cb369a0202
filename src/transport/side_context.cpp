// SPDX-License-Identifier: Apache-2.0
//
// The ranks of a side channel in words.

#include "transport/side_context.hpp"

#include "base/text.hpp"

namespace zipccl::transport {

IpAddress SideContext::ipOf(int peer) const {
  const SideAddress& address = addresses[static_cast<std::size_t>(peer)];
  IpAddress ip{address.family, address.bytes, 0};
  // The number that the peer's host has for its interface means nothing here.
  if (ip.isLinkLocal()) ip.scope = networkInterface.address.scope;
  return ip;
}

std::string SideContext::describe(int peer) const {
  if (addresses.empty()) return concat("rank ", peer);
  const SideAddress& address = addresses[static_cast<std::size_t>(peer)];
  return concat("rank ", peer, " at ", describeEndpoint(ipOf(peer), address.port));
}

std::string SideContext::describeSelf() const {
  return concat("rank ", rank, " at ", describeEndpoint(networkInterface.address, own.port), " (",
                networkInterface.name, ')');
}

std::string SideContext::hint() const {
  return concat(
      ". The ranks must reach each other by TCP at these addresses: let NCCL_SOCKET_IFNAME name "
      "interfaces of one network, as for NCCL (on this host it is ",
      rules.interfaceNames.empty() ? "not set" : rules.interfaceNames, ")");
}

}  // namespace zipccl::transport
