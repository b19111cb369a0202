// SPDX-License-Identifier: Apache-2.0
//
// What the tests of the codec share: formats, inputs of every kind, and one round trip that checks
// all that must hold of any input.

#pragma once

#include <cstddef>
#include <cstdint>
#include <ostream>
#include <span>
#include <vector>

#include "base/random.hpp"
#include "codec/frame.hpp"
#include "codec/layout.hpp"
#include "zipccl/codec.hpp"

namespace zipccl::codec::testing {

using Bytes = std::vector<std::byte>;

/// Elements as 32-bit words, upper half on top; a 16-bit element is the upper half alone.
using Words = std::vector<std::uint32_t>;

struct Format {
  Datatype datatype;
  Layout layout;
  const char* name;
};
inline constexpr Format kBfloat16Format = {Datatype::kBfloat16, Layout::kNarrow, "bf16"};
inline constexpr Format kFloat16Format = {Datatype::kFloat16, Layout::kNarrow, "fp16"};
inline constexpr Format kFloat32Narrow = {Datatype::kFloat32, Layout::kNarrow, "fp32narrow"};
inline constexpr Format kFloat32Wide = {Datatype::kFloat32, Layout::kWide, "fp32wide"};
inline constexpr Format kFormats[] = {kBfloat16Format, kFloat16Format, kFloat32Narrow,
                                      kFloat32Wide};
std::ostream& operator<<(std::ostream& out, const Format& format);

/// A spec of this format with the default pool.
[[nodiscard]] FrameSpec specOf(const Format& format, std::uint64_t elementCount);

[[nodiscard]] Bytes elementsOf(Datatype datatype, std::span<const std::uint32_t> words);

/// What the upper halves of a tile look like.
enum class Content {
  kGaussian,      ///< of a random scale
  kManyZeros,     ///< Gaussian with zeros, of both signs, and subnormals
  kZero,          ///< +0 only
  kRandomBits,    ///< no exponent is likelier than another
  kSpecialValues  ///< NaN payloads, infinities, zeros, subnormals, exponents at a window's edges
};
inline constexpr Content kContents[] = {Content::kGaussian, Content::kManyZeros, Content::kZero,
                                        Content::kRandomBits, Content::kSpecialValues};

/// What the low halves look like.
enum class LowHalves { kZero, kAny, kRare };
inline constexpr LowHalves kLowHalves[] = {LowHalves::kZero, LowHalves::kAny, LowHalves::kRare};

/// Fills `words` with one kind of content of this datatype.
void fillWords(Datatype datatype, Random& random, Content content, LowHalves low,
               std::span<std::uint32_t> words);

/// `count` words, every 1024 of another random kind.
[[nodiscard]] Words mixedWords(Datatype datatype, Random& random, std::uint64_t count);

/// The number as an upper half on top of a zero low half, rounded to nearest, ties to even: as fp16
/// for fp16, else as bf16.
[[nodiscard]] std::uint32_t wordOfNumber(Datatype datatype, float value);
[[nodiscard]] std::uint32_t bfloat16Word(float value);

/// 1024 words of which exactly `escapes` are escapes where a coded tile is made of them.
[[nodiscard]] Words wordsWithEscapes(Datatype datatype, Random& random, std::uint32_t escapes);

struct Misalignment {
  std::size_t source = 0;
  std::size_t frame = 0;
  std::size_t output = 0;
};

struct Encoded {
  EncodeResult result;
  Bytes frame;
};

/// Every field.
void expectEqual(const EncodeResult& actual, const EncodeResult& expected);

/// Encodes by every implementation and checks that all frames are equal, lie inside their buffers
/// and the bound, were written throughout, and that the result tells of them truly.
[[nodiscard]] Encoded encodeChecked(const FrameSpec& spec, std::span<const std::byte> elements,
                                    const ApplicationWords& application = {},
                                    Misalignment misalignment = {});

/// Decodes `encoded` by every implementation, in one piece and as two parts, and checks that
/// `elements` come back and nothing outside the output was written.
void expectDecodes(const FrameSpec& spec, const Encoded& encoded,
                   std::span<const std::byte> elements, Misalignment misalignment = {});

/// Both of them. Returns what the encoder made of the input.
EncodeResult roundTrip(const FrameSpec& spec, std::span<const std::byte> elements,
                       Misalignment misalignment = {});

/// Changes a few bytes of `frame`, which is as long as one of `layout` with a dynamic part or
/// without: half the time in the header, a descriptor or a group offset, else anywhere.
void mutateFrame(const FrameLayout& layout, Random& random, std::span<std::byte> frame);

}  // namespace zipccl::codec::testing
