// SPDX-License-Identifier: Apache-2.0
//
// The calls that `zipccl perf codec` measures and checks, with faults that a sound codec never
// makes. ZIPCCL_TEST_FAULT=KIND:BYTES plants one in calls on inputs of at least so many bytes.
//
//   flip      flips one bit of the last element that was decoded
//   lose      leaves the last element as it was before
//   source    changes an element of what is encoded, before it is read
//   status    lets the decoder reject a good frame
//   header    spoils the frame's header

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include "perf_codec/codec_calls.hpp"

namespace zipccl::tools::perf_codec {
namespace {

bool isFaulty(const char* kind, std::uint64_t bytes) {
  char planted[16] = {};
  unsigned long long leastBytes = 0;
  const char* const text = std::getenv("ZIPCCL_TEST_FAULT");
  return text != nullptr && std::sscanf(text, "%15[a-z]:%llu", planted, &leastBytes) == 2 &&
         std::string(planted) == kind && bytes >= leastBytes;
}

}  // namespace

void encodeOnHost(const codec::FrameSpec& spec, std::span<const std::byte> source,
                  std::span<std::byte> frame) {
  if (isFaulty("source", source.size())) {
    const_cast<std::byte*>(source.data())[source.size() / 2] ^= std::byte{0x01};
  }
  codec::encode(spec, source.data(), frame);
  if (isFaulty("header", source.size())) frame[1] ^= std::byte{0x80};
}

codec::DecodeStatus decodeOnHost(const codec::FrameSpec& spec,
                                 std::span<const std::byte> staticPart,
                                 std::span<const std::byte> dynamicPart,
                                 std::span<std::byte> output) noexcept {
  std::byte* const last = &output.back() - 1;
  std::byte before[2];
  std::memcpy(before, last, sizeof(before));
  const codec::DecodeStatus status = codec::decode(spec, staticPart, dynamicPart, output);
  if (isFaulty("flip", output.size())) last[1] ^= std::byte{0x10};
  if (isFaulty("lose", output.size())) std::memcpy(last, before, sizeof(before));
  return isFaulty("status", output.size()) ? codec::DecodeStatus::kBadEscapeCount : status;
}

}  // namespace zipccl::tools::perf_codec
