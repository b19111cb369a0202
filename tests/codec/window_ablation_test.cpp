// SPDX-License-Identifier: Apache-2.0
//
// The table of docs/theory.md section 12 is what is counted, and the count is the encoder's.

#include "codec/window_ablation.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <map>
#include <sstream>
#include <string>

#include "codec/layout.hpp"
#include "codec/window.hpp"
#include "support/seeded_test.hpp"

namespace zipccl::codec::testing {
namespace {

/// The cells of the rows of a document's tables that have six, by the first one.
std::map<std::string, std::vector<std::string>> rowsOf(const std::string& path) {
  std::map<std::string, std::vector<std::string>> rows;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with("| ")) continue;
    std::vector<std::string> cells;
    std::istringstream stream(line.substr(2));
    for (std::string cell; std::getline(stream, cell, '|');) {
      cell.erase(cell.find_last_not_of(' ') + 1);
      cell.erase(0, cell.find_first_not_of(' '));
      cells.push_back(cell);
    }
    if (cells.size() != 6) continue;
    const std::string name = cells.front();
    cells.erase(cells.begin());
    rows[name] = cells;
  }
  return rows;
}

TEST(WindowAblation, TheDocumentSaysWhatIsCounted) {
  const auto document = rowsOf(ZIPCCL_THEORY_DOCUMENT);
  const std::vector<AblationRow> table = ablationTable(ZIPCCL_DATA_FOLDER);
  EXPECT_EQ(table.size(), 14U);
  for (const AblationRow& row : table) {
    const WindowAblation& bits = row.bits;
    const auto found = document.find(row.data);
    ASSERT_NE(found, document.end()) << "missing: " << toMarkdown(row);
    const double counted[] = {bits.tileRule, bits.tileBest, bits.frameSigma, bits.frameBest,
                              bits.frameSevenOnly};
    for (std::size_t i = 0; i < std::size(counted); ++i) {
      // Half of the last digit, and a little for logarithms that differ from system to system.
      EXPECT_NEAR(std::stod(found->second[i]), counted[i], 0.0006) << toMarkdown(row);
    }
    EXPECT_LE(bits.tileBest, bits.tileRule) << row.data;
    EXPECT_LE(bits.tileBest, bits.frameBest) << row.data;
    EXPECT_LE(bits.frameBest, bits.frameSigma) << row.data;
    EXPECT_LE(bits.frameSigma, bits.frameSevenOnly) << row.data;
  }
}

class WindowAblationCount : public zipccl::testing::SeededTest {};

TEST_F(WindowAblationCount, IsThatOfTheFormat) {
  // Fields 100 to 106 fill a window of seven; the eighth is an escape, `escapes` times.
  for (const std::uint32_t escapes : {0U, 1U, 15U, 16U, 17U, 640U, 641U, 1000U}) {
    std::vector<std::uint16_t> halves(kTileElements);
    for (std::uint32_t n = 0; n < kTileElements; ++n) {
      const std::uint32_t field = n < escapes ? 200 : 100 + n % 7;
      halves[n] = static_cast<std::uint16_t>(field << 7 | (random_() & 0x807F));
    }
    const double bytes = ablate(halves).tileBest * kTileElements / 8;
    // A window around the escapes is the better one where they are many.
    const std::uint32_t outside = std::min({escapes, kTileElements - escapes, 640U});
    EXPECT_EQ(bytes, 1408 + 4 + 8 + static_cast<double>(alignUp(outside, 16))) << escapes;
  }
  // Nothing but +0 is empty; a -0 needs the zero code or a window at 0.
  std::vector<std::uint16_t> zeros(kTileElements, 0);
  EXPECT_EQ(ablate(zeros).tileBest * kTileElements / 8, 1420);
  zeros[random_.below(kTileElements)] = 0x8000;
  EXPECT_EQ(ablate(zeros).tileBest * kTileElements / 8, 1420);
}

TEST_F(WindowAblationCount, OneGaussianNeedsOneWindow) {
  std::vector<std::uint16_t> halves(std::size_t{64} * kTileElements);
  const double sigma = std::exp2(-10.0 * random_.uniform());
  for (std::uint16_t& half : halves) {
    const auto value = static_cast<float>(sigma * random_.normal());
    half = static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(value) >> 16);
  }
  const WindowAblation bits = ablate(halves);
  // Section 5: 0.004 bits for the rule at the worst sigma; the best window of a sample beats the
  // best of the distribution by some more.
  EXPECT_LT(bits.tileRule - bits.tileBest, 0.03);
  EXPECT_LT(bits.tileRule - bits.frameSigma, 0.02);
  EXPECT_NEAR(bits.frameSigma, bits.frameBest, 0.01);
}

}  // namespace
}  // namespace zipccl::codec::testing
