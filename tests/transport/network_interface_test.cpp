// SPDX-License-Identifier: Apache-2.0
//
// Which network interface is chosen: NCCL's rules over lists of interfaces, and this host's list.

#include "transport/network_interface.hpp"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <vector>

#include "base/error.hpp"

namespace zipccl::transport {
namespace {

IpAddress parse(const std::string& text) {
  IpAddress address;
  address.family = text.find(':') == std::string::npos ? AF_INET : AF_INET6;
  EXPECT_EQ(::inet_pton(address.family, text.c_str(), address.bytes.data()), 1) << text;
  return address;
}

NetworkInterface running(const std::string& name, const std::string& address) {
  return {name, true, parse(address)};
}

NetworkInterface down(const std::string& name, const std::string& address) {
  return {name, false, parse(address)};
}

/// `name address` of what is chosen, or `none`.
std::string chosen(const std::vector<NetworkInterface>& interfaces, const std::string& names = "",
                   const std::string& family = "") {
  try {
    const NetworkInterface& choice = chooseNetworkInterface(interfaces, {names, family});
    const std::string endpoint = describeEndpoint(choice.address, 0);
    return choice.name + " " + endpoint.substr(0, endpoint.rfind(':'));
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kSystemError);
    return "none";
  }
}

std::vector<NetworkInterface> usualHost() {
  return {running("lo", "127.0.0.1"),    running("docker0", "172.17.0.1"),
          down("eno0", "10.9.0.1"),      running("eth0", "10.0.0.1"),
          running("eth1", "10.1.0.1"),   running("eth10", "10.10.0.1"),
          running("virbr0", "10.8.0.1"), running("lo", "::1"),
          running("eth0", "fd00::1"),    running("eth1", "fe80::1")};
}

TEST(NetworkInterface, TheFirstThatRunsAndIsNoneOfTheSpecialOnes) {
  EXPECT_EQ(chosen(usualHost()), "eth0 10.0.0.1");
}

TEST(NetworkInterface, InfinibandComesFirst) {
  std::vector<NetworkInterface> host = usualHost();
  host.push_back(down("ib0", "10.2.0.1"));
  host.push_back(running("ibp3s0", "10.3.0.1"));
  EXPECT_EQ(chosen(host), "ibp3s0 10.3.0.1");
}

TEST(NetworkInterface, TheSpecialOnesComeLastInNcclsOrder) {
  std::vector<NetworkInterface> host = {running("virbr0", "10.8.0.1"), running("lo", "127.0.0.1"),
                                        running("docker0", "172.17.0.1")};
  EXPECT_EQ(chosen(host), "docker0 172.17.0.1");
  host.pop_back();
  EXPECT_EQ(chosen(host), "lo 127.0.0.1");
  host.pop_back();
  EXPECT_EQ(chosen(host), "virbr0 10.8.0.1");
}

TEST(NetworkInterface, NamesArePrefixes) {
  EXPECT_EQ(chosen(usualHost(), "eth1"), "eth1 10.1.0.1");
  EXPECT_EQ(chosen(usualHost(), "eth10"), "eth10 10.10.0.1");
  EXPECT_EQ(chosen(usualHost(), "docker,eth1"), "docker0 172.17.0.1");
  EXPECT_EQ(chosen(usualHost(), "wlan,virbr"), "virbr0 10.8.0.1");
  EXPECT_EQ(chosen(usualHost(), "lo"), "lo 127.0.0.1");
  EXPECT_EQ(chosen(usualHost(), "eno"), "none") << "it is down";
}

TEST(NetworkInterface, AnEqualsSignAsksForWholeNames) {
  EXPECT_EQ(chosen(usualHost(), "=eth"), "none");
  EXPECT_EQ(chosen(usualHost(), "=eth10"), "eth10 10.10.0.1");
  EXPECT_EQ(chosen(usualHost(), "=eth10,eth1"), "eth1 10.1.0.1") << "the host's order counts";
  EXPECT_EQ(chosen(usualHost(), "=wlan0,=eth1"), "none") << "the sign stands once, at the start";
}

TEST(NetworkInterface, ACaretExcludes) {
  EXPECT_EQ(chosen(usualHost(), "^lo,docker"), "eth0 10.0.0.1");
  EXPECT_EQ(chosen(usualHost(), "^lo,docker,eth"), "virbr0 10.8.0.1");
  EXPECT_EQ(chosen(usualHost(), "^docker"), "lo 127.0.0.1") << "the usual order counts no more";
  EXPECT_EQ(chosen(usualHost(), "^=lo,docker0,eth0,eth1"), "eth10 10.10.0.1");
  EXPECT_EQ(chosen(usualHost(), "^=lo,docker,eth"), "docker0 172.17.0.1");
  EXPECT_EQ(chosen(usualHost(), "^lo,docker,eth,virbr"), "none");
}

TEST(NetworkInterface, OddListsAreReadAsNcclReadsThem) {
  EXPECT_EQ(chosen(usualHost(), "e"), "eth0 10.0.0.1") << "one character counts as nothing";
  EXPECT_EQ(chosen(usualHost(), "^"), "eth0 10.0.0.1");
  EXPECT_EQ(chosen(usualHost(), ",,eth1,"), "eth1 10.1.0.1");
  EXPECT_EQ(chosen(usualHost(), "eth1:4,virbr"), "eth1 10.1.0.1") << "a port is for other lists";
  EXPECT_EQ(chosen(usualHost(), "^="), "none") << "all but all";
  EXPECT_EQ(chosen(usualHost(), ",,"), "lo 127.0.0.1") << "a list of nothing is one of all";
}

TEST(NetworkInterface, AFamilyMayBeAskedFor) {
  EXPECT_EQ(chosen(usualHost(), "", "AF_INET"), "eth0 10.0.0.1");
  EXPECT_EQ(chosen(usualHost(), "", "AF_INET6"), "eth0 [fd00::1]");
  EXPECT_EQ(chosen(usualHost(), "eth1", "AF_INET6"), "eth1 [fe80::1]");
  EXPECT_EQ(chosen(usualHost(), "eth10", "AF_INET6"), "none");
  EXPECT_EQ(chosen(usualHost(), "lo", "AF_INET6"), "none") << "never the loopback address of IPv6";
  EXPECT_EQ(chosen(usualHost(), "", "ipv6"), "eth0 10.0.0.1") << "anything else means both";
  EXPECT_EQ(chosen({running("eth0", "fd00::1")}), "eth0 [fd00::1]");
}

TEST(NetworkInterface, AFailureTellsWhatThereIsAndWhatToSet) {
  try {
    static_cast<void>(chooseNetworkInterface(usualHost(), {"=wlan0", "AF_INET"}));
    FAIL() << "nothing fits";
  } catch (const Error& error) {
    for (const char* const part :
         {"NCCL_SOCKET_IFNAME==wlan0", "NCCL_SOCKET_FAMILY=AF_INET", "eth0 (10.0.0.1)",
          "eno0 (10.9.0.1, down)", "eth0 ([fd00::1])"}) {
      EXPECT_NE(error.message().find(part), std::string::npos) << part << ": " << error.message();
    }
  }
  EXPECT_EQ(chosen({}), "none");
}

TEST(NetworkInterface, TheVariablesAreReadEachTime) {
  ASSERT_EQ(::setenv("NCCL_SOCKET_IFNAME", "^eth", 1), 0);
  ASSERT_EQ(::setenv("NCCL_SOCKET_FAMILY", "AF_INET6", 1), 0);
  EXPECT_EQ(readSocketRules().interfaceNames, "^eth");
  EXPECT_EQ(readSocketRules().family, "AF_INET6");
  ::unsetenv("NCCL_SOCKET_IFNAME");
  ::unsetenv("NCCL_SOCKET_FAMILY");
  EXPECT_EQ(readSocketRules().interfaceNames, "");
  EXPECT_EQ(readSocketRules().family, "");
}

TEST(NetworkInterface, TheHostsLoopbackIsListed) {
  const std::vector<NetworkInterface> interfaces = listNetworkInterfaces();
  EXPECT_TRUE(std::any_of(interfaces.begin(), interfaces.end(), [](const NetworkInterface& one) {
    return one.name == "lo" && one.isRunning && one.address == parse("127.0.0.1");
  }));
}

TEST(NetworkInterface, AddressesKnowTheirKind) {
  EXPECT_TRUE(parse("127.0.0.1").isLoopback());
  EXPECT_TRUE(parse("127.8.0.1").isLoopback());
  EXPECT_TRUE(parse("::1").isLoopback());
  EXPECT_FALSE(parse("::2").isLoopback());
  EXPECT_FALSE(parse("10.0.0.1").isLoopback());
  EXPECT_TRUE(parse("fe80::1").isLinkLocal());
  EXPECT_TRUE(parse("febf::1").isLinkLocal());
  EXPECT_FALSE(parse("fec0::1").isLinkLocal());
  EXPECT_FALSE(parse("fd00::1").isLinkLocal());
  EXPECT_FALSE(parse("254.128.0.1").isLinkLocal());
  EXPECT_EQ(describeEndpoint(parse("10.0.0.1"), 80), "10.0.0.1:80");
  EXPECT_EQ(describeEndpoint(parse("fd00::2"), 4711), "[fd00::2]:4711");
  EXPECT_EQ(describeEndpoint(IpAddress(), 1), "none");
}

}  // namespace
}  // namespace zipccl::transport
