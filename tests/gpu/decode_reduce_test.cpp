// SPDX-License-Identifier: Apache-2.0
//
// Decode-reduce: the documented arithmetic, bit for bit against the same steps on the host, and
// what it does with frames that are bad.

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <vector>

#include "base/error.hpp"
#include "codec/codec_testing.hpp"
#include "gpu/gpu_testing.hpp"

namespace zipccl::gpu::testing {
namespace {

using codec::Datatype;
using codec::DecodeStatus;
using codec::testing::bfloat16Word;
using codec::testing::elementsOf;
using codec::testing::mixedWords;
using codec::testing::specOf;

/// `value` rounded to `datatype`, NaNs canonical.
std::uint32_t roundedWord(Datatype datatype, float value) {
  if (datatype == Datatype::kFloat32) {
    return std::isnan(value) ? 0x7FFFFFFFU : std::bit_cast<std::uint32_t>(value);
  }
  return std::isnan(value) ? 0x7FFF0000U : bfloat16Word(value);
}

Words sumOnHost(Datatype datatype, const std::vector<Words>& inputs, float factor) {
  Words sum(inputs.front().size());
  for (std::size_t i = 0; i < sum.size(); ++i) {
    float total = 0;
    for (std::size_t frame = 0; frame < inputs.size(); ++frame) {
      float addend = std::bit_cast<float>(inputs[frame][i]);
      if (factor != 1.0F) {
        addend = std::bit_cast<float>(roundedWord(datatype, addend * factor));
      }
      total = frame == 0 ? addend : total + addend;
    }
    sum[i] = roundedWord(datatype, total);
  }
  return sum;
}

class DecodeReduce : public DeviceTest {
 protected:
  /// Host frames on the device, each in one piece.
  struct Frames {
    std::vector<GuardedDeviceBuffer> buffers;
    std::vector<FrameParts> parts;
  };

  Frames upload(const FrameSpec& spec, const std::vector<Words>& inputs) {
    Frames frames;
    for (const Words& words : inputs) {
      const Bytes frame = encodeOnHost(spec, elementsOf(spec.datatype, words));
      frames.buffers.emplace_back(stream(), frame);
      const std::byte* data = frames.buffers.back().data();
      const std::uint64_t split = codec::staticBytes(spec);
      frames.parts.push_back({data, data + split, frame.size() - split});
    }
    return frames;
  }

  std::vector<Words> inputs(Datatype datatype, std::size_t frames, std::uint64_t count) {
    std::vector<Words> all;
    for (std::size_t i = 0; i < frames; ++i) {
      all.push_back(mixedWords(datatype, random_, count));
      if (datatype == Datatype::kBfloat16) {
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
          const FrameSpec spec = specOf(format, count);
          const auto words = inputs(format.datatype, frameCount, count);
          const Frames frames = upload(spec, words);
          const std::uint64_t elementBytes = codec::elementBytes(format.datatype);
          const GuardedDeviceBuffer output(stream(), count * elementBytes,
                                           random_.below(2) * elementBytes);
          const DeviceWord<std::uint32_t> status(stream(), 0);
          decodeReduce(spec, frames.parts, factor, output.data(), status.get(), stream().get(),
                       LaunchOptions{.maxBlocks = random_.below(2) == 0 ? 0U : 2U});
          EXPECT_EQ(status.value(), 0U) << describeWord(status.value());
          EXPECT_TRUE(
              equalBytes(output.download(),
                         elementsOf(format.datatype, sumOnHost(format.datatype, words, factor))));
          EXPECT_TRUE(output.isIntact());
        }
      }
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
