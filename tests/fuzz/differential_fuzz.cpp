// SPDX-License-Identifier: Apache-2.0
//
// The implementations of the codec against each other, on any bytes: as a frame they give one
// status and the same elements and sums; as elements, of every format, the same frame. AVX-512 is
// emulated where the machine has none; that being slow, for a part of the inputs.

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "codec/frame.hpp"
#include "fuzz/fuzz_support.hpp"
#include "support/guarded_buffer.hpp"

namespace {

namespace codec = zipccl::codec;
using zipccl::fuzz::require;
using zipccl::testing::ExactBuffer;

/// The reference, and those that are held against it.
struct Implementations {
  const codec::TileCodec* reference = &codec::scalarTileCodec();
  std::vector<const codec::TileCodec*> others;

  explicit Implementations(bool withEmulated) {
    for (const char* name : {"avx2", "avx512"}) {
      const codec::TileCodec* const found = zipccl::fuzz::codecNamed(name);
      const bool isEmulated = found != nullptr && found->name() != std::string_view(name);
      if (found != nullptr && (withEmulated || !isEmulated)) others.push_back(found);
    }
  }
};

struct Decoded {
  codec::DecodeStatus status;
  std::vector<std::byte> elements;
  codec::DecodeStatus sumStatus;
  std::vector<std::byte> sum;  ///< of the frame and itself, by a factor
};

Decoded decodeBy(const codec::TileCodec& with, const codec::FrameHeader& header,
                 std::span<const std::byte> frame) {
  const std::size_t outputBytes =
      header.spec.elementCount * codec::elementBytes(header.spec.datatype);
  Decoded decoded;
  decoded.elements.resize(outputBytes);
  decoded.status = codec::decodeFrameWith(with, frame, decoded.elements);
  decoded.sum.resize(outputBytes);
  decoded.sumStatus = codec::DecodeStatus::kTruncated;
  if (frame.size() < header.staticBytes) return decoded;
  const codec::Addend addend = {
      {frame.first(header.staticBytes), frame.subspan(header.staticBytes)}, header.spec, nullptr};
  const codec::Addend addends[] = {addend, addend};
  decoded.sumStatus = codec::decodeReduceWith(with, header.spec.datatype, header.spec.elementCount,
                                              addends, 0.75F, decoded.sum)
                          .status;
  return decoded;
}

void requireDecodedAlike(const Implementations& all, std::span<const std::byte> frame) {
  codec::FrameHeader header;
  if (codec::readHeader(frame, header) != codec::DecodeStatus::kOk) return;
  if (header.spec.elementCount > zipccl::fuzz::kMaxElementCount) return;
  const Decoded expected = decodeBy(*all.reference, header, frame);
  for (const codec::TileCodec* with : all.others) {
    const Decoded decoded = decodeBy(*with, header, frame);
    require(decoded.status == expected.status, "all decoders give one status");
    require(decoded.sumStatus == expected.sumStatus, "all sums give one status");
    if (expected.status != codec::DecodeStatus::kOk) continue;
    require(decoded.elements == expected.elements, "all decoders give the same bits");
    require(decoded.sum == expected.sum, "all sums have the same bits");
  }
}

void requireEncodedAlike(const Implementations& all, std::span<const std::byte> data) {
  for (const zipccl::fuzz::Format& format : zipccl::fuzz::kFormats) {
    const std::uint64_t elementBytes = codec::elementBytes(format.datatype);
    codec::FrameSpec spec{.datatype = format.datatype, .layout = format.layout};
    spec.elementCount = data.size() / elementBytes;
    const auto elements = data.first(spec.elementCount * elementBytes);
    const std::vector<std::byte> expected =
        zipccl::fuzz::encodeWith(*all.reference, spec, elements, 0x00);
    for (const codec::TileCodec* with : all.others) {
      require(zipccl::fuzz::encodeWith(*with, spec, elements, 0xFF) == expected,
              "all encoders give one frame");
    }
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const Implementations some(false);
  static const Implementations every(true);
  const Implementations& all = size % 8 == 0 ? every : some;
  const ExactBuffer exact(std::as_bytes(std::span(data, size)));
  requireDecodedAlike(all, exact.bytes());
  requireEncodedAlike(all, exact.bytes());
  return 0;
}
