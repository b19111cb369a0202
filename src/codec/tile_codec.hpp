// SPDX-License-Identifier: Apache-2.0
//
// One tile, encoded or decoded: the interface behind which the implementations of the host codec
// stand, and the choice between them at run time. The frame level (frame.hpp) knows nothing else of
// a tile.

#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/settings.hpp"
#include "codec/layout.hpp"
#include "codec/scaled_sum.hpp"

namespace zipccl::codec {

/// What all tiles of a frame share.
struct TileFormat {
  Datatype datatype;
  Layout layout;

  [[nodiscard]] constexpr ElementFormat element() const noexcept { return elementFormat(datatype); }
  /// Whether stored low halves go to extra space rather than to the record.
  [[nodiscard]] constexpr bool isNarrow() const noexcept { return layout == Layout::kNarrow; }
};

namespace detail {

constexpr std::uint32_t mostEscapes() noexcept {
  std::uint32_t most = 0;
  for (const Datatype datatype : kDatatypes) {
    most = std::max(most, elementFormat(datatype).maxEscapes());
  }
  return most;
}

}  // namespace detail

/// The most escapes, and bytes of raw rest, that a tile of any datatype has.
inline constexpr std::uint32_t kMaxEscapes = detail::mostEscapes();
/// The most that a tile's block, its raw rest and narrow low plane, takes of extra space.
inline constexpr std::uint32_t kMaxBlockBytes = kMaxEscapes + kLowPlaneBytes;

/// Where the three pieces of a tile are written. No alignment is given.
struct TileSink {
  std::byte* record;   ///< the record's bytes, all of which are written
  std::byte* block;    ///< room for kMaxBlockBytes; blockBytesOf(descriptor) of them are written
  std::byte* escapes;  ///< room for kMaxEscapes; escapesOf(descriptor) of them are written
};

/// Where the three pieces of a tile are read: as many bytes as the descriptor tells, and not one
/// more.
struct TileSource {
  const std::byte* record;
  const std::byte* block;
  const std::byte* escapes;
};

/// An implementation. All implementations choose kind and window base by the same rule
/// (tile_window.hpp) and write zero in ignored bytes, so they give the same bytes.
class TileCodec {
 public:
  /// A word for logs and reports, such as "scalar".
  [[nodiscard]] virtual const char* name() const noexcept = 0;

  /// Encodes the kTileElements elements at `elements` (any alignment) and returns the descriptor.
  [[nodiscard]] virtual std::uint32_t encode(TileFormat format, const std::byte* elements,
                                             const TileSink& sink) const noexcept = 0;

  /// Decodes into kTileElements elements at `elements` (any alignment). `descriptor` must pass
  /// isValidDescriptor; the bytes of `source` may be any. False when the codes hold another number
  /// of escapes than the descriptor says; the elements are then undefined.
  [[nodiscard]] virtual bool decode(TileFormat format, std::uint32_t descriptor,
                                    const TileSource& source,
                                    std::byte* elements) const noexcept = 0;

  /// The arithmetic of scaled_sum.hpp; all implementations give the same bits. By the scalar
  /// reference where an implementation has nothing faster.
  virtual void addScaled(const ScaledAddend& addend, const std::byte* elements,
                         std::span<float> sums) const noexcept {
    scalar::addScaled(addend, elements, sums);
  }
  virtual void roundSums(Datatype datatype, std::span<const float> sums,
                         std::byte* elements) const noexcept {
    scalar::roundSums(datatype, sums, elements);
  }

 protected:
  ~TileCodec() = default;
};

/// The scalar reference (scalar_tile.cpp).
[[nodiscard]] const TileCodec& scalarTileCodec() noexcept;

/// By AVX2 (x86/avx2_tile.cpp); null where the machine has none.
[[nodiscard]] const TileCodec* avx2TileCodec() noexcept;

/// By AVX-512 with VBMI2 (x86/avx512_tile.cpp); null where the machine has none.
[[nodiscard]] const TileCodec* avx512TileCodec() noexcept;

/// Those that this machine can run, the fastest first.
[[nodiscard]] std::span<const TileCodec* const> tileCodecs() noexcept;

/// What `choice` names, or the fastest where the machine lacks it.
[[nodiscard]] const TileCodec& tileCodecFor(HostCodecChoice choice) noexcept;

/// What ZIPCCL_HOST_CODEC chose at the first call.
[[nodiscard]] const TileCodec& defaultTileCodec() noexcept;

}  // namespace zipccl::codec
