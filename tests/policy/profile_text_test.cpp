// SPDX-License-Identifier: Apache-2.0
//
// Profiles as text: the same profile comes back, and what is none is refused.

#include "policy/profile_text.hpp"

#include <gtest/gtest.h>

#include <string>

#include "policy_samples.hpp"
#include "support/seeded_test.hpp"

namespace zipccl::policy {
namespace {

class ProfileText : public zipccl::testing::SeededTest {};

TEST_F(ProfileText, GivesTheSameProfileBack) {
  for (int i = 0; i < 1000; ++i) {
    Profile profile = testing::randomProfile(random_);
    if (random_.chance(0.3)) profile.exchange = {};
    ASSERT_TRUE(isUsable(profile));
    const std::string text = profileText(profile);
    EXPECT_EQ(profileOfText(text), profile) << text;
  }
}

TEST_F(ProfileText, IsWhatTheHeaderShows) {
  Profile profile{.encodeGBps = 1650.5, .decodeGBps = 1702.0, .frameUs = 9.5};
  profile.allGather.points = {{{4096, 21.5}, {8'388'608, 360.0}}};
  profile.allGather.pointCount = 2;
  profile.allGather.overlap = 1.0F;
  const std::string text = "encode=1650.5 decode=1702 frame=9.5 gather=4096:21.5,8388608:360/1";
  EXPECT_EQ(profileText(profile), text);
  EXPECT_EQ(profileOfText("  " + text + " "), profile);
}

TEST_F(ProfileText, RefusesWhatIsNone) {
  const std::string good = "encode=1650.5 decode=1702 frame=9.5 gather=4096:21.5,8388608:360/1";
  ASSERT_TRUE(profileOfText(good));
  for (const char* const bad : {"",
                                "encode=1",
                                "words",
                                "encode=1 decode=1 frame=0 gather=1:1/1",
                                "encode=0 decode=1 frame=0 gather=1:1,2:2/1",
                                "encode=1 decode=1 frame=0 gather=1:1,2:2",
                                "encode=1 decode=1 frame=0 gather=2:1,1:2/1",
                                "encode=1 decode=1 frame=0 gather=1:2,2:1/1",
                                "encode=1 decode=1 frame=0 gather=1:1,2:2/2",
                                "encode=1 decode=1 frame=0 gather=1:1,2:/1",
                                "encode=1 decode=1 frame=0 gather=1:1,,2:2/1",
                                "encode=1 decode=1 frame=0 gather=1,2/1",
                                "encode=inf decode=1 frame=0 gather=1:1,2:2/1",
                                "encode=nan decode=1 frame=0 gather=1:1,2:2/1",
                                "encode=1x decode=1 frame=0 gather=1:1,2:2/1",
                                "encode=1 decode=1 frame=-1 gather=1:1,2:2/1",
                                "encode=1 decode=1 frame=0 gather=1:1,2:2/1 gather=1:1,2:2/1",
                                "encode=1 decode=1 frame=0 gather=1:1,2:2,3:3,4:4,5:5,6:6/1",
                                "encode=1 decode=1 frame=0 gather=1:1,2:2/1 speed=3",
                                "encode=1 decode=1 frame=0 gather=-1:1,2:2/1"}) {
    EXPECT_FALSE(profileOfText(bad)) << bad;
  }
  for (int i = 0; i < 20'000; ++i) {
    std::string text = good;
    for (std::uint64_t n = random_.between(1, 4); n != 0; --n) {
      const std::size_t at = random_.below(text.size());
      if (random_.chance(0.3)) {
        text.erase(at, random_.between(1, 8));
      } else {
        text[at] = static_cast<char>(random_.between(1, 126));
      }
      if (text.empty()) text = " ";
    }
    const std::optional<Profile> found = profileOfText(text);
    EXPECT_TRUE(!found || isUsable(*found)) << text;
  }
}

}  // namespace
}  // namespace zipccl::policy
