// SPDX-License-Identifier: Apache-2.0
//
// A test whose random inputs are new in every run. A failure prints the seed; ZIPCCL_TEST_SEED
// repeats it. ZIPCCL_TEST_LONG=1 asks for the long form of tests that have one.

#pragma once

#include <gtest/gtest.h>

#include <cstdint>

#include "base/random.hpp"

namespace zipccl::testing {

/// The value of ZIPCCL_TEST_SEED where it is set, else a fresh seed.
[[nodiscard]] std::uint64_t testSeed();

/// How often a test repeats itself: `many` times in its long form, else `some`.
[[nodiscard]] std::uint64_t repeats(std::uint64_t some, std::uint64_t many);

class SeededTest : public ::testing::Test {
 protected:
  SeededTest();

  std::uint64_t seed_;
  Random random_;

 private:
  ::testing::ScopedTrace trace_;
};

}  // namespace zipccl::testing
