// SPDX-License-Identifier: Apache-2.0
//
// Any bytes as a frame before one implementation, ZIPCCL_FUZZ_CODEC: it must answer with a status
// and stay inside its buffers, which the address sanitizer watches. What it accepts does not depend
// on what stood in the output, and is added up as it is decoded.

#include <algorithm>
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

/// Sums of one frame are its elements but for the NaNs; those of two of it say the same of both.
void requireSums(const codec::TileCodec& with, const codec::FrameHeader& header,
                 std::span<const std::byte> frame, codec::DecodeStatus status,
                 std::size_t outputBytes) {
  const auto split = static_cast<std::size_t>(header.staticBytes);
  const ExactBuffer staticPart(frame.first(split));
  const ExactBuffer dynamicPart(frame.subspan(split));
  const codec::Addend addend = {{staticPart.bytes(), dynamicPart.bytes()}, header.spec, nullptr};
  const codec::Addend addends[] = {addend, addend};
  std::vector<std::byte> sum(outputBytes, std::byte{0x11});
  const codec::ReduceResult result = codec::decodeReduceWith(
      with, header.spec.datatype, header.spec.elementCount, addends, 1.0F, sum);
  require(result.status == status, "a sum and its addend have one status");
  require(result.addend == 0, "the first bad addend is named");
}

void decodeOne(const codec::TileCodec& with, std::span<const std::byte> data) {
  const ExactBuffer frame(data);
  codec::FrameHeader header;
  const codec::DecodeStatus headerStatus = codec::readHeader(frame.bytes(), header);
  const bool isHeader = headerStatus == codec::DecodeStatus::kOk;
  if (isHeader && header.spec.elementCount > zipccl::fuzz::kMaxElementCount) return;
  const auto outputBytes = static_cast<std::size_t>(
      isHeader ? header.spec.elementCount * codec::elementBytes(header.spec.datatype) : 0);

  // Where they end the allocation ends.
  std::vector<std::byte> output(outputBytes, std::byte{0xA5});
  std::vector<std::byte> again(outputBytes, std::byte{0x5A});
  const codec::DecodeStatus status = codec::decodeFrameWith(with, frame.bytes(), output);
  require(isHeader || status == headerStatus, "a bad header is reported as what it is");
  require(codec::decodeFrameWith(with, frame.bytes(), again) == status, "a status is repeated");
  require(status != codec::DecodeStatus::kOk || output == again, "all elements are written");
  if (outputBytes != 0) {
    const codec::DecodeStatus small =
        codec::decodeFrameWith(with, frame.bytes(), std::span(output).first(outputBytes - 1));
    require(small != codec::DecodeStatus::kOk, "an output that is too small is found");
  }
  if (isHeader && header.staticBytes <= data.size()) {
    requireSums(with, header, data, status, outputBytes);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const codec::TileCodec* const with = zipccl::fuzz::codecNamed(ZIPCCL_FUZZ_CODEC);
  if (with != nullptr) decodeOne(*with, std::as_bytes(std::span(data, size)));
  return 0;
}
