// SPDX-License-Identifier: Apache-2.0
//
// The calls of the host codec, as it is.

#include "perf_codec/codec_calls.hpp"

namespace zipccl::tools::perf_codec {

void encodeOnHost(const codec::FrameSpec& spec, std::span<const std::byte> source,
                  std::span<std::byte> frame) {
  codec::encode(spec, source.data(), frame);
}

codec::DecodeStatus decodeOnHost(const codec::FrameSpec& spec,
                                 std::span<const std::byte> staticPart,
                                 std::span<const std::byte> dynamicPart,
                                 std::span<std::byte> output) noexcept {
  return codec::decode(spec, staticPart, dynamicPart, output);
}

}  // namespace zipccl::tools::perf_codec
