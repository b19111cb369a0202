// SPDX-License-Identifier: Apache-2.0
//
// Which implementations of a tile this machine can run.

#include "codec/tile_codec.hpp"

#include <array>
#include <cstddef>

namespace zipccl::codec {
namespace {

/// The implementations of this machine, the fastest first.
class CodecList {
 public:
  CodecList() noexcept {
#if defined(__x86_64__)
    add(avx512TileCodec());
    add(avx2TileCodec());
#endif
    add(&scalarTileCodec());
  }
  [[nodiscard]] std::span<const TileCodec* const> codecs() const noexcept {
    return std::span(codecs_).first(count_);
  }

 private:
  void add(const TileCodec* codec) noexcept {
    if (codec != nullptr) codecs_[count_++] = codec;
  }

  std::array<const TileCodec*, 3> codecs_{};
  std::size_t count_ = 0;
};

}  // namespace

std::span<const TileCodec* const> tileCodecs() noexcept {
  static const CodecList list;
  return list.codecs();
}

const TileCodec& tileCodecFor(HostCodecChoice choice) noexcept {
  for (const TileCodec* codec : tileCodecs()) {
    if (codec->name() == hostCodecChoiceName(choice)) return *codec;
  }
  return *tileCodecs().front();
}

const TileCodec& defaultTileCodec() noexcept {
  static const TileCodec& codec = tileCodecFor(settings().hostCodec);
  return codec;
}

}  // namespace zipccl::codec
