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
constexpr double kMaxFirstCallBits = 11.35;
constexpr double kMaxSteadyBits = 11.30;
/// 0.004 bits a value at the worst sigma (docs/theory.md section 5), and six standard deviations of
/// the share of a sample of kCount values.
constexpr double kMaxLostShare = 0.004 / 8 + 6 * 0.00017;

class Bits : public zipccl::testing::SeededTest {
 protected:
  Bytes gaussianElements(double sigma) {
    Words words(kCount);
    for (std::uint32_t& word : words) {
      word = bfloat16Word(static_cast<float>(sigma * random_.normal()));
    }
    return elementsOf(Datatype::kBfloat16, words);
  }
};

TEST_F(Bits, GaussianOfEverySigmaInAnOctave) {
  const FrameSpec spec = specOf(kFormats[0], kCount);
  const double octave = std::floor(40.0 * random_.uniform()) - 30.0;
  for (int i = 0; i < kSigmas; ++i) {
    const double sigma = std::exp2(octave + static_cast<double>(i) / kSigmas);
    const EncodeResult earlier = encodeChecked(spec, gaussianElements(sigma)).result;
    const BitsPerValue bits = bitsPerValue(spec, gaussianElements(sigma), earlier.extraBytes);
    const double escapeShare = static_cast<double>(earlier.escapes) / static_cast<double>(kCount);
    std::printf(
        "{\"normal\":%.9g,\"elements\":%llu,\"firstCallBits\":%.5f,\"steadyBits\":%.5f,"
        "\"escapeShare\":%.5f}\n",
        sigma, static_cast<unsigned long long>(kCount), bits.firstCall, bits.steady, escapeShare);
    EXPECT_LE(bits.firstCall, kMaxFirstCallBits) << sigma;
    EXPECT_LE(bits.steady, kMaxSteadyBits) << sigma;
    // The choice from the tile itself costs next to nothing over the best window for the known
    // sigma.
    const double fraction = static_cast<double>(i) / kSigmas + kBf16FractionShift;
    const double bestShare = 1.0 - coverage(fraction, bestBaseOffset(fraction, 7), 7);
    EXPECT_LT(escapeShare, bestShare + kMaxLostShare) << sigma;
    EXPECT_GT(escapeShare, bestShare - kMaxLostShare) << sigma;
    EXPECT_EQ(earlier.rawTiles + earlier.zeroCodeTiles + earlier.emptyTiles, 0U);
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
