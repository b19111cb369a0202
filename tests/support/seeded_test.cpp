// SPDX-License-Identifier: Apache-2.0
//
// Seeds of tests.

#include "support/seeded_test.hpp"

#include <cstdlib>
#include <string>

namespace zipccl::testing {

std::uint64_t testSeed() {
  const char* const fixed = std::getenv("ZIPCCL_TEST_SEED");
  return fixed != nullptr ? std::stoull(fixed) : freshSeed();
}

SeededTest::SeededTest()
    : seed_(testSeed()),
      random_(seed_),
      trace_(__FILE__, __LINE__, "ZIPCCL_TEST_SEED=" + std::to_string(seed_)) {}

}  // namespace zipccl::testing
