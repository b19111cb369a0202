// SPDX-License-Identifier: Apache-2.0
//
// What processes of the command's own find in their environment. The test starts itself again: a
// process of it that finds kForm there is a rank.

#include "perf_nccl/own_processes.hpp"

#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

namespace zipccl::tools::perf_nccl {
namespace {

constexpr const char* kForm = "ZIPCCL_TEST_OWN_RANK";

std::string variable(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? "" : value;
}

/// In a rank.
void expectEnvironment(const std::string& form) {
  const std::string host = variable("NCCL_HOSTID");
  ASSERT_FALSE(variable("RANK").empty());
  EXPECT_EQ(variable("LOCAL_RANK"), variable("RANK"));
  if (form == "three ranks, enough devices") {
    EXPECT_EQ(variable("WORLD_SIZE"), "3");
    EXPECT_EQ(host, "");
  } else {
    // Ranks 0 and 1 have a device each, so do 2 and 3: two hosts, and 4 alone is a third.
    EXPECT_EQ(form, "five ranks, two devices");
    EXPECT_EQ(variable("WORLD_SIZE"), "5");
    EXPECT_EQ(host, ownHostId(std::stoi(variable("RANK")), 5, 2));
    EXPECT_TRUE(isOwnHostId(host.c_str())) << host;
  }
}

ExitStatus runRanks(const char* form, int ranks, int devices) {
  ::unsetenv("NCCL_HOSTID");
  ::setenv(kForm, form, 1);
  const ExitStatus status =
      runProcesses({"tools_test", "--gtest_filter=OwnProcesses.FindThemselvesInTheirEnvironment"},
                   ranks, devices);
  // What a launcher sets is not for other tests of this process.
  for (const char* name : {kForm, "RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE",
                           "MASTER_ADDR", "MASTER_PORT", "NCCL_HOSTID"}) {
    ::unsetenv(name);
  }
  return status;
}

TEST(OwnProcesses, FindThemselvesInTheirEnvironment) {
  if (const std::string form = variable(kForm); !form.empty()) {
    expectEnvironment(form);
    return;
  }
  EXPECT_EQ(runRanks("three ranks, enough devices", 3, 4), ExitStatus::kSuccess);
  EXPECT_EQ(runRanks("three ranks, enough devices", 3, 3), ExitStatus::kSuccess);
  EXPECT_EQ(runRanks("five ranks, two devices", 5, 2), ExitStatus::kSuccess);
  // That ranks look at all.
  EXPECT_NE(runRanks("three ranks, enough devices", 3, 2), ExitStatus::kSuccess);
  EXPECT_NE(runRanks("five ranks, two devices", 5, 5), ExitStatus::kSuccess);
}

TEST(OwnProcesses, OfOneDeviceAreOnHostsOfTheirOwn) {
  EXPECT_EQ(ownHostId(3, 4, 4), std::nullopt);
  EXPECT_EQ(ownHostId(0, 5, 2), ownHostId(1, 5, 2));
  EXPECT_NE(ownHostId(1, 5, 2), ownHostId(2, 5, 2));
  EXPECT_NE(ownHostId(2, 5, 2), ownHostId(4, 5, 2));
  EXPECT_FALSE(isOwnHostId(nullptr));
  EXPECT_FALSE(isOwnHostId(""));
  EXPECT_FALSE(isOwnHostId("node7"));
}

}  // namespace
}  // namespace zipccl::tools::perf_nccl
