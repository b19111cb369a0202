// SPDX-License-Identifier: Apache-2.0
//
// Any elements, of any number and alignment, with any pool: they come back, by every implementation
// and by several threads, and the frame stays within its bound.
//
// The first four bytes choose format and checksum, pool, repetitions and alignment; the elements
// are the others, repeated, so that few bytes make many tiles.

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

constexpr std::size_t kControlBytes = 4;

struct Case {
  codec::FrameSpec spec;
  std::vector<std::byte> elements;
  std::size_t misalignment;
};

Case caseOf(std::span<const std::uint8_t> data) {
  const zipccl::fuzz::Format& format = zipccl::fuzz::kFormats[data[0] % 4];
  const auto content = std::as_bytes(data.subspan(kControlBytes));
  Case made;
  made.misalignment = data[3] % 16;
  const std::uint64_t elementBytes = codec::elementBytes(format.datatype);
  for (unsigned n = 0; n <= data[2]; ++n) {
    if (made.elements.size() > zipccl::fuzz::kMaxElementCount) break;
    made.elements.insert(made.elements.end(), content.begin(), content.end());
  }
  made.elements.resize(made.elements.size() / elementBytes * elementBytes);
  made.spec.datatype = format.datatype;
  made.spec.layout = format.layout;
  made.spec.checksum = data[0] >= 128;
  made.spec.elementCount = made.elements.size() / elementBytes;
  const std::uint64_t most =
      codec::maxPoolBytes(format.datatype, format.layout, made.spec.elementCount);
  made.spec.poolBytes = most / 128 * data[1] / 255 * 128;
  return made;
}

void requireDecoded(const codec::TileCodec& with, const Case& made,
                    std::span<const std::byte> frame) {
  const ExactBuffer exact(frame, made.misalignment);
  // Ends where its allocation ends; begins anywhere.
  std::vector<std::byte> room(made.elements.size() + made.misalignment, std::byte{0x77});
  const std::span<std::byte> output = std::span(room).subspan(made.misalignment);
  require(codec::decodeFrameWith(with, exact.bytes(), output) == codec::DecodeStatus::kOk,
          "own frame is accepted");
  require(zipccl::fuzz::equal(output, made.elements), "own frame gives the same bits");
}

void requireRoundTrip(const Case& made) {
  static codec::CodecThreads threads(2);
  const ExactBuffer source(made.elements, made.misalignment);
  std::vector<std::byte> first;
  for (const codec::TileCodec* with : zipccl::fuzz::nativeCodecs()) {
    const std::vector<std::byte> frame = zipccl::fuzz::encodeWith(*with, made.spec, source.bytes());
    require(frame.size() <= made.elements.size() + made.elements.size() / 100 + 512,
            "the bound holds");
    require(first.empty() || first == frame, "all encoders give one frame");
    first = frame;
    requireDecoded(*with, made, frame);
  }
  std::vector<std::byte> shared(codec::maxFrameBytes(made.spec.datatype, made.spec.elementCount));
  shared.resize(codec::encode(made.spec, source.bytes().data(), shared, {}, &threads).frameBytes());
  require(shared == first, "several threads give the frame of one");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size >= kControlBytes) requireRoundTrip(caseOf({data, size}));
  return 0;
}
