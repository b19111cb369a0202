// SPDX-License-Identifier: Apache-2.0
//
// The order of things: what comes after a call on the stream sees its result, streams do not
// disturb each other, calls can be captured and replayed, and a workspace serves any number of
// calls.

#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "codec/layout.hpp"
#include "gpu/gpu_testing.hpp"

namespace zipccl::gpu::testing {
namespace {

using codec::kTileElements;
using codec::testing::elementsOf;
using codec::testing::specOf;

/// One tensor's way to a frame and back, without a wait in between.
class Pipeline {
 public:
  Pipeline(const Stream& stream, const FrameSpec& spec)
      : stream_(stream),
        spec_(spec),
        source_(stream, spec.elementCount * codec::elementBytes(spec.datatype)),
        frame_(stream, codec::maxFrameBytes(spec.datatype, spec.elementCount)),
        copy_(stream, frame_.bytes()),
        output_(stream, source_.bytes()),
        workspace_(stream, kEncodeWorkspaceBytes),
        frameBytes_(stream, 0),
        status_(stream, 0) {
    initEncodeWorkspace(workspace_.data(), stream.get());
  }

  void upload(std::span<const std::byte> elements) { source_.upload(elements); }

  void poison() {
    frame_.poison();
    copy_.poison();
    output_.poison();
    status_.set(0);
    frameBytes_.set(0);
  }

  /// Encodes, copies the frame, decodes the copy.
  void enqueue() {
    encode(spec_, source_.data(), frame_.data(), frame_.bytes(), frameBytes_.get(),
           workspace_.data(), stream_.get());
    check(cudaMemcpyAsync(copy_.data(), frame_.data(), frame_.bytes(), cudaMemcpyDeviceToDevice,
                          stream_.get()),
          "copying a frame");
    const std::uint64_t split = codec::staticBytes(spec_);
    decode(spec_, copy_.data(), copy_.data() + split, copy_.bytes() - split, output_.data(),
           status_.get(), stream_.get());
  }

  void expectDone(std::span<const std::byte> elements) const {
    EXPECT_EQ(status_.value(), 0U) << describeWord(status_.value());
    EXPECT_TRUE(equalBytes(output_.download(), elements));
    EXPECT_TRUE(frame_.isIntact() && copy_.isIntact() && output_.isIntact() &&
                workspace_.isIntact() && source_.isIntact());
    codec::FrameHeader header;
    EXPECT_EQ(codec::readHeader(frame_.download(0, codec::kHeaderBytes), header),
              codec::DecodeStatus::kOk);
    EXPECT_EQ(frameBytes_.value(), header.staticBytes + header.dynamicBytes);
  }

 private:
  const Stream& stream_;
  FrameSpec spec_;
  GuardedDeviceBuffer source_;
  GuardedDeviceBuffer frame_;
  GuardedDeviceBuffer copy_;
  GuardedDeviceBuffer output_;
  GuardedDeviceBuffer workspace_;
  DeviceWord<std::uint64_t> frameBytes_;
  DeviceWord<std::uint32_t> status_;
};

class Streams : public DeviceTest {
 protected:
  Bytes mixedElements(const Format& format, std::uint64_t count) {
    return elementsOf(format.datatype, codec::testing::mixedWords(format.datatype, random_, count));
  }
};

TEST_F(Streams, WorkThatFollowsSeesTheResult) {
  const std::uint64_t busyBytes = usesExactBuffers() ? 1U << 20 : 512U << 20;
  const DeviceBuffer busy(busyBytes);
  for (const Format& format : kGpuFormats) {
    for (const std::uint64_t count :
         {std::uint64_t{5 * kTileElements + 1}, std::uint64_t{2000003}}) {
      SCOPED_TRACE(::testing::Message() << format << " count " << count);
      const Bytes elements = mixedElements(format, count);
      Pipeline pipeline(stream(), specOf(format, count));
      pipeline.upload(elements);
      pipeline.poison();
      // The device is kept busy, so that the host is through before the first kernel begins.
      for (int i = 0; i < 8; ++i) {
        check(cudaMemsetAsync(busy.data(), i, busy.bytes(), stream().get()), "keeping busy");
      }
      pipeline.enqueue();
      pipeline.expectDone(elements);
    }
  }
}

TEST_F(Streams, TwoAtOnceDoNotDisturbEachOther) {
  const Stream other;
  const int rounds = usesExactBuffers() ? 2 : 30;
  for (const Format& format : kGpuFormats) {
    const std::uint64_t counts[] = {1'500'001, 900 * kTileElements + 5};
    const Bytes elements[] = {mixedElements(format, counts[0]), mixedElements(format, counts[1])};
    Pipeline first(stream(), specOf(format, counts[0]));
    Pipeline second(other, specOf(format, counts[1]));
    first.upload(elements[0]);
    second.upload(elements[1]);
    for (int round = 0; round < rounds && !HasFailure(); ++round) {
      first.poison();
      second.poison();
      for (int i = 0; i < 4; ++i) {
        first.enqueue();
        second.enqueue();
      }
      first.expectDone(elements[0]);
      second.expectDone(elements[1]);
    }
  }
}

TEST_F(Streams, ACapturedGraphIsReplayedWithNewData) {
  for (const Format& format : kGpuFormats) {
    for (const std::uint64_t count :
         {std::uint64_t{0}, std::uint64_t{1000}, std::uint64_t{30 * kTileElements + 9},
          std::uint64_t{6000001}}) {
      SCOPED_TRACE(::testing::Message() << format << " count " << count);
      Pipeline pipeline(stream(), specOf(format, count));
      const Graph graph(stream(), [&] { pipeline.enqueue(); });
      const int replays = count > 1'000'000 ? 3 : 12;
      for (int replay = 0; replay < replays && !HasFailure(); ++replay) {
        // With a large dynamic part, with none, and what lies between.
        Words words(count);
        if (replay % 3 == 0) {
          random_.fill(std::as_writable_bytes(std::span(words)));
        } else if (replay % 3 == 1) {
          words = gaussianWords(format.datatype, random_, 0.5 * replay, count);
        } else {
          words = codec::testing::mixedWords(format.datatype, random_, count);
        }
        const Bytes elements = elementsOf(format.datatype, words);
        pipeline.upload(elements);
        pipeline.poison();
        graph.launch(stream().get());
        pipeline.expectDone(elements);
      }
    }
  }
}

TEST_F(Streams, AGraphThatFailsToBeCapturedLeavesTheStreamUsable) {
  const Format& format = kGpuFormats[0];
  Pipeline pipeline(stream(), specOf(format, 2000));
  FrameSpec bad = specOf(format, 2000);
  bad.poolBytes += 1;
  const auto record = [&] {
    decode(bad, workspace(), nullptr, 0, workspace(), static_cast<std::uint32_t*>(workspace()),
           stream().get());
  };
  EXPECT_THROW(Graph(stream(), record), Error);
  const Bytes elements = mixedElements(format, 2000);
  pipeline.upload(elements);
  pipeline.poison();
  pipeline.enqueue();
  pipeline.expectDone(elements);
}

TEST_F(Streams, OneWorkspaceServesAThousandCalls) {
  const int calls = usesExactBuffers() ? 20 : 1000;
  constexpr std::uint64_t kMostCount = 40 * kTileElements;
  for (const Format& format : kGpuFormats) {
    const std::uint64_t elementBytes = codec::elementBytes(format.datatype);
    const Bytes elements = mixedElements(format, kMostCount + 5000);
    const GuardedDeviceBuffer source(stream(), elements);
    GuardedDeviceBuffer frame(stream(), codec::maxFrameBytes(format.datatype, kMostCount));
    GuardedDeviceBuffer output(stream(), kMostCount * elementBytes);
    DeviceWord<std::uint32_t> status(stream(), 0);
    for (int call = 0; call < calls && !HasFailure(); ++call) {
      const std::uint64_t count = random_.below(kMostCount + 1);
      const std::uint64_t offset = random_.below(5000) * elementBytes;
      FrameSpec spec = specOf(format, count);
      if (random_.chance(0.5)) spec.poolBytes = 0;
      SCOPED_TRACE(::testing::Message() << format << " call " << call << " count " << count);
      const LaunchOptions options{static_cast<unsigned>(random_.below(4))};
      frame.poison();
      output.poison();
      encode(spec, source.data() + offset, frame.data(), frame.bytes(), nullptr, workspace(),
             stream().get(), options);
      const std::uint64_t split = codec::staticBytes(spec);
      decode(spec, frame.data(), frame.data() + split, frame.bytes() - split, output.data(),
             status.get(), stream().get());
      Bytes decoded(count * elementBytes);
      output.download(0, decoded);
      EXPECT_TRUE(equalBytes(decoded, std::span(elements).subspan(offset, decoded.size())));
      EXPECT_EQ(status.value(), 0U);
      // Bytes that the call did not own are as they were.
      const Bytes rest = output.download(decoded.size(), output.bytes() - decoded.size());
      const auto isPoison = [](std::byte byte) { return byte == GuardedDeviceBuffer::kPoison; };
      EXPECT_TRUE(std::all_of(rest.begin(), rest.end(), isPoison));
      // And the host finds the frame whole.
      Bytes onHost(decoded.size());
      EXPECT_EQ(codec::decodeFrame(frame.download(), onHost), codec::DecodeStatus::kOk);
      EXPECT_TRUE(equalBytes(onHost, decoded));
    }
    EXPECT_TRUE(frame.isIntact());
    EXPECT_TRUE(output.isIntact());
    EXPECT_TRUE(source.isIntact());
  }
}

}  // namespace
}  // namespace zipccl::gpu::testing
