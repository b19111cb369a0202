// SPDX-License-Identifier: Apache-2.0
//
// Batches: many frames of different sizes in one launch are the frames that single calls make and
// read, whatever their number, sizes and places, and a bad one among them harms no other.

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <vector>

#include "codec/layout.hpp"
#include "gpu/gpu_testing.hpp"

namespace zipccl::gpu::testing {
namespace {

using codec::DecodeStatus;
using codec::kTileElements;
using codec::testing::elementsOf;
using codec::testing::specOf;

/// Frames of one format, each with buffers of its own.
class BatchPipeline {
 public:
  BatchPipeline(const Stream& stream, const Format& format, std::vector<std::uint64_t> counts,
                Random& random)
      : stream_(stream),
        format_(format),
        workspace_(stream, encodeWorkspaceBytes(counts.size())),
        frameBytes_(stream, counts.size() * sizeof(std::uint64_t)),
        statuses_(stream, counts.size() * sizeof(std::uint32_t)) {
    const std::uint64_t elementBytes = codec::elementBytes(format.datatype);
    for (const std::uint64_t count : counts) {
      FrameSpec spec = specOf(format, count);
      if (random.chance(0.3)) spec.poolBytes = 0;
      specs_.push_back(spec);
      const std::uint64_t capacity = codec::maxFrameBytes(format.datatype, count);
      // Half of the frames and outputs are not 16-byte aligned.
      sources_.emplace_back(stream, count * elementBytes, random.below(2) * elementBytes);
      frames_.emplace_back(stream, capacity);
      outputs_.emplace_back(stream, count * elementBytes, random.below(2) * elementBytes);
    }
    initEncodeWorkspace(workspace_.data(), stream.get(), counts.size());
  }

  [[nodiscard]] std::size_t size() const { return specs_.size(); }
  [[nodiscard]] const FrameSpec& spec(std::size_t i) const { return specs_[i]; }
  [[nodiscard]] GuardedDeviceBuffer& frame(std::size_t i) { return frames_[i]; }

  void fill(Random& random) {
    elements_.clear();
    for (std::size_t i = 0; i < size(); ++i) {
      elements_.push_back(
          elementsOf(format_.datatype,
                     codec::testing::mixedWords(format_.datatype, random, specs_[i].elementCount)));
      sources_[i].upload(elements_[i]);
    }
  }

  void poison() {
    for (std::size_t i = 0; i < size(); ++i) {
      frames_[i].poison();
      outputs_[i].poison();
    }
    frameBytes_.poison();
    clearStatuses();
  }
  void clearStatuses() { statuses_.upload(Bytes(statuses_.bytes())); }

  void encode(const LaunchOptions& options = {}, const codec::ApplicationWords& application = {}) {
    std::vector<EncodeItem> items;
    for (std::size_t i = 0; i < size(); ++i) {
      items.push_back(
          {specs_[i].elementCount, specs_[i].poolBytes, sources_[i].data(), frames_[i].data(),
           frames_[i].bytes(),
           i % 7 == 6 ? nullptr : reinterpret_cast<std::uint64_t*>(frameBytes_.data()) + i});
    }
    encodeBatch(format_.datatype, format_.layout, items, workspace_.data(), stream_.get(), options,
                application);
  }

  void decode(const LaunchOptions& options = {}) {
    std::vector<DecodeItem> items;
    for (std::size_t i = 0; i < size(); ++i) {
      const std::uint64_t split = codec::staticBytes(specs_[i]);
      items.push_back({specs_[i].elementCount, specs_[i].poolBytes, frames_[i].data(),
                       frames_[i].data() + split, frames_[i].bytes() - split, outputs_[i].data(),
                       reinterpret_cast<std::uint32_t*>(statuses_.data()) + i});
    }
    decodeBatch(format_.datatype, format_.layout, items, stream_.get(), options);
  }

  /// That the host's decoder and decode() read each frame, and their sizes.
  void expectFrames(const codec::ApplicationWords& application = {}) {
    const Bytes sizes = frameBytes_.download();
    for (std::size_t i = 0; i < size() && !::testing::Test::HasFailure(); ++i) {
      SCOPED_TRACE(::testing::Message()
                   << "frame " << i << " of " << specs_[i].elementCount << " elements");
      const Bytes frame = frames_[i].download();
      codec::FrameHeader header;
      ASSERT_EQ(codec::readHeader(frame, header), DecodeStatus::kOk);
      EXPECT_EQ(header.spec, specs_[i]);
      EXPECT_EQ(header.application, application);
      const std::uint64_t frameBytes = header.staticBytes + header.dynamicBytes;
      std::uint64_t told = 0;
      std::copy_n(sizes.begin() + static_cast<std::ptrdiff_t>(i * sizeof(told)), sizeof(told),
                  reinterpret_cast<std::byte*>(&told));
      if (i % 7 != 6) {
        EXPECT_EQ(told, frameBytes);
      }
      const auto rest = std::span(frame).subspan(frameBytes);
      EXPECT_TRUE(std::all_of(rest.begin(), rest.end(),
                              [](std::byte byte) { return byte == GuardedDeviceBuffer::kPoison; }));
      Bytes decoded(elements_[i].size());
      EXPECT_EQ(codec::decodeFrame(std::span(frame).first(frameBytes), decoded), DecodeStatus::kOk);
      EXPECT_TRUE(equalBytes(decoded, elements_[i])) << "the host's decoder";

      const GuardedDeviceBuffer output(stream_, elements_[i].size());
      const DeviceWord<std::uint32_t> status(stream_, 0);
      gpu::decode(specs_[i], frames_[i].data(), frames_[i].data() + header.staticBytes,
                  frames_[i].bytes() - header.staticBytes, output.data(), status.get(),
                  stream_.get());
      EXPECT_EQ(status.value(), 0U);
      EXPECT_TRUE(equalBytes(output.download(), elements_[i])) << "decode()";
    }
    expectIntact();
  }

  /// That the outputs of all frames but `bad` are right, and that only its status tells a fault.
  void expectOutputs(std::size_t bad = SIZE_MAX) {
    const Bytes words = statuses_.download();
    for (std::size_t i = 0; i < size(); ++i) {
      std::uint32_t status = 0;
      std::copy_n(words.begin() + static_cast<std::ptrdiff_t>(i * sizeof(status)), sizeof(status),
                  reinterpret_cast<std::byte*>(&status));
      if (i == bad) {
        EXPECT_NE(status, 0U) << "frame " << i;
        continue;
      }
      EXPECT_EQ(status, 0U) << "frame " << i << ": " << describeWord(status);
      EXPECT_TRUE(equalBytes(outputs_[i].download(), elements_[i])) << "frame " << i;
    }
    expectIntact();
  }

  void expectIntact() const {
    for (std::size_t i = 0; i < size(); ++i) {
      EXPECT_TRUE(sources_[i].isIntact() && frames_[i].isIntact() && outputs_[i].isIntact())
          << "frame " << i;
    }
    EXPECT_TRUE(workspace_.isIntact() && frameBytes_.isIntact() && statuses_.isIntact());
  }

 private:
  const Stream& stream_;
  Format format_;
  std::vector<FrameSpec> specs_;
  std::vector<Bytes> elements_;
  std::vector<GuardedDeviceBuffer> sources_;
  std::vector<GuardedDeviceBuffer> frames_;
  std::vector<GuardedDeviceBuffer> outputs_;
  GuardedDeviceBuffer workspace_;
  GuardedDeviceBuffer frameBytes_;
  GuardedDeviceBuffer statuses_;
};

class Batch : public DeviceTest {
 protected:
  /// Nothing, one, some around whole tiles and groups, and any, of `most` at most.
  std::vector<std::uint64_t> unevenCounts(std::size_t frames, std::uint64_t most) {
    const std::uint64_t edges[] = {0,
                                   1,
                                   kTileElements - 1,
                                   kTileElements,
                                   kTileElements + 1,
                                   8 * kTileElements - 1,
                                   8 * kTileElements,
                                   8 * kTileElements + 1};
    std::vector<std::uint64_t> counts;
    for (std::size_t i = 0; i < frames; ++i) {
      counts.push_back(random_.chance(0.4) ? edges[random_.below(std::size(edges))]
                                           : random_.below(most));
    }
    return counts;
  }
};

TEST_F(Batch, FramesOfAnySizes) {
  for (const Format& format : kGpuFormats) {
    // 32 and 33: below and above where launches carry the large table.
    for (const std::size_t frames : {1UL, 2UL, 8UL, 32UL, 33UL, 64UL, 512UL}) {
      if (usesExactBuffers() && frames != 8 && frames != 33) continue;
      for (const unsigned maxBlocks : {0U, 3U}) {
        SCOPED_TRACE(::testing::Message()
                     << format << " " << frames << " frames, blocks " << maxBlocks);
        const std::uint64_t most = (frames > 64 ? 12 : 40) * std::uint64_t{kTileElements};
        BatchPipeline pipeline(stream(), format, unevenCounts(frames, most), random_);
        pipeline.fill(random_);
        pipeline.poison();
        const codec::ApplicationWords words = {random_(), random_(), random_(), random_()};
        pipeline.encode({maxBlocks}, words);
        pipeline.expectFrames(words);
        pipeline.decode({maxBlocks});
        pipeline.expectOutputs();
        if (HasFailure()) return;
      }
    }
  }
}

TEST_F(Batch, FramesOfNothingAlone) {
  const Format& format = kGpuFormats[0];
  for (const std::size_t frames : {1UL, 40UL}) {
    BatchPipeline pipeline(stream(), format, std::vector<std::uint64_t>(frames, 0), random_);
    pipeline.fill(random_);
    pipeline.poison();
    pipeline.encode();
    pipeline.expectFrames();
    pipeline.decode();
    pipeline.expectOutputs();
  }
  encodeBatch(format.datatype, format.layout, {}, workspace(), stream().get());
  decodeBatch(format.datatype, format.layout, {}, stream().get());
}

TEST_F(Batch, OneLargeAmongSmall) {
  const Format& format = kGpuFormats[0];
  std::vector<std::uint64_t> counts = unevenCounts(20, 5000);
  counts[random_.below(20)] = 3'000'001;
  BatchPipeline pipeline(stream(), format, counts, random_);
  pipeline.fill(random_);
  pipeline.poison();
  pipeline.encode();
  pipeline.expectFrames();
  pipeline.decode();
  pipeline.expectOutputs();
}

TEST_F(Batch, ABadFrameLeavesTheOthersRight) {
  for (const Format& format : kGpuFormats) {
    BatchPipeline pipeline(stream(), format, unevenCounts(9, 20 * kTileElements), random_);
    pipeline.fill(random_);
    pipeline.poison();
    pipeline.encode();
    for (std::size_t bad = 0; bad < pipeline.size() && !HasFailure(); ++bad) {
      SCOPED_TRACE(::testing::Message() << format << " frame " << bad);
      GuardedDeviceBuffer& frame = pipeline.frame(bad);
      const Bytes whole = frame.download();
      // The header's magic, or a reserved bit of a descriptor.
      const std::uint64_t tiles = pipeline.spec(bad).elementCount / kTileElements;
      const std::uint64_t at = tiles == 0 || random_.chance(0.5)
                                   ? random_.below(4)
                                   : codec::kHeaderBytes + 4 * random_.below(tiles) + 1;
      const std::byte changed = whole[at] ^ std::byte{0x80};
      frame.upload(std::span(&changed, 1), at);
      pipeline.decode();
      pipeline.expectOutputs(bad);
      frame.upload(whole);
      pipeline.clearStatuses();
      pipeline.decode();
      pipeline.expectOutputs();
      pipeline.clearStatuses();
    }
  }
}

TEST_F(Batch, ACapturedGraphIsReplayedWithNewData) {
  for (const Format& format : kGpuFormats) {
    for (const std::size_t frames : {5UL, 64UL}) {
      if (usesExactBuffers() && frames > 5) continue;
      SCOPED_TRACE(::testing::Message() << format << " " << frames << " frames");
      BatchPipeline pipeline(stream(), format, unevenCounts(frames, 30 * kTileElements), random_);
      const Graph graph(stream(), [&] {
        pipeline.encode();
        pipeline.decode();
      });
      for (int replay = 0; replay < 3 && !HasFailure(); ++replay) {
        pipeline.fill(random_);
        pipeline.poison();
        graph.launch(stream().get());
        pipeline.expectOutputs();
        pipeline.expectFrames();
      }
    }
  }
}

TEST_F(Batch, ASingleFrameCarriesApplicationWords) {
  const FrameSpec spec = specOf(kGpuFormats[0], 3000);
  const Bytes elements = elementsOf(
      spec.datatype, codec::testing::mixedWords(spec.datatype, random_, spec.elementCount));
  const GuardedDeviceBuffer source(stream(), elements);
  const GuardedDeviceBuffer frame(stream(), codec::maxFrameBytes(spec.datatype, 3000));
  const codec::ApplicationWords words = {random_(), random_(), random_(), random_()};
  encode(spec, source.data(), frame.data(), frame.bytes(), nullptr, workspace(), stream().get(), {},
         words);
  codec::FrameHeader header;
  ASSERT_EQ(codec::readHeader(frame.download(0, codec::kHeaderBytes), header), DecodeStatus::kOk);
  EXPECT_EQ(header.application, words);
}

}  // namespace
}  // namespace zipccl::gpu::testing
