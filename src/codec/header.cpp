// SPDX-License-Identifier: Apache-2.0
//
// The header of a frame (docs/format.md section 3): reading and writing it.

#include "codec/header.hpp"

#include <algorithm>

#include "codec/bytes.hpp"
#include "codec/header_check.hpp"

namespace zipccl::codec {
namespace {

FrameHeader headerOf(const HeaderBytes& h) noexcept {
  FrameHeader header;
  header.spec.datatype = static_cast<Datatype>(h.datatype);
  header.spec.layout = static_cast<Layout>(h.layout);
  header.spec.elementCount = h.elementCount;
  header.spec.poolBytes = h.poolBytes;
  header.spec.checksum = (h.flags & kFlagChecksum) != 0;
  header.extraBytes = h.extraBytes;
  header.dynamicBytes = dynamicBytesOf(h.poolBytes, h.extraBytes);
  header.staticBytes =
      frameLayout(header.spec.datatype, header.spec.layout, h.elementCount, h.poolBytes)
          .staticBytes;
  header.checksum = h.checksum;
  std::copy(std::begin(h.application), std::end(h.application), header.application.begin());
  return header;
}

}  // namespace

void writeHeader(const FrameSpec& spec, std::uint64_t extraBytes, std::uint64_t checksum,
                 const ApplicationWords& application, std::byte* at) noexcept {
  HeaderBytes h = makeHeader(spec);
  h.extraBytes = extraBytes;
  h.checksum = checksum;
  std::copy(application.begin(), application.end(), std::begin(h.application));
  storeWord(at, h);
}

DecodeStatus readHeader(std::span<const std::byte> frame, FrameHeader& header) noexcept {
  if (frame.size() < kHeaderBytes) return DecodeStatus::kTruncated;
  const auto h = loadWord<HeaderBytes>(frame.data());
  if (const DecodeStatus status = checkHeader(h); status != DecodeStatus::kOk) return status;
  header = headerOf(h);
  return DecodeStatus::kOk;
}

}  // namespace zipccl::codec
