// SPDX-License-Identifier: Apache-2.0
//
// Buffers whose byte offsets need more than 31 and more than 32 bits. They skip where the device
// has too little memory; the larger one only runs where ZIPCCL_TEST_LARGE=1.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <string_view>
#include <vector>

#include "codec/layout.hpp"
#include "gpu/gpu_testing.hpp"

namespace zipccl::gpu::testing {
namespace {

using codec::kTileElements;
using codec::testing::elementsOf;
using codec::testing::specOf;

class Large : public DeviceTest {
 protected:
  static constexpr std::size_t kBlockBytes = 64U << 20;

  /// One block of elements; the buffer repeats it, each time rotated by some more elements, so that
  /// no two places of it hold the same for long.
  [[nodiscard]] Bytes makeBlock(const Format& format) {
    const std::uint64_t count = kBlockBytes / codec::elementBytes(format.datatype);
    const Words some = codec::testing::mixedWords(format.datatype, random_, 2053 * kTileElements);
    Words words(count);
    for (std::uint64_t n = 0; n < count; ++n) words[n] = some[n % some.size()];
    return elementsOf(format.datatype, words);
  }

  /// Calls `use(offset, bytes)` for each piece of the buffer in turn.
  template <typename Use>
  static void forEachPiece(const Bytes& block, std::uint64_t bytes, std::uint64_t elementBytes,
                           Use&& use) {
    std::uint64_t turn = 0;
    for (std::uint64_t offset = 0; offset < bytes;) {
      const std::uint64_t rotation = turn * 1025 * elementBytes % block.size();
      ++turn;
      for (const auto& piece :
           {std::span(block).subspan(rotation), std::span(block).first(rotation)}) {
        const std::uint64_t pieceBytes = std::min<std::uint64_t>(piece.size(), bytes - offset);
        if (pieceBytes != 0) use(offset, piece.first(pieceBytes));
        offset += pieceBytes;
      }
    }
  }

  void roundTripLarge(const Format& format, std::uint64_t bytes) {
    const std::uint64_t elementBytes = codec::elementBytes(format.datatype);
    const FrameSpec spec = specOf(format, bytes / elementBytes);
    const std::uint64_t frameCapacity = codec::maxFrameBytes(spec.datatype, spec.elementCount);
    std::size_t freeBytes = 0;
    std::size_t totalBytes = 0;
    check(cudaMemGetInfo(&freeBytes, &totalBytes), "asking for free memory");
    const std::uint64_t neededBytes = 2 * bytes + frameCapacity + (256U << 20);
    if (freeBytes < neededBytes) {
      GTEST_SKIP() << neededBytes << " bytes of device memory are needed, " << freeBytes
                   << " are free";
    }
    const Bytes block = makeBlock(format);
    GuardedDeviceBuffer source(stream(), bytes);
    forEachPiece(block, bytes, elementBytes,
                 [&](std::uint64_t offset, std::span<const std::byte> piece) {
                   source.upload(piece, offset);
                 });
    const GuardedDeviceBuffer frame(stream(), frameCapacity);
    const GuardedDeviceBuffer output(stream(), bytes);
    const DeviceWord<std::uint64_t> frameBytes(stream(), 0);
    const DeviceWord<std::uint32_t> status(stream(), 0);
    const std::uint64_t split = codec::staticBytes(spec);
    encode(spec, source.data(), frame.data(), frame.bytes(), frameBytes.get(), workspace(),
           stream().get());
    decode(spec, frame.data(), frame.data() + split, frame.bytes() - split, output.data(),
           status.get(), stream().get());
    EXPECT_EQ(status.value(), 0U) << describeWord(status.value());
    codec::FrameHeader header;
    ASSERT_EQ(codec::readHeader(frame.download(0, codec::kHeaderBytes), header),
              codec::DecodeStatus::kOk);
    EXPECT_EQ(header.spec, spec);
    EXPECT_EQ(frameBytes.value(), header.staticBytes + header.dynamicBytes);
    EXPECT_GT(header.dynamicBytes, 0U);
    EXPECT_TRUE(frame.isIntact() && output.isIntact() && source.isIntact());
    forEachPiece(block, bytes, elementBytes,
                 [&](std::uint64_t offset, std::span<const std::byte> piece) {
                   if (HasFailure()) return;
                   EXPECT_TRUE(equalBytes(output.download(offset, piece.size()), piece))
                       << "from " << offset << " on";
                 });
  }
};

TEST_F(Large, MoreThanTwoToThe31Bytes) {
  for (const Format& format : kGpuFormats) {
    SCOPED_TRACE(format.name);
    const std::uint64_t elementBytes = codec::elementBytes(format.datatype);
    roundTripLarge(format, (std::uint64_t{1} << 31) +
                               (5 * kTileElements + random_.below(5000)) * elementBytes);
  }
}

TEST_F(Large, FiveGibibytes) {
  const char* const wanted = std::getenv("ZIPCCL_TEST_LARGE");
  if (wanted == nullptr || std::string_view(wanted) != "1") {
    GTEST_SKIP() << "ZIPCCL_TEST_LARGE=1 runs it";
  }
  for (const Format& format : kGpuFormats) {
    SCOPED_TRACE(format.name);
    roundTripLarge(format, (std::uint64_t{5} << 30) + codec::elementBytes(format.datatype));
  }
}

}  // namespace
}  // namespace zipccl::gpu::testing
