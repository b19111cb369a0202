// SPDX-License-Identifier: Apache-2.0
//
// What the fuzz targets share.

#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "codec/tile_codec.hpp"
#include "zipccl/codec.hpp"

namespace zipccl::fuzz {

/// Above this a header may ask for more memory than a fuzzer has.
inline constexpr std::uint64_t kMaxElementCount = 1U << 16U;

/// Ends the program, for the fuzzer to see, unless `holds`.
void require(bool holds, const char* what);

/// Whether both are the same bytes.
[[nodiscard]] bool equal(std::span<const std::byte> a, std::span<const std::byte> b);

/// The implementation that is called so; AVX-512 is emulated where the machine has none. Null where
/// neither is there.
[[nodiscard]] const codec::TileCodec* codecNamed(std::string_view name);

/// All implementations but the emulated one.
[[nodiscard]] std::span<const codec::TileCodec* const> nativeCodecs();

/// The kinds of frames that there are.
struct Format {
  codec::Datatype datatype;
  codec::Layout layout;
};
inline constexpr Format kFormats[] = {{codec::Datatype::kBfloat16, codec::Layout::kNarrow},
                                      {codec::Datatype::kFloat16, codec::Layout::kNarrow},
                                      {codec::Datatype::kFloat32, codec::Layout::kNarrow},
                                      {codec::Datatype::kFloat32, codec::Layout::kWide}};

/// A frame of `elements`, of as many bytes as it takes, written over `poison`.
[[nodiscard]] std::vector<std::byte> encodeWith(const codec::TileCodec& codec,
                                                const codec::FrameSpec& spec,
                                                std::span<const std::byte> elements,
                                                std::uint8_t poison = 0xA5);

}  // namespace zipccl::fuzz
