// SPDX-License-Identifier: Apache-2.0
//
// A test whose random inputs are new in every run. A failure prints the seed; ZIPCCL_TEST_SEED
// repeats it.

#pragma once

#include <gtest/gtest.h>

#include <cstdint>

#include "base/random.hpp"

namespace zipccl::testing {

/// The value of ZIPCCL_TEST_SEED where it is set, else a fresh seed.
[[nodiscard]] std::uint64_t testSeed();

class SeededTest : public ::testing::Test {
 protected:
  SeededTest();

  std::uint64_t seed_;
  Random random_;

 private:
  ::testing::ScopedTrace trace_;
};

}  // namespace zipccl::testing
