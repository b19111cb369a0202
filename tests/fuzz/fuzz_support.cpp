// SPDX-License-Identifier: Apache-2.0
//
// What the fuzz targets share.

#include "fuzz/fuzz_support.hpp"

#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "codec/frame.hpp"
#if defined(ZIPCCL_HAS_EMULATED_AVX512)
#include "codec/emulated_codec.hpp"
#endif

namespace zipccl::fuzz {

void require(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "broken: %s\n", what);
  std::abort();
}

bool equal(std::span<const std::byte> a, std::span<const std::byte> b) {
  return a.size() == b.size() && (a.empty() || std::memcmp(a.data(), b.data(), a.size()) == 0);
}

const codec::TileCodec* codecNamed(std::string_view name) {
  for (const codec::TileCodec* codec : codec::tileCodecs()) {
    if (codec->name() == name) return codec;
  }
#if defined(ZIPCCL_HAS_EMULATED_AVX512)
  if (name == "avx512") return &codec::testing::emulatedAvx512TileCodec();
#endif
  return nullptr;
}

std::span<const codec::TileCodec* const> nativeCodecs() { return codec::tileCodecs(); }

std::vector<std::byte> encodeWith(const codec::TileCodec& codec, const codec::FrameSpec& spec,
                                  std::span<const std::byte> elements, std::uint8_t poison) {
  std::vector<std::byte> frame(codec::maxFrameBytes(spec.datatype, spec.elementCount),
                               static_cast<std::byte>(poison));
  const codec::EncodeResult result = codec::encodeWith(codec, spec, elements.data(), frame, {});
  frame.resize(result.frameBytes());
  return frame;
}

}  // namespace zipccl::fuzz
