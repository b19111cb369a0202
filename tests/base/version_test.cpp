// SPDX-License-Identifier: Apache-2.0
//
// The generated header zipccl/version.h agrees with the version of the CMake project.

#include <gtest/gtest.h>
#include <zipccl/version.h>

#include <sstream>
#include <string>

namespace {

TEST(Version, AgreesWithTheProject) {
  EXPECT_STREQ(ZIPCCL_VERSION_STRING, ZIPCCL_PROJECT_VERSION);

  std::istringstream parts(ZIPCCL_PROJECT_VERSION);
  int major = -1;
  int minor = -1;
  int patch = -1;
  char dot = '\0';
  ASSERT_TRUE(parts >> major >> dot >> minor >> dot >> patch);
  EXPECT_EQ(ZIPCCL_VERSION_MAJOR, major);
  EXPECT_EQ(ZIPCCL_VERSION_MINOR, minor);
  EXPECT_EQ(ZIPCCL_VERSION_PATCH, patch);
}

TEST(Version, CodeOrdersReleases) {
  static_assert(ZIPCCL_VERSION_MINOR < 100 && ZIPCCL_VERSION_PATCH < 100,
                "a part of 100 or more would spill into the next one");
  EXPECT_EQ(ZIPCCL_VERSION_CODE / 10000, ZIPCCL_VERSION_MAJOR);
  EXPECT_EQ(ZIPCCL_VERSION_CODE / 100 % 100, ZIPCCL_VERSION_MINOR);
  EXPECT_EQ(ZIPCCL_VERSION_CODE % 100, ZIPCCL_VERSION_PATCH);
}

}  // namespace
