// SPDX-License-Identifier: Apache-2.0
//
// The way into the module that local_main.cpp loads.

#include <gtest/gtest.h>

extern "C" __attribute__((visibility("default"))) int zipcclTestMain(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
