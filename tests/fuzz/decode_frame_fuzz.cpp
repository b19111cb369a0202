// SPDX-License-Identifier: Apache-2.0
//
// Any bytes as a frame: the decoder must answer with a status and stay inside its buffers, which
// the address sanitizer watches. What it accepts must survive another round through the codec.

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <span>
#include <vector>
#include <zipccl/codec.hpp>

#include "support/guarded_buffer.hpp"

namespace {

namespace codec = zipccl::codec;
using zipccl::testing::ExactBuffer;

/// Above this a header may ask for more memory than a fuzzer has.
constexpr std::uint64_t kMaxElementCount = 1U << 16U;

void require(bool holds, const char* what) {
  if (!holds) {
    std::fprintf(stderr, "broken: %s\n", what);
    std::abort();
  }
}

void requireRoundTrip(const codec::FrameSpec& spec, std::span<const std::byte> values) {
  std::vector<std::byte> frame(codec::maxFrameBytes(spec.datatype, spec.elementCount));
  const codec::EncodeResult result = codec::encode(spec, values.data(), frame);
  frame.resize(result.frameBytes());
  std::vector<std::byte> again(values.size(), std::byte{0xA5});
  require(codec::decodeFrame(frame, again) == codec::DecodeStatus::kOk, "own frame is accepted");
  require(values.empty() || std::memcmp(again.data(), values.data(), values.size()) == 0,
          "own frame gives the same bits");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const ExactBuffer frame(std::as_bytes(std::span(data, size)));

  codec::FrameHeader header;
  const codec::DecodeStatus headerStatus = codec::readHeader(frame.bytes(), header);
  const std::uint64_t elementCount =
      headerStatus == codec::DecodeStatus::kOk ? header.spec.elementCount : 0;
  if (elementCount > kMaxElementCount) {
    return 0;
  }

  std::vector<std::byte> output(
      static_cast<std::size_t>(elementCount * codec::elementBytes(header.spec.datatype)),
      std::byte{0xA5});
  const codec::DecodeStatus status = codec::decodeFrame(frame.bytes(), output);
  require(headerStatus == codec::DecodeStatus::kOk || status == headerStatus,
          "a bad header is reported as what it is");
  require(codec::describe(status) != nullptr, "a status has words");
  if (status == codec::DecodeStatus::kOk) {
    requireRoundTrip(header.spec, output);
  }

  // The same bytes with the parts in different buffers, as a collective receives them.
  if (headerStatus == codec::DecodeStatus::kOk && header.staticBytes <= size) {
    const auto staticBytes = static_cast<std::size_t>(header.staticBytes);
    const ExactBuffer staticPart(frame.bytes().first(staticBytes));
    const ExactBuffer dynamicPart(frame.bytes().subspan(staticBytes));
    std::vector<std::byte> other(output.size(), std::byte{0x5A});
    const codec::DecodeStatus split =
        codec::decode(header.spec, staticPart.bytes(), dynamicPart.bytes(), other);
    require(split == status, "one buffer and two give the same status");
    require(status != codec::DecodeStatus::kOk || other == output,
            "one buffer and two give the same bits");
  }
  return 0;
}
