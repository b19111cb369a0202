// SPDX-License-Identifier: Apache-2.0
//
// Faults that compute-sanitizer must see, so that its silence about the other tests means
// something. scripts/gpu_check.sh runs each by itself, with exact buffers, and wants it reported;
// nobody else runs them.

#include <gtest/gtest.h>

#include "codec/layout.hpp"
#include "gpu/gpu_testing.hpp"

namespace zipccl::gpu::testing {
namespace {

using codec::kTileElements;
using codec::testing::elementsOf;
using codec::testing::specOf;

class Planted : public DeviceTest {
 protected:
  void SetUp() override {
    DeviceTest::SetUp();
    if (IsSkipped()) return;
    if (!usesExactBuffers()) GTEST_SKIP() << "for ZIPCCL_TEST_GPU_BUFFERS=exact";
  }

  /// Decodes a frame of tiles with many escapes, of which the dynamic part's buffer holds all but
  /// `missing` bytes and something wrote all but `unwritten`.
  void decodeWith(std::uint64_t missing, std::uint64_t unwritten) {
    const Format& format = kGpuFormats[0];
    const Words words = tileWithEscapes(random_, format.datatype, 640);
    FrameSpec spec = specOf(format, words.size());
    spec.poolBytes = 0;
    const Bytes frame = encodeOnHost(spec, elementsOf(format.datatype, words));
    const std::span<const std::byte> bytes(frame);
    const std::uint64_t split = codec::staticBytes(spec);
    const GuardedDeviceBuffer staticPart(stream(), bytes.first(split));
    GuardedDeviceBuffer dynamicPart(stream(), frame.size() - split - missing);
    dynamicPart.upload(bytes.subspan(split, dynamicPart.bytes() - unwritten));
    const GuardedDeviceBuffer output(stream(), words.size() * 2);
    const DeviceWord<std::uint32_t> status(stream(), 0);
    decode(spec, staticPart.data(), dynamicPart.data(), frame.size() - split, output.data(),
           status.get(), stream().get());
    static_cast<void>(cudaStreamSynchronize(stream().get()));
  }
};

TEST_F(Planted, DISABLED_ReadBehindABuffer) { decodeWith(64, 0); }

TEST_F(Planted, DISABLED_ReadOfWhatNothingWrote) { decodeWith(0, 64); }

}  // namespace
}  // namespace zipccl::gpu::testing
