// SPDX-License-Identifier: Apache-2.0
//
// Bits a value, with all bytes of the frame counted: Gaussian bf16 of every sigma, and the sample
// tensors of data/, against the goals. Each measurement is printed as one line of JSON.

#include <gtest/gtest.h>

#include <cmath>
#include <cstdio>
#include <map>
#include <string>

#include "codec/codec_testing.hpp"
#include "codec/tensor_bits.hpp"
#include "codec/window.hpp"
#include "support/safetensors.hpp"
#include "support/seeded_test.hpp"

namespace zipccl::codec::testing {
namespace {

constexpr std::uint64_t kCount = 1 << 20;
constexpr int kSigmas = 16;
/// 0.004 bits a value at the worst sigma (docs/theory.md section 5), and six standard deviations of
/// the share of a sample of kCount values.
constexpr double kMaxLostShare = 0.004 / 8 + 6 * 0.00017;

struct Goal {
  Format format;
  double maxFirstCallBits;
  double maxSteadyBits;
  double fractionShift;  ///< of rounding (docs/theory.md section 6)
  double leastOctave;    ///< of sigma, where no tail of the distribution meets the exponents' ends
  double mostOctave;
  double zeroCodeOctave;  ///< below it exponent field 0 may win a code in a tile
};
constexpr Goal kGoals[] = {
    {kBfloat16Format, 11.35, 11.30, kBf16FractionShift, -30, 10, -30},
    {kFloat16Format, 14.35, 14.30, kFp16FractionShift, -7, 8, -5},
};

class Bits : public zipccl::testing::SeededTest {
 protected:
  Bytes gaussianElements(Datatype datatype, double sigma) {
    Words words(kCount);
    for (std::uint32_t& word : words) {
      word = wordOfNumber(datatype, static_cast<float>(sigma * random_.normal()));
    }
    return elementsOf(datatype, words);
  }

  struct Measured {
    EncodeResult earlier;
    BitsPerValue bits;
    double escapeShare;
  };

  Measured measure(const Format& format, double sigma) {
    const FrameSpec spec = specOf(format, kCount);
    Measured m;
    m.earlier = encodeChecked(spec, gaussianElements(format.datatype, sigma)).result;
    m.bits = bitsPerValue(spec, gaussianElements(format.datatype, sigma), m.earlier.extraBytes);
    m.escapeShare = static_cast<double>(m.earlier.escapes) / static_cast<double>(kCount);
    std::printf(
        "{\"datatype\":\"%s\",\"normal\":%.9g,\"elements\":%llu,\"firstCallBits\":%.5f,"
        "\"steadyBits\":%.5f,\"escapeShare\":%.5f}\n",
        format.name, sigma, static_cast<unsigned long long>(kCount), m.bits.firstCall,
        m.bits.steady, m.escapeShare);
    return m;
  }
};

TEST_F(Bits, GaussianOfEverySigmaInAnOctave) {
  for (const Goal& goal : kGoals) {
    const double octaves = goal.mostOctave - goal.leastOctave;
    const double octave = std::floor(octaves * random_.uniform()) + goal.leastOctave;
    for (int i = 0; i < kSigmas; ++i) {
      const double sigma = std::exp2(octave + static_cast<double>(i) / kSigmas);
      const Measured m = measure(goal.format, sigma);
      EXPECT_LE(m.bits.firstCall, goal.maxFirstCallBits) << sigma;
      EXPECT_LE(m.bits.steady, goal.maxSteadyBits) << sigma;
      // The choice from the tile itself costs next to nothing over the best window for the known
      // sigma.
      const double fraction = static_cast<double>(i) / kSigmas + goal.fractionShift;
      const double bestShare = 1.0 - coverage(fraction, bestBaseOffset(fraction, 7), 7);
      EXPECT_LT(m.escapeShare, bestShare + kMaxLostShare) << sigma;
      EXPECT_GT(m.escapeShare, bestShare - kMaxLostShare) << sigma;
      EXPECT_EQ(m.earlier.rawTiles + m.earlier.emptyTiles, 0U);
      const std::uint64_t mostZeroCodeTiles =
          octave < goal.zeroCodeOctave ? m.earlier.tiles / 100 : 0;
      EXPECT_LE(m.earlier.zeroCodeTiles, mostZeroCodeTiles) << sigma;
    }
  }
}

TEST_F(Bits, GaussianOfFp16AtTheEndsOfTheExponents) {
  // Field 0 holds the whole lower tail and infinity the upper one (docs/theory.md section 10).
  for (const double octave :
       {-25.0, -20.0, -15.0, -12.0, -11.0, -10.0, -9.5, -9.0, 10.0, 12.0, 13.0}) {
    const Measured m = measure(kFloat16Format, std::exp2(octave + random_.uniform() / 2));
    // At the tie of base 0 and 1 the rule costs 0.12 bits.
    EXPECT_LE(m.bits.firstCall, 14.35 + 0.12) << octave;
    EXPECT_LE(m.bits.steady, 14.30 + 0.12) << octave;
    EXPECT_EQ(m.earlier.rawTiles, 0U) << octave;
  }
}

TEST_F(Bits, SampleTensorsMeetTheGoalsOfTheirKinds) {
  std::map<std::string, int> kinds;
  for (const char* const name : {"bf16.safetensors", "fp32.safetensors"}) {
    const zipccl::testing::SafetensorsFile file(std::string(ZIPCCL_DATA_FOLDER "/") + name);
    for (const zipccl::testing::Tensor& tensor : file.tensors()) {
      const auto report = reportOf(tensor);
      if (!report) continue;
      std::printf("%s\n", toJson(*report).c_str());
      EXPECT_TRUE(report->meetsGoal()) << name << " " << tensor.name;
      ++kinds[report->goal.kind];
    }
  }
  const std::map<std::string, int> expected = {
      {"accumulated gradients", 1}, {"activations", 2}, {"bf16 gradients", 2},
      {"embedding gradients", 2},   {"parameters", 1},  {"widened gradients", 1}};
  EXPECT_EQ(kinds, expected);
}

TEST_F(Bits, SampleTensorsComeBack) {
  for (const char* const name : {"bf16.safetensors", "fp32.safetensors"}) {
    const zipccl::testing::SafetensorsFile file(std::string(ZIPCCL_DATA_FOLDER "/") + name);
    for (const zipccl::testing::Tensor& tensor : file.tensors()) {
      for (const Format& format : kFormats) {
        // Any bytes are elements: the int32 counts too, and bf16 values two by two.
        const std::uint64_t count = tensor.bytes.size() / elementBytes(format.datatype);
        SCOPED_TRACE(::testing::Message() << tensor.name << " as " << format);
        roundTrip(specOf(format, count), tensor.bytes);
      }
    }
  }
}

}  // namespace
}  // namespace zipccl::codec::testing
