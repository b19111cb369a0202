// SPDX-License-Identifier: Apache-2.0
//
// Makes pictures of statistics.

#include "inspect/pictures.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <span>
#include <utility>

#include "inspect/gaussian.hpp"

namespace zipccl::tools::inspect {
namespace {

constexpr int kSevenSize = 7;
constexpr int kSixSize = 6;
/// What no picture shows.
constexpr double kLeastShare = 1e-7;

/// The base that most tiles have, and how many have it.
std::pair<int, std::uint64_t> mostFrequent(std::span<const std::uint64_t> tilesOfBase) {
  const auto most = std::max_element(tilesOfBase.begin(), tilesOfBase.end());
  return {static_cast<int>(most - tilesOfBase.begin()), *most};
}

std::uint64_t sumOf(std::span<const std::uint64_t> counts) {
  return std::accumulate(counts.begin(), counts.end(), std::uint64_t{0});
}

void addWindow(const ElementFormat& format, const Statistics& statistics, Picture& picture) {
  const std::uint64_t tiles = sumOf(statistics.sevenTiles) + sumOf(statistics.sixTiles);
  if (tiles == 0) return;
  const auto [sevenBase, sevenCount] = mostFrequent(statistics.sevenTiles);
  const auto [sixBase, sixCount] = mostFrequent(statistics.sixTiles);
  const bool isSix = sixCount > sevenCount;
  const int base = isSix ? sixBase : sevenBase;
  picture.window = {format.leastExponent() + base - 1, isSix ? kSixSize : kSevenSize};
  picture.windowShare =
      static_cast<double>(isSix ? sixCount : sevenCount) / static_cast<double>(tiles);
}

struct Bars {
  std::span<const std::uint64_t> counts;
  std::span<const std::uint64_t> windowed;
  std::span<const std::uint64_t> coded;
  std::span<const double> expected;
};

/// Takes the bars but for both ends where nothing is to be seen; `first` is the exponent of the
/// first bar.
void take(const Bars& bars, int first, Picture& picture) {
  const auto isSeen = [&bars](std::size_t i) {
    return bars.counts[i] != 0 || bars.expected[i] > kLeastShare;
  };
  std::size_t begin = 0;
  std::size_t end = bars.counts.size();
  while (begin < end && !isSeen(begin)) ++begin;
  while (end > begin && !isSeen(end - 1)) --end;
  picture.firstExponent = first + static_cast<int>(begin);
  for (std::size_t i = begin; i < end; ++i) {
    picture.counts.push_back(bars.counts[i]);
    picture.coded.push_back(bars.coded[i]);
    picture.escaped.push_back(bars.windowed[i] - bars.coded[i]);
    picture.expected.push_back(bars.expected[i]);
  }
}

}  // namespace

Picture pictureOf(codec::Datatype datatype, const Statistics& statistics) {
  const ElementFormat format = elementFormat(datatype);
  const auto expected = gaussianFields(datatype, statistics.moments.gaussianSigma());
  Picture picture;
  picture.zeroField = statistics.exponents[0];
  picture.expectedZeroField = expected[0];
  picture.codedZeroField = statistics.coded[0];
  picture.escapedZeroField = statistics.windowed[0] - statistics.coded[0];
  take({.counts = std::span(statistics.exponents).subspan(1),
        .windowed = std::span(statistics.windowed).subspan(1),
        .coded = std::span(statistics.coded).subspan(1),
        .expected = std::span(expected).subspan(1)},
       format.leastExponent(), picture);
  addWindow(format, statistics, picture);
  return picture;
}

std::optional<Picture> relativePictureOf(const Statistics& statistics) {
  const std::uint64_t tiles = sumOf(statistics.sevenTiles);
  if (tiles == 0) return std::nullopt;
  constexpr int kFirst = -static_cast<int>(Statistics::kRelativeBase);
  std::array<double, 2 * Statistics::kFields> expected{};
  for (std::size_t scale = 0; scale < Statistics::kScales; ++scale) {
    const std::uint64_t count = statistics.tileScales[scale];
    if (count == 0) continue;
    const double sigma = std::exp2((static_cast<double>(scale) + 0.5) / Statistics::kScaleSteps);
    const double share = static_cast<double>(count) / static_cast<double>(tiles);
    for (std::size_t i = 0; i < expected.size(); ++i) {
      expected[i] += share * gaussianOctave(sigma, kFirst + static_cast<int>(i));
    }
  }
  Picture picture;
  picture.isRelative = true;
  picture.zeroField = statistics.relativeZeroField;
  picture.escapedZeroField = statistics.relativeZeroField;
  std::array<std::uint64_t, 2 * Statistics::kFields> coded{};
  std::copy_n(statistics.relative.begin() + Statistics::kRelativeBase, kSevenSize,
              coded.begin() + Statistics::kRelativeBase);
  take({.counts = statistics.relative,
        .windowed = statistics.relative,
        .coded = coded,
        .expected = expected},
       kFirst, picture);
  picture.window = {0, kSevenSize};
  picture.windowShare = 1.0;
  return picture;
}

}  // namespace zipccl::tools::inspect
