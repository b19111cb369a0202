// SPDX-License-Identifier: Apache-2.0
//
// Lists of interfaces, and NCCL's rules for them.

#include "transport/network_interface.hpp"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string_view>

#include "base/error.hpp"
#include "base/text.hpp"

namespace zipccl::transport {

namespace {

/// A list as NCCL reads it.
class NameList {
 public:
  explicit NameList(std::string_view text) {
    isExclusion_ = take(text, '^');
    isExact_ = take(text, '=');
    while (!text.empty()) {
      const std::size_t comma = std::min(text.find(','), text.size());
      const std::string_view item = text.substr(0, comma);
      const std::string_view name = item.substr(0, item.find(':'));
      if (!name.empty()) names_.push_back(name);
      text.remove_prefix(std::min(comma + 1, text.size()));
    }
  }

  [[nodiscard]] bool allows(std::string_view name) const {
    const auto isMeant = [&](std::string_view listed) {
      return isExact_ ? name == listed : name.starts_with(listed);
    };
    // A list without names is one of all.
    const bool isListed = names_.empty() || std::any_of(names_.begin(), names_.end(), isMeant);
    return isListed != isExclusion_;
  }

 private:
  static bool take(std::string_view& text, char sign) {
    if (!text.starts_with(sign)) return false;
    text.remove_prefix(1);
    return true;
  }

  bool isExclusion_ = false;
  bool isExact_ = false;
  std::vector<std::string_view> names_;
};

bool isOfFamily(const IpAddress& address, std::string_view family) {
  if (family == "AF_INET") return address.family == AF_INET;
  if (family == "AF_INET6") return address.family == AF_INET6;
  return true;
}

bool isCandidate(const NetworkInterface& candidate, std::string_view family) {
  const IpAddress& address = candidate.address;
  return candidate.isRunning && isOfFamily(address, family) &&
         !(address.family == AF_INET6 && address.isLoopback());
}

/// The lists that are tried in turn.
std::vector<std::string_view> listsOf(const SocketRules& rules) {
  if (rules.interfaceNames.size() > 1) return {rules.interfaceNames};
  return {"ib", "^docker,lo,virbr", "docker", "lo", "virbr"};
}

std::string describe(std::span<const NetworkInterface> interfaces) {
  std::string text;
  for (const NetworkInterface& one : interfaces) {
    const std::string endpoint = describeEndpoint(one.address, 0);
    text += concat(text.empty() ? "" : ", ", one.name, " (",
                   endpoint.substr(0, endpoint.rfind(':')), one.isRunning ? ")" : ", down)");
  }
  return text.empty() ? "none at all" : text;
}

std::string valueOf(const char* variable) {
  const char* const value = std::getenv(variable);
  return value == nullptr ? std::string() : value;
}

IpAddress addressOf(const sockaddr& address) {
  IpAddress out;
  if (address.sa_family == AF_INET) {
    sockaddr_in v4{};
    std::memcpy(&v4, &address, sizeof(v4));
    std::memcpy(out.bytes.data(), &v4.sin_addr, sizeof(v4.sin_addr));
  } else if (address.sa_family == AF_INET6) {
    sockaddr_in6 v6{};
    std::memcpy(&v6, &address, sizeof(v6));
    std::memcpy(out.bytes.data(), &v6.sin6_addr, sizeof(v6.sin6_addr));
    out.scope = v6.sin6_scope_id;
  } else {
    return out;
  }
  out.family = address.sa_family;
  return out;
}

}  // namespace

bool IpAddress::isLoopback() const noexcept {
  if (family == AF_INET) return bytes[0] == 127;
  constexpr std::array<std::uint8_t, 16> kLoopback = {0, 0, 0, 0, 0, 0, 0, 0,
                                                      0, 0, 0, 0, 0, 0, 0, 1};
  return family == AF_INET6 && bytes == kLoopback;
}

bool IpAddress::isLinkLocal() const noexcept {
  return family == AF_INET6 && bytes[0] == 0xFE && (bytes[1] & 0xC0) == 0x80;
}

std::string describeEndpoint(const IpAddress& address, std::uint16_t port) {
  char text[INET6_ADDRSTRLEN] = {};
  if (address.family == 0 ||
      ::inet_ntop(address.family, address.bytes.data(), text, sizeof(text)) == nullptr) {
    return "none";
  }
  return address.family == AF_INET6 ? concat('[', text, "]:", port) : concat(text, ':', port);
}

SocketRules readSocketRules() {
  return {valueOf("NCCL_SOCKET_IFNAME"), valueOf("NCCL_SOCKET_FAMILY")};
}

std::vector<NetworkInterface> listNetworkInterfaces() {
  ifaddrs* first = nullptr;
  if (::getifaddrs(&first) != 0) {
    const int error = errno;
    fail(ErrorCode::kSystemError, "the network interfaces cannot be listed: ", errnoText(error));
  }
  const std::unique_ptr<ifaddrs, void (*)(ifaddrs*)> owner(first, ::freeifaddrs);
  std::vector<NetworkInterface> interfaces;
  for (const ifaddrs* entry = first; entry != nullptr; entry = entry->ifa_next) {
    if (entry->ifa_addr == nullptr) continue;
    const IpAddress address = addressOf(*entry->ifa_addr);
    if (address.family == 0) continue;
    interfaces.push_back({entry->ifa_name, (entry->ifa_flags & IFF_RUNNING) != 0, address});
  }
  return interfaces;
}

const NetworkInterface& chooseNetworkInterface(std::span<const NetworkInterface> interfaces,
                                               const SocketRules& rules) {
  for (const std::string_view text : listsOf(rules)) {
    const NameList list(text);
    const auto found =
        std::find_if(interfaces.begin(), interfaces.end(), [&](const NetworkInterface& candidate) {
          return isCandidate(candidate, rules.family) && list.allows(candidate.name);
        });
    if (found != interfaces.end()) return *found;
  }
  fail(ErrorCode::kSystemError,
       "no network interface fits NCCL_SOCKET_IFNAME=", rules.interfaceNames,
       " and NCCL_SOCKET_FAMILY=", rules.family, "; there are ", describe(interfaces),
       ". Let NCCL_SOCKET_IFNAME name one that is up, as for NCCL, or unset it");
}

}  // namespace zipccl::transport
