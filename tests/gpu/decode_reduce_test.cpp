// SPDX-License-Identifier: Apache-2.0
//
// Decode-reduce: the documented arithmetic, bit for bit against the same steps on the host, and
// what it does with frames that are bad.

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <vector>

#include "base/error.hpp"
#include "codec/codec_testing.hpp"
#include "codec/layout.hpp"
#include "gpu/gpu_testing.hpp"

namespace zipccl::gpu::testing {
namespace {

using codec::Datatype;
using codec::DecodeStatus;
using codec::testing::elementsOf;
using codec::testing::mixedWords;
using codec::testing::specOf;

/// `value` rounded to `datatype`, NaNs canonical.
std::uint32_t roundedWord(Datatype datatype, float value) {
  if (datatype == Datatype::kFloat32) {
    return std::isnan(value) ? 0x7FFFFFFFU : std::bit_cast<std::uint32_t>(value);
  }
  return std::isnan(value) ? 0x7FFF0000U : codec::testing::wordOfNumber(datatype, value);
}

/// The number of a word; of fp16 by its definition.
float numberOf(Datatype datatype, std::uint32_t word) {
  if (datatype != Datatype::kFloat16) return std::bit_cast<float>(word);
  const auto exponent = static_cast<int>(word >> 26 & 31U);
  const auto mantissa = static_cast<float>(word >> 16 & 1023U);
  const float sign = word >> 31 != 0 ? -1.0F : 1.0F;
  if (exponent == 31) {
    return mantissa == 0.0F ? sign * std::numeric_limits<float>::infinity()
                            : std::numeric_limits<float>::quiet_NaN();
  }
  return sign * (exponent == 0 ? std::ldexp(mantissa, -24)
                               : std::ldexp(1024.0F + mantissa, exponent - 25));
}

Words sumOnHost(Datatype datatype, const std::vector<Words>& inputs, float factor) {
  Words sum(inputs.front().size());
  for (std::size_t i = 0; i < sum.size(); ++i) {
    float total = 0;
    for (std::size_t frame = 0; frame < inputs.size(); ++frame) {
      float addend = numberOf(datatype, inputs[frame][i]);
      if (factor != 1.0F) {
        addend = numberOf(datatype, roundedWord(datatype, addend * factor));
      }
      total = frame == 0 ? addend : total + addend;
    }
    sum[i] = roundedWord(datatype, total);
  }
  return sum;
}

class DecodeReduce : public DeviceTest {
 protected:
  enum class Parts { kTogether, kApart };

  /// Host frames on the device.
  struct Frames {
    std::vector<GuardedDeviceBuffer> buffers;  ///< one a frame, or two
    std::vector<FrameParts> parts;
  };

  void add(Frames& frames, const FrameSpec& spec, std::span<const std::byte> frame, Parts parts) {
    const std::uint64_t split = codec::staticBytes(spec);
    frames.buffers.emplace_back(stream(), parts == Parts::kApart ? frame.first(split) : frame);
    const std::byte* const data = frames.buffers.back().data();
    const std::byte* dynamic = data + split;
    if (parts == Parts::kApart) {
      frames.buffers.emplace_back(stream(), frame.subspan(split));
      dynamic = frames.buffers.back().data();
    }
    frames.parts.push_back({data, frame.size() == split ? nullptr : dynamic, frame.size() - split});
  }

  Frames upload(const FrameSpec& spec, const std::vector<Words>& inputs,
                Parts parts = Parts::kTogether) {
    Frames frames;
    for (const Words& words : inputs) {
      add(frames, spec, encodeOnHost(spec, elementsOf(spec.datatype, words)), parts);
    }
    return frames;
  }

  /// Adds up frames of `words` and compares with the host's sum.
  void expectSum(const FrameSpec& spec, const std::vector<Words>& words, float factor, Parts parts,
                 const Manner& manner = {}) {
    const Frames frames = upload(spec, words, parts);
    const GuardedDeviceBuffer output(
        stream(), spec.elementCount * codec::elementBytes(spec.datatype), manner.misalignmentBytes);
    const DeviceWord<std::uint32_t> status(stream(), 0);
    decodeReduce(spec, frames.parts, factor, output.data(), status.get(), stream().get(),
                 manner.options);
    EXPECT_EQ(status.value(), 0U) << describeWord(status.value());
    EXPECT_TRUE(equalBytes(output.download(),
                           elementsOf(spec.datatype, sumOnHost(spec.datatype, words, factor))));
    EXPECT_TRUE(output.isIntact());
  }

  std::vector<Words> inputs(Datatype datatype, std::size_t frames, std::uint64_t count) {
    std::vector<Words> all;
    for (std::size_t i = 0; i < frames; ++i) {
      all.push_back(mixedWords(datatype, random_, count));
      if (datatype != Datatype::kFloat32) {
        for (std::uint32_t& word : all.back()) word &= 0xFFFF0000U;
      }
    }
    return all;
  }
};

TEST_F(DecodeReduce, AddsInTheOrderOfTheFrames) {
  for (const Format& format : kGpuFormats) {
    for (const std::uint64_t count : {0ULL, 1ULL, 1023ULL, 1024ULL, 8193ULL, 30011ULL}) {
      for (const std::size_t frameCount : {1UL, 2UL, 3UL, 8UL}) {
        for (const float factor : {1.0F, 0.5F, 0.333984375F}) {
          SCOPED_TRACE(::testing::Message() << format.name << " " << count << " elements, "
                                            << frameCount << " frames, factor " << factor);
          if (usesExactBuffers() && (count != 8193 || factor == 0.5F)) continue;
          const FrameSpec spec = specOf(format, count);
          const std::uint64_t elementBytes = codec::elementBytes(format.datatype);
          expectSum(spec, inputs(format.datatype, frameCount, count), factor, Parts::kTogether,
                    {{random_.below(2) == 0 ? 0U : 2U}, random_.below(2) * elementBytes});
          if (HasFailure()) return;
        }
      }
    }
  }
}

TEST_F(DecodeReduce, FramesOfTwoPartsWithTheBorderAnywhere) {
  for (const Format& format : kGpuFormats) {
    const std::uint64_t count = 19 * codec::kTileElements + 5;
    FrameSpec spec = specOf(format, count);
    const std::uint64_t most = codec::maxPoolBytes(format.datatype, format.layout, count);
    for (int repeat = 0; repeat < (usesExactBuffers() ? 6 : 30); ++repeat) {
      spec.poolBytes = random_.below(most / 128 / (repeat % 3 + 1) + 1) * 128;
      SCOPED_TRACE(::testing::Message() << format << " pool " << spec.poolBytes);
      expectSum(spec, inputs(format.datatype, 3, count), 1.0F, Parts::kApart);
      if (HasFailure()) return;
    }
  }
}

TEST_F(DecodeReduce, EscapesThatCrossTheBorder) {
  // As many escapes as a tile may have, and the pool ends behind every 128th of them.
  for (const Format& format : kGpuFormats) {
    const std::uint64_t mostPool = codec::maxPoolBytes(format.datatype, format.layout, 2048);
    for (std::uint64_t pool = 0; pool <= std::min<std::uint64_t>(768, mostPool); pool += 128) {
      SCOPED_TRACE(::testing::Message() << format << " pool " << pool);
      std::vector<Words> words;
      const std::uint32_t most = codec::elementFormat(format.datatype).maxEscapes();
      for (const std::uint32_t escapes : {37U, most}) {
        words.push_back(tileWithEscapes(random_, format.datatype, escapes));
        append(words.back(), tileWithEscapes(random_, format.datatype, most));
      }
      FrameSpec spec = specOf(format, words[0].size());
      spec.poolBytes = pool;
      expectSum(spec, words, 1.0F, Parts::kApart);
      if (HasFailure()) return;
    }
  }
}

TEST_F(DecodeReduce, EscapesAtEveryLimit) {
  // 4: what a lane places without a loop; 512 bytes: what is copied at once.
  for (const Format& format : kGpuFormats) {
    for (const std::uint32_t escapes :
         {0U, 1U, 31U, 33U, 64U, 65U, 128U, 129U, 495U, 496U, 497U, 511U, 512U, 513U, 640U, 641U}) {
      SCOPED_TRACE(::testing::Message() << format << " escapes " << escapes);
      std::vector<Words> words;
      for (int frame = 0; frame < 2; ++frame) {
        words.emplace_back();
        for (int tile = 0; tile < 9; ++tile) {
          append(words.back(), tileWithEscapes(random_, format.datatype, escapes));
        }
      }
      expectSum(specOf(format, words[0].size()), words, 1.0F, Parts::kTogether);
      if (HasFailure()) return;
    }
  }
}

TEST_F(DecodeReduce, ManyFrames) {
  for (const Format& format : kGpuFormats) {
    for (const std::size_t frameCount : {4UL, 5UL, 15UL, 16UL, 17UL, 33UL, 64UL}) {
      if (usesExactBuffers() && frameCount > 17) continue;
      SCOPED_TRACE(::testing::Message() << format << " " << frameCount << " frames");
      const std::uint64_t count = 9 * codec::kTileElements + random_.below(1000);
      expectSum(specOf(format, count), inputs(format.datatype, frameCount, count), 1.0F,
                Parts::kTogether, {{random_.below(2) == 0 ? 0U : 2U}});
      if (HasFailure()) return;
    }
  }
  if (usesExactBuffers()) return;
  // As many as there may be.
  const FrameSpec spec = specOf(kGpuFormats[0], 2500);
  expectSum(spec, inputs(Datatype::kBfloat16, kMaxReduceFrames, 2500), 0.5F, Parts::kTogether);
}

TEST_F(DecodeReduce, FindsWhatDecodeFinds) {
  for (const Format& format : kGpuFormats) {
    const std::uint64_t count = 18 * codec::kTileElements;
    FrameSpec spec = specOf(format, count);
    spec.poolBytes = 1280;
    const auto words = inputs(format.datatype, 2, count);
    const Bytes good = encodeOnHost(spec, elementsOf(format.datatype, words[0]));
    const codec::FrameLayout layout =
        codec::frameLayout(spec.datatype, spec.layout, spec.elementCount, spec.poolBytes);
    const GuardedDeviceBuffer output(stream(), count * codec::elementBytes(format.datatype));
    std::uint32_t faults = 0;
    for (int repeat = 0; repeat < (usesExactBuffers() ? 40 : 400) && !HasFailure(); ++repeat) {
      Bytes bad = encodeOnHost(spec, elementsOf(format.datatype, words[1]));
      // Half of the changes hit descriptors and offsets of groups.
      const std::uint64_t at = random_.chance(0.5)
                                   ? layout.descriptorsAt + random_.below(layout.tilesAt - 128)
                                   : random_.below(codec::staticBytes(spec));
      bad[at] ^= static_cast<std::byte>(1U << random_.below(8));
      Frames frames;
      add(frames, spec, good, Parts::kApart);
      add(frames, spec, bad, Parts::kApart);
      const DeviceWord<std::uint32_t> status(stream(), 0);
      const FrameParts& parts = frames.parts[1];
      decode(spec, parts.staticPart, parts.dynamicPart, parts.dynamicCapacity, output.data(),
             status.get(), stream().get());
      const std::uint32_t expected = status.value();
      const DeviceWord<std::uint32_t> both(stream(), 0);
      decodeReduce(spec, frames.parts, 1.0F, output.data(), both.get(), stream().get());
      EXPECT_EQ(describeWord(both.value()), describeWord(expected)) << format << " byte " << at;
      EXPECT_TRUE(output.isIntact() && both.isIntact());
      faults |= expected;
    }
    using codec::DecodeStatus;
    for (const DecodeStatus status : {DecodeStatus::kBadDescriptor, DecodeStatus::kBadGroupOffset,
                                      DecodeStatus::kBadEscapeCount}) {
      if (usesExactBuffers()) continue;
      EXPECT_NE(faults & 1U << static_cast<unsigned>(status), 0U) << codec::describe(status);
    }
  }
}

TEST_F(DecodeReduce, AloneKeepsMinusZero) {
  const FrameSpec spec = specOf(kGpuFormats[0], 2048);
  const Frames frames = upload(spec, {Words(2048, 0x80000000U)});
  const GuardedDeviceBuffer output(stream(), 4096);
  const DeviceWord<std::uint32_t> status(stream(), 0);
  decodeReduce(spec, frames.parts, 1.0F, output.data(), status.get(), stream().get());
  EXPECT_TRUE(
      equalBytes(output.download(), elementsOf(Datatype::kBfloat16, Words(2048, 0x80000000U))));
}

TEST_F(DecodeReduce, ReportsABadFrameAmongGoodOnes) {
  const FrameSpec spec = specOf(kGpuFormats[0], 20000);
  Frames frames = upload(spec, inputs(Datatype::kBfloat16, 3, 20000));
  const GuardedDeviceBuffer output(stream(), 40000);
  const DeviceWord<std::uint32_t> status(stream(), 0);
  const std::byte wrongMagic{0};
  frames.buffers[1].upload(std::span(&wrongMagic, 1));
  decodeReduce(spec, frames.parts, 1.0F, output.data(), status.get(), stream().get());
  EXPECT_EQ(statusOf(status.value()), DecodeStatus::kBadMagic);
  EXPECT_TRUE(output.isIntact());
}

TEST_F(DecodeReduce, RejectsBadArguments) {
  const FrameSpec spec = specOf(kGpuFormats[0], 2048);
  const Frames frames = upload(spec, inputs(Datatype::kBfloat16, 1, 2048));
  const GuardedDeviceBuffer output(stream(), 4096);
  const DeviceWord<std::uint32_t> status(stream(), 0);
  const auto call = [&](std::span<const FrameParts> parts, float factor, void* to) {
    decodeReduce(spec, parts, factor, to, status.get(), stream().get());
  };
  EXPECT_THROW(call({}, 1.0F, output.data()), Error);
  const std::vector<FrameParts> tooMany(kMaxReduceFrames + 1, frames.parts[0]);
  EXPECT_THROW(call(tooMany, 1.0F, output.data()), Error);
  EXPECT_THROW(call(frames.parts, 1.0F / 3.0F, output.data()), Error);  // no number of bf16
  EXPECT_THROW(call(frames.parts, 1.0F, nullptr), Error);
  EXPECT_THROW(call(frames.parts, 1.0F, output.data() + 1), Error);
}

}  // namespace
}  // namespace zipccl::gpu::testing
