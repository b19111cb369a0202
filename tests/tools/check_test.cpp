// SPDX-License-Identifier: Apache-2.0
//
// The comparison behind the column #wrong: every single wrong bit counts, wherever it stands.

#include "perf/check.hpp"

#include <gtest/gtest.h>

#include <set>
#include <vector>

#include "support/seeded_test.hpp"

namespace zipccl::tools::perf {
namespace {

class Check : public zipccl::testing::SeededTest {
 protected:
  std::vector<std::byte> randomBytes(std::size_t bytes) {
    std::vector<std::byte> result(bytes);
    random_.fill(result);
    return result;
  }
};

TEST_F(Check, FindsNothingInEqualBytes) {
  for (const std::size_t step : {1U, 2U, 4U, 8U}) {
    const std::vector<std::byte> expected = randomBytes(1000 * step);
    EXPECT_EQ(wrongElements(expected, expected, step), 0U);
  }
  EXPECT_EQ(wrongElements({}, {}, 2), 0U);
}

TEST_F(Check, FindsEachSingleWrongBit) {
  const std::vector<std::byte> expected = randomBytes(96);
  for (std::size_t bit = 0; bit < expected.size() * 8; ++bit) {
    std::vector<std::byte> actual = expected;
    actual[bit / 8] ^= std::byte{1} << (bit % 8);
    for (const std::size_t step : {1U, 2U, 4U, 8U}) {
      ASSERT_EQ(wrongElements(actual, expected, step), 1U) << "bit " << bit << ", step " << step;
    }
  }
}

TEST_F(Check, CountsElementsNotBits) {
  constexpr std::size_t kElements = 257;
  for (int round = 0; round < 100; ++round) {
    const std::size_t step = std::size_t{1} << random_.below(4);
    const std::vector<std::byte> expected = randomBytes(kElements * step);
    std::vector<std::byte> actual = expected;
    std::set<std::size_t> planted;
    for (std::uint64_t faults = random_.below(50); faults > 0; --faults) {
      const std::size_t element = random_.below(kElements);
      if (!planted.insert(element).second) continue;
      const std::size_t first = random_.below(step);
      for (std::size_t byte = first; byte < step; ++byte) {
        actual[element * step + byte] ^= static_cast<std::byte>(random_.between(1, 255));
      }
    }
    ASSERT_EQ(wrongElements(actual, expected, step), planted.size());
  }
}

TEST_F(Check, PoisonIsWrongInEveryElement) {
  const std::vector<std::byte> expected = randomBytes(4096);
  std::vector<std::byte> output = expected;
  poison(output, expected);
  for (std::size_t byte = 0; byte < expected.size(); ++byte) {
    ASSERT_NE(output[byte], expected[byte]);
  }
  EXPECT_EQ(wrongElements(output, expected, 2), 2048U);
}

}  // namespace
}  // namespace zipccl::tools::perf
