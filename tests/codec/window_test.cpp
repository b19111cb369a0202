// SPDX-License-Identifier: Apache-2.0
//
// Holds src/codec/window.hpp and the figures of docs/theory.md against an integration of the
// Gaussian density that shares nothing with them, against an exhaustive search, and against random
// samples.

#include "codec/window.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "codec/tile_window.hpp"

namespace zipccl::codec {
namespace {

// ---- The reference: adaptive Simpson over the density
// ----------------------------------------------

double densityOfAbs(double z) { return std::sqrt(2.0 / M_PI) * std::exp(-0.5 * z * z); }

double simpson(double a, double b, double fa, double fm, double fb, double whole, double tolerance,
               int depth) {
  const double m = 0.5 * (a + b);
  const double fl = densityOfAbs(0.5 * (a + m));
  const double fr = densityOfAbs(0.5 * (m + b));
  const double left = (m - a) / 6.0 * (fa + 4.0 * fl + fm);
  const double right = (b - m) / 6.0 * (fm + 4.0 * fr + fb);
  const double difference = left + right - whole;
  if (depth == 0 || std::abs(difference) < 15.0 * tolerance)
    return left + right + difference / 15.0;
  return simpson(a, m, fa, fl, fm, left, tolerance / 2, depth - 1) +
         simpson(m, b, fm, fr, fb, right, tolerance / 2, depth - 1);
}

/// P(a <= |Z| < b) for the standard normal Z.
double integrate(double a, double b) {
  b = std::min(b, 12.0);
  if (a >= b) return 0.0;
  const double fa = densityOfAbs(a);
  const double fm = densityOfAbs(0.5 * (a + b));
  const double fb = densityOfAbs(b);
  return simpson(a, b, fa, fm, fb, (b - a) / 6.0 * (fa + 4.0 * fm + fb), 1e-15, 40);
}

/// P(exponent = m + j) for sigma = 2^m * ratio.
double octaveProbability(int j, double ratio) {
  return integrate(std::exp2(j) / ratio, std::exp2(j + 1) / ratio);
}

/// The probability of each exponent field of fp32 and bf16, the ends of the range included; values
/// within `roundUp` (relative) below a power of two count as that power.
std::array<double, 256> fieldProbabilities(double sigma, double roundUp = 0.0) {
  std::array<double, 256> p{};
  for (int field = 0; field < 256; ++field) {
    const double low = field == 0 ? 0.0 : std::ldexp(1.0 - roundUp, field - 127);
    const double high = field == 255 ? std::numeric_limits<double>::infinity()
                                     : std::ldexp(1.0 - roundUp, field - 126);
    if (high / sigma < 1e-9 || low / sigma > 12.0) continue;
    p[static_cast<std::size_t>(field)] = integrate(low / sigma, high / sigma);
  }
  return p;
}

double windowProbability(const std::array<double, 256>& p, std::uint32_t base, int windowSize) {
  double sum = 0.0;
  for (int i = 0; i < windowSize; ++i) sum += p[base + static_cast<std::size_t>(i)];
  return sum;
}

std::uint32_t bestBase(const std::array<double, 256>& p, int windowSize) {
  std::uint32_t best = windowSize == 7 ? 0 : 1;
  double most = windowProbability(p, best, windowSize);
  for (std::uint32_t base = best + 1; base <= kMaxWindowBase; ++base) {
    const double share = windowProbability(p, base, windowSize);
    if (share > most) {
      most = share;
      best = base;
    }
  }
  return best;
}

/// Where `difference` changes its sign in [low, high].
double solve(const std::function<double(double)>& difference, double low, double high) {
  const bool positive = difference(low) > 0;
  for (int i = 0; i < 60; ++i) {
    const double middle = 0.5 * (low + high);
    (difference(middle) > 0) == positive ? low = middle : high = middle;
  }
  return low;
}

struct Spread {
  double least = std::numeric_limits<double>::infinity();
  double most = -std::numeric_limits<double>::infinity();
  double average = 0.0;
};

/// Least, most and average of `value(f)` over one octave of sigma.
Spread overOctave(const std::function<double(double)>& value, int points = 1000) {
  Spread spread;
  for (int i = 0; i < points; ++i) {
    const double v = value((i + 0.5) / points);
    spread.least = std::min(spread.least, v);
    spread.most = std::max(spread.most, v);
    spread.average += v / points;
  }
  return spread;
}

/// Shares of the best exponents in descending order, by integration.
std::vector<double> sortedProbabilities(double fraction) {
  std::vector<double> p;
  for (int j = -50; j <= 4; ++j) p.push_back(octaveProbability(j, std::exp2(fraction)));
  std::sort(p.begin(), p.end(), std::greater<>());
  return p;
}

double bestShare(const std::vector<double>& sorted, int n) {
  double sum = 0.0;
  for (int i = 0; i < n; ++i) sum += sorted[static_cast<std::size_t>(i)];
  return sum;
}

const double kTieFraction7 = std::log2(kSigmaTie7);
const double kTieFraction6 = std::log2(kSigmaTie6);

// ---- Random inputs
// -------------------------------------------------------------------------------

/// A fresh seed for each test; it is printed when an assertion fails.
class WindowProperty : public testing::Test {
 protected:
  const std::uint64_t seed_ =
      (std::uint64_t{std::random_device{}()} << 32) | std::random_device{}();
  std::mt19937_64 random_{seed_};
  const testing::ScopedTrace trace_{__FILE__, __LINE__, "seed " + std::to_string(seed_)};
};

std::uint32_t bitsOf(float value) { return std::bit_cast<std::uint32_t>(value); }

std::uint32_t fieldOf(float value) { return (bitsOf(value) >> 23) & 0xFFU; }

/// Rounds to bf16, to nearest and even; the result is a float whose low 16 bits are zero.
float roundToBf16(float value) {
  const std::uint32_t bits = bitsOf(value);
  return std::bit_cast<float>((bits + 0x7FFFU + ((bits >> 16) & 1U)) & 0xFFFF0000U);
}

// ---- The normal distribution
// ---------------------------------------------------------------------

TEST(NormalDistribution, IsEvaluatedAtCompileTime) {
  static_assert(normalCdf(0.0) == 0.5);
  static_assert(normalCdf(100.0) == 1.0 && normalCdf(-100.0) == 0.0);
  static_assert(coverage(0.0, -5, 7) > 0.97500 && coverage(0.0, -5, 7) < 0.97502);
  static_assert(windowBase7FromMeanAbsBits(0x3F800000U) == 122);
  static_assert(windowBaseForSigma(1.0, 7) == 122 && windowBaseForMeanAbs(1.0F, 6) == 123);
}

TEST(NormalDistribution, AgreesWithIntegrationAndErfc) {
  double sum = 0.0;
  for (int i = 1; i <= 4000; ++i) {
    const double x = i / 400.0;
    sum += integrate((i - 1) / 400.0, x);
    ASSERT_NEAR(centralProbability(x), sum, 1e-12) << x;
    ASSERT_NEAR(normalCdf(x), 0.5 + 0.5 * sum, 1e-12) << x;
    ASSERT_NEAR(normalCdf(-x), 0.5 - 0.5 * sum, 1e-12) << x;
    ASSERT_NEAR(normalCdf(x), 0.5 * std::erfc(-x / std::sqrt(2.0)), 1e-15) << x;
    ASSERT_NEAR(normalCdf(-x) / (0.5 * std::erfc(x / std::sqrt(2.0))), 1.0, 1e-13) << x;
  }
  for (int k = -300; k < 1; ++k) {
    const double x = std::ldexp(1.0, k);
    ASSERT_NEAR(centralProbability(x) / std::erf(x / std::sqrt(2.0)), 1.0, 1e-14) << k;
  }
  EXPECT_EQ(centralProbability(0.0), 0.0);
  EXPECT_EQ(centralProbability(std::numeric_limits<double>::infinity()), 1.0);
  EXPECT_EQ(coverage(0.5, 2000, 7), 0.0);
  EXPECT_EQ(coverage(0.5, -2000, 4000), 1.0);
}

// ---- The best window
// -----------------------------------------------------------------------------

TEST(WindowTheory, TiesSolveTheirEquations) {
  const double tie7 =
      solve([](double r) { return octaveProbability(-5, r) - octaveProbability(2, r); }, 1.0, 2.0);
  const double tie6 =
      solve([](double r) { return octaveProbability(-4, r) - octaveProbability(2, r); }, 1.0, 2.0);
  EXPECT_NEAR(kSigmaTie7, tie7, 1e-12);
  EXPECT_NEAR(kSigmaTie6, tie6, 1e-12);
  EXPECT_NEAR(std::log2(tie7), 0.719580554364125, 1e-12);
  EXPECT_NEAR(std::log2(tie6), 0.859283363747383, 1e-12);

  EXPECT_DOUBLE_EQ(kSigmaPerMeanAbs, std::sqrt(M_PI / 2.0));
  const double mean7 = tie7 / std::sqrt(M_PI / 2.0);
  const double mean6 = tie6 / std::sqrt(M_PI / 2.0);
  EXPECT_NEAR(mean7, 1.31387906465879387, 1e-12);
  EXPECT_NEAR(mean6, 1.44747185765118573, 1e-12);
  EXPECT_EQ(kMeanMantissaTie7, std::ceil(std::ldexp(mean7 - 1.0, 23)));
  EXPECT_EQ(kMeanMantissaTie6, std::ceil(std::ldexp(mean6 - 1.0, 23)));
}

TEST(WindowTheory, BestExponentsAreNeighbours) {
  for (int i = 0; i < 64; ++i) {
    const double ratio = std::exp2((i + 0.5) / 64);
    int rises = 0;
    int falls = 0;
    for (int j = -40; j < 3; ++j) {
      const double here = octaveProbability(j, ratio);
      const double next = octaveProbability(j + 1, ratio);
      if (next > here) {
        ++rises;
        EXPECT_EQ(falls, 0) << "a second maximum at " << j;
      } else {
        ++falls;
      }
    }
    EXPECT_GT(rises, 0);
    EXPECT_GT(falls, 0);
  }
}

TEST(WindowTheory, CoverageMatchesIntegrationInEveryKindOfOctave) {
  for (int octave : {-119, -118, -60, -6, -1, 0, 1, 40, 121, 122, 124}) {
    for (int i = 0; i < 64; ++i) {
      const double fraction = i / 64.0;
      const auto p = fieldProbabilities(std::ldexp(std::exp2(fraction), octave));
      for (int windowSize : {6, 7}) {
        for (int offset = -7; offset <= -3; ++offset) {
          const int base = octave + 127 + offset;
          if (base < 1 || base + windowSize - 1 > 254) continue;
          ASSERT_NEAR(coverage(fraction, offset, windowSize),
                      windowProbability(p, static_cast<std::uint32_t>(base), windowSize), 1e-9)
              << "octave " << octave << " fraction " << fraction << " offset " << offset;
        }
      }
    }
  }
}

TEST_F(WindowProperty, RuleIsTheBestWindowAwayFromTheEnds) {
  std::uniform_real_distribution<double> anyFraction(0.0, 1.0);
  std::vector<double> fractions = {kTieFraction7 - 1e-9, kTieFraction7 + 1e-9, kTieFraction6 - 1e-9,
                                   kTieFraction6 + 1e-9};
  for (int i = 0; i < 64; ++i) fractions.push_back(i / 64.0);
  for (int i = 0; i < 16; ++i) fractions.push_back(anyFraction(random_));
  for (int octave : {-121, -100, -7, 0, 60, 121}) {
    for (double fraction : fractions) {
      const double sigma = std::ldexp(std::exp2(fraction), octave);
      const auto p = fieldProbabilities(sigma);
      for (int windowSize : {6, 7}) {
        const double tie = windowSize == 7 ? kTieFraction7 : kTieFraction6;
        if (std::abs(fraction - tie) < 5e-10) continue;
        const std::uint32_t base = windowBaseForSigma(sigma, windowSize);
        ASSERT_EQ(base, bestBase(p, windowSize)) << windowSize << " of 2^" << octave + fraction;
        ASSERT_EQ(base,
                  static_cast<std::uint32_t>(octave + 127 + bestBaseOffset(fraction, windowSize)));
        const float mean = static_cast<float>(sigma / std::sqrt(M_PI / 2.0));
        if (std::abs(fraction - tie) > 1e-7) {
          ASSERT_EQ(windowBaseForMeanAbs(mean, windowSize), base) << mean;
        }
      }
    }
  }
}

// Theory section 6: between base 0 and 1 the tie lies later, as field 0 holds the whole lower tail.
TEST(WindowTheory, RuleAtTheEndsOfTheRangeLosesWhatIsDocumented) {
  double mostLost = 0.0;
  double lastBaseZero = 0.0;
  for (int octave : {-140, -127, -126, -123, -122, -121, 122, 125, 126, 127, 135}) {
    for (int i = 0; i < 256; ++i) {
      const double fraction = i / 256.0;
      const double sigma = std::ldexp(std::exp2(fraction), octave);
      const auto p = fieldProbabilities(sigma);
      const std::uint32_t base = windowBaseForSigma(sigma, 7);
      const std::uint32_t best = bestBase(p, 7);
      const double lost = windowProbability(p, best, 7) - windowProbability(p, base, 7);
      if (octave == -122 && fraction > kTieFraction7 && fraction < 0.8595416) {
        ASSERT_EQ(base, 1U);
        ASSERT_EQ(best, 0U);
        ASSERT_LT(lost, 0.01515);
        mostLost = std::max(mostLost, lost);
        lastBaseZero = fraction;
      } else {
        ASSERT_LT(lost, 2e-6) << "2^" << octave + fraction << " best " << best << " rule " << base;
      }
    }
  }
  EXPECT_GT(mostLost, 0.0145);
  EXPECT_NEAR(lastBaseZero, 0.8595416, 1.0 / 256);
  const double tie = solve(
      [](double f) { return integrate(0, std::exp2(-4 - f)) - octaveProbability(2, std::exp2(f)); },
      0.5, 1.0);
  EXPECT_NEAR(tie, 0.859541655, 1e-8);
}

// ---- The rule on bits
// ----------------------------------------------------------------------------

TEST_F(WindowProperty, RuleOnBitsIsTheRuleOnSigma) {
  const auto expectSame = [](std::uint32_t bits) {
    const float mean = std::bit_cast<float>(bits & 0x7FFFFFFFU);
    const double sigma = double{mean} * std::sqrt(M_PI / 2.0);
    const std::uint32_t base7 = windowBase7FromMeanAbsBits(bits);
    const std::uint32_t base6 = windowBase6FromMeanAbsBits(bits);
    ASSERT_LE(base7, kMaxWindowBase);
    ASSERT_GE(base6, 1U);
    ASSERT_LE(base6, kMaxWindowBase);
    ASSERT_EQ(base7, windowBaseForSigma(sigma, 7)) << std::hex << bits;
    ASSERT_EQ(base6, windowBaseForSigma(sigma, 6)) << std::hex << bits;
    ASSERT_EQ(base7, windowBaseForMeanAbs(std::bit_cast<float>(bits), 7));
    ASSERT_EQ(base6, windowBaseForMeanAbs(std::bit_cast<float>(bits), 6));
  };
  for (std::uint32_t field = 0; field < 256; ++field) {
    for (std::uint32_t tie : {kMeanMantissaTie7, kMeanMantissaTie6, 0U, 0x7FFFFFU}) {
      for (int step = -2; step <= 2; ++step) {
        const std::uint32_t mantissa = (tie + static_cast<std::uint32_t>(step)) & 0x7FFFFFU;
        expectSame((field << 23) | mantissa);
        expectSame(0x80000000U | (field << 23) | mantissa);
      }
    }
  }
  for (int i = 0; i < 1'000'000 && !HasFatalFailure(); ++i)
    expectSame(static_cast<std::uint32_t>(random_()));
}

TEST(WindowRule, HasADefinedBaseForEveryMean) {
  const float inf = std::numeric_limits<float>::infinity();
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const float subnormal = std::numeric_limits<float>::denorm_min();
  for (float mean : {0.0F, -0.0F, subnormal, std::numeric_limits<float>::min()}) {
    EXPECT_EQ(windowBaseForMeanAbs(mean, 7), 0U) << mean;
    EXPECT_EQ(windowBaseForMeanAbs(mean, 6), 1U) << mean;
  }
  for (float mean : {inf, -inf, nan, -nan, std::numeric_limits<float>::max()}) {
    EXPECT_EQ(windowBaseForMeanAbs(mean, 7), 249U) << mean;
    EXPECT_EQ(windowBaseForMeanAbs(mean, 6), 249U) << mean;
  }
  for (double sigma : {0.0, 1e-300, -1e-310}) {
    EXPECT_EQ(windowBaseForSigma(sigma, 7), 0U) << sigma;
    EXPECT_EQ(windowBaseForSigma(sigma, 6), 1U) << sigma;
  }
  for (double sigma : {1e300, HUGE_VAL, std::nan("")}) {
    EXPECT_EQ(windowBaseForSigma(sigma, 7), 249U) << sigma;
    EXPECT_EQ(windowBaseForSigma(sigma, 6), 249U) << sigma;
  }
  EXPECT_EQ(windowBaseForSigma(-1.0, 7), windowBaseForSigma(1.0, 7));
}

TEST(WindowRule, StepsWhereTheTheoryDoes) {
  // N(0, 0.02): log2 sigma = -5.64, so exponents -11 .. -5.
  EXPECT_EQ(windowBaseForSigma(0.02, 7), 127U - 11U);
  EXPECT_EQ(windowBaseForSigma(0.02, 6), 127U - 10U);
  EXPECT_EQ(windowBaseForSigma(1.6467032, 7), 122U);
  EXPECT_EQ(windowBaseForSigma(1.6467033, 7), 123U);
  EXPECT_EQ(windowBaseForSigma(1.8141369, 6), 123U);
  EXPECT_EQ(windowBaseForSigma(1.8141370, 6), 124U);
  EXPECT_EQ(windowBaseForMeanAbs(1.3138790F, 7), 122U);
  EXPECT_EQ(windowBaseForMeanAbs(1.3138792F, 7), 123U);
  EXPECT_EQ(windowBaseForMeanAbs(1.4474718F, 6), 123U);
  EXPECT_EQ(windowBaseForMeanAbs(1.4474720F, 6), 124U);
}

// ---- The figures of docs/theory.md, from integration alone
// -----------------------------------------

TEST(TheoryFigures, CoverageOverAnOctave) {
  const Spread seven = overOctave([](double f) { return bestShare(sortedProbabilities(f), 7); });
  EXPECT_NEAR(seven.least, 0.96972, 2e-5);
  EXPECT_NEAR(seven.average, 0.97550, 5e-6);
  EXPECT_NEAR(seven.most, 0.97875, 5e-6);
  const Spread six = overOctave([](double f) { return bestShare(sortedProbabilities(f), 6); });
  EXPECT_NEAR(six.least, 0.94506, 2e-5);
  EXPECT_NEAR(six.average, 0.95479, 5e-6);
  EXPECT_NEAR(six.most, 0.96013, 5e-6);

  for (int i = 0; i < 100; ++i) {
    const double f = (i + 0.5) / 100;
    const auto sorted = sortedProbabilities(f);
    ASSERT_NEAR(coverage(f, bestBaseOffset(f, 7), 7), bestShare(sorted, 7), 1e-9) << f;
    ASSERT_NEAR(coverage(f, bestBaseOffset(f, 6), 6), bestShare(sorted, 6), 1e-9) << f;
  }
}

TEST(TheoryFigures, CostOfAWindowTooHighOrTooLow) {
  const auto lostPercent = [](double f, int displacement) {
    double share[2] = {0.0, 0.0};
    const int low = std::exp2(f) < kSigmaTie7 ? -5 : -4;
    for (int i = 0; i < 7; ++i) {
      share[0] += octaveProbability(low + i, std::exp2(f));
      share[1] += octaveProbability(low + displacement + i, std::exp2(f));
    }
    return 100.0 * 8.0 / 16.0 * (share[0] - share[1]);
  };
  const Spread high = overOctave([&](double f) { return lostPercent(f, 1); });
  const Spread low = overOctave([&](double f) { return lostPercent(f, -1); });
  EXPECT_GE(high.least, 0.0);
  EXPECT_NEAR(high.average, 0.96, 0.005);
  EXPECT_NEAR(high.most, 1.51, 0.005);
  EXPECT_GE(low.least, 0.0);
  EXPECT_NEAR(low.average, 4.20, 0.005);
  EXPECT_NEAR(low.most, 10.09, 0.01);
}

TEST(TheoryFigures, BitsAValueAndTheEntropyLimits) {
  const auto table = [](const std::function<double(const std::vector<double>&)>& bits) {
    return overOctave([&](double f) { return bits(sortedProbabilities(f)); }, 500);
  };
  const Spread entropy = table([](const std::vector<double>& p) {
    double sum = 8.0;
    for (double share : p) sum -= share > 0 ? share * std::log2(share) : 0.0;
    return sum;
  });
  EXPECT_NEAR(entropy.average, 10.544, 5e-4);
  EXPECT_NEAR(entropy.least, 10.542, 5e-4);
  EXPECT_NEAR(entropy.most, 10.546, 5e-4);

  const Spread levels = table([](const std::vector<double>& p) {
    return 10.0 + 2.0 * (1 - bestShare(p, 3)) + 2.0 * (1 - bestShare(p, 6)) +
           8.0 * (1 - bestShare(p, 9));
  });
  EXPECT_NEAR(levels.average, 10.663, 5e-4);
  const Spread twoThree = table([](const std::vector<double>& p) {
    return 10.0 + 3.0 * (1 - bestShare(p, 3)) + 8.0 * (1 - bestShare(p, 10));
  });
  EXPECT_NEAR(twoThree.average, 10.805, 5e-4);
  const Spread four =
      table([](const std::vector<double>& p) { return 12.0 + 8.0 * (1 - bestShare(p, 15)); });
  EXPECT_NEAR(four.average, 12.001, 5e-4);

  const double metadata = 5.0 / 128.0;
  const double padding = 7.5 * 8.0 / 8192.0;
  EXPECT_DOUBLE_EQ(kRecordBitsPerValue, 11.0);
  EXPECT_DOUBLE_EQ(kMetadataBitsPerValue, metadata);
  EXPECT_DOUBLE_EQ(kPaddingBitsPerValue, padding);
  const Spread three =
      table([](const std::vector<double>& p) { return 11.0 + 8.0 * (1 - bestShare(p, 7)); });
  EXPECT_NEAR(three.average, 11.196, 5e-4);
  EXPECT_NEAR(three.least, 11.170, 5e-4);
  EXPECT_NEAR(three.most, 11.242, 5e-4);
  EXPECT_NEAR(16.0 / three.average, 1.429, 5e-4);
  const Spread expected = overOctave([](double f) {
    return expectedBitsPerValue(escapeShare7(0.0, coverage(f, bestBaseOffset(f, 7), 7)));
  });
  EXPECT_NEAR(expected.average, three.average + metadata + padding, 1e-5);
  EXPECT_NEAR(expected.most, 11.289, 5e-4);
}

TEST(TheoryFigures, EntropyOfTheWholeValue) {
  for (double fraction : {0.0, 0.25, 0.5, 0.75}) {
    const double sigma = std::exp2(fraction);
    double bits = 0.0;
    for (int k = -30; k <= 4; ++k) {
      for (int mantissa = 0; mantissa < 128; ++mantissa) {
        const double value = std::ldexp(128.0 + mantissa, k - 7);
        const double above = std::ldexp(1.0, k - 8);
        const double below = mantissa == 0 ? above / 2 : above;
        const double share = integrate((value - below) / sigma, (value + above) / sigma) / 2;
        if (share > 0) bits -= 2 * share * std::log2(share);
      }
    }
    EXPECT_NEAR(bits, 10.464, 6e-4) << fraction;
  }
}

TEST(TheoryFigures, ZerosAndTheirCode) {
  const double coverage7 = 0.97550;
  const double coverage6 = 0.95479;
  EXPECT_NEAR((kRecordBitsPerValue + 8 * escapeShare7(0.3, coverage7)) / 16, 0.846, 5e-4);
  EXPECT_NEAR((kRecordBitsPerValue + 8 * escapeShare6(0.3, coverage6)) / 16, 0.703, 5e-4);

  const Spread breakEven = overOctave([](double f) {
    const auto sorted = sortedProbabilities(f);
    const double seventh = sorted[6];
    return kTileElements * seventh / (1.0 + seventh);
  });
  EXPECT_NEAR(breakEven.least, 15.3, 0.05);
  EXPECT_NEAR(breakEven.average, 20.8, 0.05);
  EXPECT_NEAR(breakEven.most, 27.35, 0.05);
  EXPECT_EQ(kZeroCodeTieCount, std::round(breakEven.average));
  EXPECT_FALSE(zeroCodePays(0));
  EXPECT_FALSE(zeroCodePays(21));
  EXPECT_TRUE(zeroCodePays(22));
  EXPECT_TRUE(zeroCodePays(kTileElements));

  // At every fraction the fixed limit errs by six bytes a tile at most.
  for (int i = 0; i < 200; ++i) {
    const double f = (i + 0.5) / 200;
    const double c7 = coverage(f, bestBaseOffset(f, 7), 7);
    const double c6 = coverage(f, bestBaseOffset(f, 6), 6);
    for (std::uint32_t zeros = 0; zeros <= kTileElements; ++zeros) {
      const double z = double(zeros) / kTileElements;
      const double seven = kTileElements * escapeShare7(z, c7);
      const double six = kTileElements * escapeShare6(z, c6);
      ASSERT_LT((zeroCodePays(zeros) ? six : seven) - std::min(six, seven), 6.0) << f << zeros;
    }
  }
}

TEST(TheoryFigures, WindowOfSixIsNotAlwaysTheUpperSixOfSeven) {
  const Spread lost = overOctave(
      [](double f) {
        const double ratio = std::exp2(f);
        double upperSix = 0.0;
        for (int i = 1; i < 7; ++i)
          upperSix += octaveProbability((ratio < kSigmaTie7 ? -5 : -4) + i, ratio);
        return bestShare(sortedProbabilities(f), 6) - upperSix;
      },
      2000);
  EXPECT_GE(lost.least, -1e-12);
  EXPECT_NEAR(lost.average, 0.0011, 5e-5);
  EXPECT_NEAR(lost.most, 0.0151, 1e-4);
}

/// Coverage that is lost when sigma is taken for 2^`error` times its true value, at `fraction`.
double coverageLost(double fraction, double error, int windowSize) {
  const double taken = fraction + error;
  const double octave = std::floor(taken);
  const int right = bestBaseOffset(fraction, windowSize);
  const int used = bestBaseOffset(taken - octave, windowSize) + static_cast<int>(octave);
  return coverage(fraction, right, windowSize) - coverage(fraction, used, windowSize);
}

TEST(TheoryFigures, CostOfTheSamplingError) {
  const double error = std::sqrt(M_PI / 2 - 1) / 32 / std::log(2.0);
  for (int windowSize : {7, 6}) {
    const Spread lost = overOctave([&](double f) {
      double sum = 0.0;
      double weights = 0.0;
      for (int i = -100; i <= 100; ++i) {
        const double z = i / 20.0;
        sum += std::exp(-z * z / 2) * coverageLost(f, z * error, windowSize);
        weights += std::exp(-z * z / 2);
      }
      return sum / weights;
    });
    const double slope = windowSize == 7 ? 0.0808 : 0.126;
    EXPECT_NEAR(lost.average, slope * error * error / 2, 2e-6) << windowSize;
    EXPECT_NEAR(lost.most, 0.17 * slope * error, 1e-4) << windowSize;
  }
}

TEST(TheoryFigures, CostOfAMeanThatCountsTheZeros) {
  const struct {
    double zeros, lost, bits;
  } rows[] = {{0.1, 0.0016, 0.012}, {0.3, 0.023, 0.13}, {0.5, 0.104, 0.42}, {0.7, 0.315, 0.76}};
  for (const auto& row : rows) {
    const Spread lost =
        overOctave([&](double f) { return coverageLost(f, std::log2(1 - row.zeros), 6); });
    EXPECT_NEAR(lost.average / row.lost, 1.0, 0.03) << row.zeros;
    EXPECT_NEAR(8 * (1 - row.zeros) * lost.average / row.bits, 1.0, 0.04) << row.zeros;
  }
}

TEST(TheoryFigures, ATileBreaksEvenWithItsRawFormAt640Escapes) {
  const double share =
      static_cast<double>(elementFormat(Datatype::kBfloat16).maxEscapes()) / kTileElements;
  EXPECT_DOUBLE_EQ(share, 0.625);
  EXPECT_DOUBLE_EQ(kRecordBitsPerValue + 8.0 * share, 16.0);
  EXPECT_DOUBLE_EQ(kRecordBitsPerValue + 8.0, 19.0);
}

TEST(TheoryFigures, Fp16CostsThreeBitsMoreAndBreaksEvenAt256Escapes) {
  const ElementFormat element = elementFormat(Datatype::kFloat16);
  const double recordBits = 8.0 * element.upperRecordBytes() / kTileElements;
  EXPECT_DOUBLE_EQ(recordBits, kRecordBitsPerValue + 3);
  const double share = static_cast<double>(element.maxEscapes()) / kTileElements;
  EXPECT_DOUBLE_EQ(share, 0.25);
  EXPECT_DOUBLE_EQ(recordBits + 8.0 * share, 16.0);
  EXPECT_DOUBLE_EQ(kFp16FractionShift, -std::log2(1.0 - std::exp2(-12)));
  const Spread lost = overOctave([](double f) { return 1 - bestShare(sortedProbabilities(f), 7); });
  EXPECT_NEAR(recordBits + 8 * lost.average, 14.20, 0.005);
  EXPECT_NEAR(recordBits + 8 * lost.most, 14.24, 0.005);
  const double metadataAndPadding = kMetadataBitsPerValue + kPaddingBitsPerValue;
  EXPECT_NEAR(recordBits + 8 * lost.average + metadataAndPadding, 14.24, 0.005);
  EXPECT_NEAR(recordBits + 8 * lost.most + metadataAndPadding, 14.29, 0.005);
  EXPECT_NEAR(recordBits + kMetadataBitsPerValue + 8.0 * kDefaultPoolBytesPerTile / kTileElements,
              14.32, 0.005);
}

TEST(TheoryFigures, DefaultPoolHoldsAGaussianOfAnySigma) {
  const Spread bytes = overOctave([](double f) {
    return kTileElements * (1 - bestShare(sortedProbabilities(f), 7)) + 7.5 / 8;
  });
  EXPECT_NEAR(bytes.average, 26.0, 0.05);
  EXPECT_NEAR(bytes.most, 31.9, 0.05);
  EXPECT_LT(bytes.most, double{kDefaultPoolBytesPerTile});
}

// ---- Rounding to bf16
// ----------------------------------------------------------------------------

TEST(Bf16Rounding, IsAShiftOfTheFraction) {
  EXPECT_DOUBLE_EQ(kBf16FractionShift, -std::log2(1.0 - std::exp2(-9)));
  // The largest float that stays below 2^k, and the smallest that reaches it.
  for (int k : {-100, -3, 0, 17, 120}) {
    const float boundary = std::ldexp(1.0F - std::exp2(-9.0F), k);
    EXPECT_EQ(roundToBf16(boundary), std::ldexp(1.0F, k));
    EXPECT_LT(roundToBf16(std::nextafter(boundary, 0.0F)), std::ldexp(1.0F, k));
  }
  double mostLost = 0.0;
  for (int i = 0; i < 1024; ++i) {
    const double fraction = i / 1024.0;
    const double sigma = std::exp2(fraction);
    const auto rounded = fieldProbabilities(sigma, std::exp2(-9));
    const std::uint32_t base = windowBaseForSigma(sigma, 7);
    const double share = windowProbability(rounded, base, 7);
    const int offset = static_cast<int>(base) - 127;
    ASSERT_NEAR(share, coverage(fraction + kBf16FractionShift, offset, 7), 1e-9) << fraction;
    const double change = share - coverage(fraction, offset, 7);
    ASSERT_GT(change, -0.000175) << fraction;
    ASSERT_LT(change, 0.00006) << fraction;

    const double lost = windowProbability(rounded, bestBase(rounded, 7), 7) - share;
    mostLost = std::max(mostLost, lost);
    const double toTie = kTieFraction7 - fraction;
    if (toTie < 0 || toTie > kBf16FractionShift) {
      ASSERT_LT(lost, 1e-12) << fraction;
    }
  }
  EXPECT_LT(mostLost, 0.0002);
  EXPECT_GT(mostLost, 0.00001);
}

/// Within five standard errors of a binomial share.
void expectShare(std::uint64_t hits, std::uint64_t samples, double share, const std::string& what) {
  const double n = static_cast<double>(samples);
  EXPECT_NEAR(static_cast<double>(hits) / n, share, 5.0 * std::sqrt(share * (1 - share) / n))
      << what;
}

TEST_F(WindowProperty, RoundingChangesTheExponentOfOneValueIn355) {
  std::normal_distribution<double> normal;
  constexpr std::uint64_t kSamples = 1 << 21;
  const double sigma = std::exp2(std::uniform_real_distribution<double>(-20.0, 20.0)(random_));
  std::uint64_t changed = 0;
  for (std::uint64_t i = 0; i < kSamples; ++i) {
    const float x = static_cast<float>(sigma * normal(random_));
    changed += fieldOf(roundToBf16(x)) != fieldOf(x) ? 1 : 0;
  }
  double expected = 0.0;
  for (int k = -60; k < 30; ++k)
    expected += integrate(std::ldexp(1.0 - std::exp2(-9), k) / sigma, std::ldexp(1.0, k) / sigma);
  EXPECT_NEAR(1.0 / expected, 354.5, 0.9);  // it ripples with the fraction of log2 sigma
  expectShare(changed, kSamples, expected, "sigma " + std::to_string(sigma));
}

// ---- Samples
// -------------------------------------------------------------------------------------

TEST_F(WindowProperty, RoundedSamplesHaveTheStatedCoverage) {
  std::normal_distribution<double> normal;
  std::uniform_int_distribution<int> anyOctave(-115, 115);
  constexpr std::uint64_t kSamples = 1 << 17;
  for (int i = 0; i < 16; ++i) {
    const double fraction = (i + std::uniform_real_distribution<double>(0.0, 1.0)(random_)) / 16;
    const double sigma = std::ldexp(std::exp2(fraction), anyOctave(random_));
    const std::uint32_t base7 = windowBaseForSigma(sigma, 7);
    const std::uint32_t base6 = windowBaseForSigma(sigma, 6);
    std::array<std::uint64_t, 4> inside{};
    for (std::uint64_t n = 0; n < kSamples; ++n) {
      const std::uint32_t field = fieldOf(roundToBf16(static_cast<float>(sigma * normal(random_))));
      inside[0] += field - base7 < 7 ? 1 : 0;
      inside[1] += field - base6 < 6 ? 1 : 0;
      inside[2] += field - (base7 + 1) < 7 ? 1 : 0;
      inside[3] += field - (base7 - 1) < 7 ? 1 : 0;
    }
    const double shifted = fraction + kBf16FractionShift;
    const int offset7 = bestBaseOffset(fraction, 7);
    const int offset6 = bestBaseOffset(fraction, 6);
    const std::string what = "log2 sigma " + std::to_string(std::log2(sigma));
    expectShare(inside[0], kSamples, coverage(shifted, offset7, 7), "seven, " + what);
    expectShare(inside[1], kSamples, coverage(shifted, offset6, 6), "six, " + what);
    expectShare(inside[2], kSamples, coverage(shifted, offset7 + 1, 7), "too high, " + what);
    expectShare(inside[3], kSamples, coverage(shifted, offset7 - 1, 7), "too low, " + what);
  }
}

/// Mean |x| of `tile` as an encoder computes it: an fp32 sum, over the values that are not zero.
float meanOfNonZero(const std::vector<float>& tile) {
  float sum = 0.0F;
  std::uint32_t count = 0;
  for (float x : tile) {
    sum += std::abs(x);
    count += fieldOf(x) != 0 ? 1 : 0;
  }
  return count == 0 ? 0.0F : sum / static_cast<float>(count);
}

TEST_F(WindowProperty, TilesTakeTheWindowOfTheirOwnMean) {
  std::normal_distribution<double> normal;
  constexpr int kFractions = 32;
  constexpr int kTiles = 48;
  const int octave = std::uniform_int_distribution<int>(-100, 100)(random_);
  std::vector<float> tile(kTileElements);
  std::uint64_t escapes = 0;
  double expected = 0.0;
  for (int i = 0; i < kFractions; ++i) {
    const double fraction = (i + 0.5) / kFractions;
    expected += (1.0 - coverage(fraction, bestBaseOffset(fraction, 7), 7)) / kFractions;
    for (int t = 0; t < kTiles; ++t) {
      for (float& x : tile)
        x = roundToBf16(
            static_cast<float>(std::ldexp(std::exp2(fraction), octave) * normal(random_)));
      const std::uint32_t base = windowBase7FromMeanAbsBits(bitsOf(meanOfNonZero(tile)));
      for (float x : tile) escapes += fieldOf(x) - base >= 7 ? 1 : 0;
    }
  }
  // Theory section 5: the sampling error adds 0.00005.
  expectShare(escapes, std::uint64_t{kFractions} * kTiles * kTileElements, expected + 0.00005,
              "octave " + std::to_string(octave));
}

// Half of the tiles choose either window at the tie, and the share moves with the distance from it
// as the sampling error of section 5 says; zeros among the values change nothing for six.
TEST_F(WindowProperty, TilesAreUndecidedExactlyAtTheTie) {
  std::normal_distribution<double> normal;
  constexpr std::uint64_t kTiles = 2000;
  const double error = std::sqrt(M_PI / 2 - 1) / 32 / std::log(2.0);
  EXPECT_NEAR(error, 0.0341, 5e-5);
  std::vector<float> tile(kTileElements);
  for (int windowSize : {7, 6}) {
    const std::size_t zeros = windowSize == 7 ? 0 : kTileElements / 2;
    const double spread = windowSize == 7 ? error : error * std::sqrt(2.0);
    const double tie = windowSize == 7 ? kTieFraction7 : kTieFraction6;
    for (double distance : {-1.0, 0.0, 1.0}) {
      const double fraction = tie + distance * spread;
      std::uint64_t high = 0;
      for (std::uint64_t t = 0; t < kTiles; ++t) {
        for (std::size_t i = 0; i < tile.size(); ++i)
          tile[i] = i < zeros
                        ? 0.0F
                        : roundToBf16(static_cast<float>(std::exp2(fraction) * normal(random_)));
        const std::uint32_t base = windowBaseForMeanAbs(meanOfNonZero(tile), windowSize);
        const std::uint32_t lower = 127U + 2U - static_cast<std::uint32_t>(windowSize);
        ASSERT_TRUE(base == lower || base == lower + 1) << base;
        high += base - lower;
      }
      expectShare(high, kTiles, 0.5 * std::erfc(-distance / std::sqrt(2.0)),
                  std::to_string(windowSize) + " at " + std::to_string(distance));
    }
  }
}

// Theory section 5: the estimate from lane sums has its tie where its constant puts it, and the
// same error as the plain mean.
TEST_F(WindowProperty, LaneSumsAreUndecidedAtTheirOwnTie) {
  std::normal_distribution<double> normal;
  constexpr std::uint64_t kTiles = 2000;
  constexpr double kError = 0.0343;
  const double early = (std::ldexp(wholeLanes().rounding, -23) - 0.6881) / 0.928;
  for (double distance : {-1.0, 0.0, 1.0}) {
    const double sigma = std::exp2(kTieFraction7 - early + distance * kError);
    std::uint64_t high = 0;
    for (std::uint64_t t = 0; t < kTiles; ++t) {
      std::uint64_t sumOfLaneBits = 0;
      for (std::uint32_t lane = 0; lane < kLanes; ++lane) {
        float sum = 0.0F;
        for (std::uint32_t slot = 0; slot < kSlots; ++slot)
          sum += std::abs(roundToBf16(static_cast<float>(sigma * normal(random_))));
        sumOfLaneBits += bitsOf(sum);
      }
      const LaneSums sums = {static_cast<std::uint32_t>(sumOfLaneBits / kLanes), kLanes};
      const std::uint32_t base =
          sevenWindowBase(elementFormat(Datatype::kBfloat16), wholeLanes(), sums);
      ASSERT_TRUE(base == 122 || base == 123) << base;
      high += base - 122;
    }
    expectShare(high, kTiles, 0.5 * std::erfc(-distance / std::sqrt(2.0)),
                "distance " + std::to_string(distance));
  }
}

}  // namespace
}  // namespace zipccl::codec
