// SPDX-License-Identifier: Apache-2.0
//
// The tune file of communicators of NCCL: what it has is not measured, and what was measured is
// in it afterwards.

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "collectives/test_settings.hpp"
#include "collectives/tune_file.hpp"
#include "fake_nccl.h"
#include "nccl_ranks.hpp"

namespace zipccl::collectives::testing {
namespace {

/// The profiles that the ranks of a communicator of NCCL have, and whether a file gave them.
struct Found {
  std::vector<policy::Profile> profiles;
  std::vector<bool> areGiven;
};

Found attachRanks(int ranks, const std::string& file) {
  std::vector<CommunicatorSettings> settings(static_cast<std::size_t>(ranks), testSettings());
  for (CommunicatorSettings& each : settings) {
    each.agreed.strategy = StrategyChoice::kAuto;
    each.profile.reset();
  }
  settings[0].tuneFile = file;
  Found found;
  found.profiles.resize(static_cast<std::size_t>(ranks));
  std::vector<char> areGiven(static_cast<std::size_t>(ranks));
  onNcclRanks(settings, [&](NcclRank& rank) {
    found.profiles[static_cast<std::size_t>(rank.rank)] = rank.communicator->profile;
    areGiven[static_cast<std::size_t>(rank.rank)] = rank.communicator->isProfileGiven ? 1 : 0;
  });
  found.areGiven.assign(areGiven.begin(), areGiven.end());
  return found;
}

TEST(NcclTuneFile, IsWrittenWhereItLacksAProfileAndReadWhereItHasOne) {
  fakeFaultsClear();
  fakeSetJitterUs(0);
  std::string folder = (std::filesystem::temp_directory_path() / "zipccl-tune-XXXXXX").string();
  ASSERT_NE(::mkdtemp(folder.data()), nullptr);
  const std::string path = folder + "/tune.txt";

  const Found measured = attachRanks(2, path);
  EXPECT_EQ(measured.areGiven, std::vector<bool>(2, false));
  EXPECT_EQ(TuneFile(path).find("nccl/ranks=2/hosts=1"), measured.profiles[0]);

  policy::Profile given = measured.profiles[0];
  given.encodeGBps = 12.5;
  TuneFile(path).add("nccl/ranks=3/hosts=1", given);
  const Found read = attachRanks(3, path);
  EXPECT_EQ(read.areGiven, std::vector<bool>(3, true));
  EXPECT_EQ(read.profiles, std::vector<policy::Profile>(3, given));
  std::filesystem::remove_all(folder);
  EXPECT_EQ(fakeFaultCount(), 0) << fakeFaultText();
}

}  // namespace
}  // namespace zipccl::collectives::testing
