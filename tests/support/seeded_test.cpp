// SPDX-License-Identifier: Apache-2.0
//
// Seeds and lengths of tests.

#include "support/seeded_test.hpp"

#include <cstdlib>
#include <string>

namespace zipccl::testing {

std::uint64_t testSeed() {
  const char* const fixed = std::getenv("ZIPCCL_TEST_SEED");
  return fixed != nullptr ? std::stoull(fixed) : freshSeed();
}

std::uint64_t repeats(std::uint64_t some, std::uint64_t many) {
  const char* const isLong = std::getenv("ZIPCCL_TEST_LONG");
  return isLong != nullptr && isLong == std::string("1") ? many : some;
}

SeededTest::SeededTest()
    : seed_(testSeed()),
      random_(seed_),
      trace_(__FILE__, __LINE__, "ZIPCCL_TEST_SEED=" + std::to_string(seed_)) {}

}  // namespace zipccl::testing
