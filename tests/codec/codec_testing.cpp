// SPDX-License-Identifier: Apache-2.0
//
// What the tests of the codec share.

#include "codec/codec_testing.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "codec/bytes.hpp"
#include "codec/layout.hpp"
#include "support/guarded_buffer.hpp"
#include "support/small_floats.hpp"

namespace zipccl::codec::testing {
namespace {

using zipccl::testing::ExactBuffer;
using zipccl::testing::GuardedBuffer;

std::uint32_t signBit(Random& random) { return random.chance(0.5) ? 0x80000000U : 0U; }

/// A word of this exponent field, with any sign and mantissa of the upper half.
std::uint32_t wordOf(const ElementFormat& element, std::uint32_t exponent, Random& random) {
  const std::uint32_t mantissaBits = 15 - element.exponentBits;
  const auto mantissa = static_cast<std::uint32_t>(random.below(1U << mantissaBits));
  return signBit(random) | (exponent << mantissaBits | mantissa) << 16;
}

std::uint32_t gaussianWord(Datatype datatype, Random& random, float sigma) {
  return wordOfNumber(datatype, static_cast<float>(random.normal()) * sigma);
}

std::uint32_t manyZerosWord(Datatype datatype, Random& random, float sigma) {
  switch (random.below(8)) {
    case 0:
    case 1:
      return 0;
    case 2:
      return 0x80000000U;
    case 3:
      return wordOf(elementFormat(datatype), 0, random);
    default:
      return gaussianWord(datatype, random, sigma);
  }
}

std::uint32_t specialWord(const ElementFormat& element, Random& random, std::uint32_t edge) {
  switch (random.below(8)) {
    case 0:  // NaN payloads, quiet and signalling, and infinities
      return wordOf(element, element.maxExponent(), random);
    case 1:
      return signBit(random) | element.maxExponent() << (31 - element.exponentBits);
    case 2:
      return signBit(random);
    case 3:
      return wordOf(element, 0, random);
    default:
      return wordOf(element,
                    static_cast<std::uint32_t>(
                        std::min<std::uint64_t>(element.maxExponent(), edge + random.below(10))),
                    random);
  }
}

/// A standard deviation for one kind of content: anything from where bf16 is at home, and in fp16
/// from subnormal numbers to large ones. Where zeros are many, fp16's others stay far above field
/// 0, which the window would reach otherwise.
float sigmaFor(Datatype datatype, Content content, Random& random) {
  if (datatype != Datatype::kFloat16) {
    return static_cast<float>(std::exp2(40.0 * random.uniform() - 30.0));
  }
  const double least = content == Content::kManyZeros ? -5.0 : -20.0;
  return static_cast<float>(std::exp2(least + (10.0 - least) * random.uniform()));
}

/// Of the whole frame, from its descriptors: what EncodeResult must say.
EncodeResult resultFromFrame(const FrameSpec& spec, std::span<const std::byte> frame) {
  FrameHeader header;
  EXPECT_EQ(readHeader(frame, header), DecodeStatus::kOk);
  EncodeResult result;
  result.staticBytes = header.staticBytes;
  result.dynamicBytes = header.dynamicBytes;
  result.extraBytes = header.extraBytes;
  result.tiles = spec.elementCount / kTileElements;
  for (std::uint64_t tile = 0; tile < result.tiles; ++tile) {
    const auto descriptor = loadWord<std::uint32_t>(frame.data() + kHeaderBytes + 4 * tile);
    EXPECT_TRUE(isValidDescriptor(descriptor, elementFormat(spec.datatype)));
    result.rawTiles += kindOf(descriptor) == TileKind::kRaw ? 1 : 0;
    result.emptyTiles += kindOf(descriptor) == TileKind::kEmpty ? 1 : 0;
    result.zeroCodeTiles += kindOf(descriptor) == TileKind::kSixAndZero ? 1 : 0;
    result.lowTiles += hasLow(descriptor) ? 1 : 0;
    result.escapes += escapesOf(descriptor);
  }
  return result;
}

bool equal(std::span<const std::byte> a, std::span<const std::byte> b) {
  return a.size() == b.size() && (a.empty() || std::memcmp(a.data(), b.data(), a.size()) == 0);
}

Encoded encodePoisoned(const TileCodec& codec, const FrameSpec& spec, const ExactBuffer& source,
                       const ApplicationWords& application, std::size_t misalignment,
                       std::uint8_t poison) {
  GuardedBuffer frame(maxFrameBytes(spec.datatype, spec.elementCount), misalignment, poison);
  Encoded encoded;
  encoded.result = encodeWith(codec, spec, source.bytes().data(), frame.bytes(), application);
  EXPECT_TRUE(frame.isIntact()) << "encode wrote outside the frame's buffer";
  const std::span<std::byte> used = frame.bytes().first(encoded.result.frameBytes());
  const std::span<std::byte> rest = frame.bytes().subspan(used.size());
  EXPECT_TRUE(std::all_of(rest.begin(), rest.end(), [=](std::byte byte) {
    return byte == static_cast<std::byte>(poison);
  })) << "encode wrote behind its frame";
  encoded.frame.assign(used.begin(), used.end());
  return encoded;
}

}  // namespace

std::ostream& operator<<(std::ostream& out, const Format& format) { return out << format.name; }

FrameSpec specOf(const Format& format, std::uint64_t elementCount) {
  FrameSpec spec;
  spec.datatype = format.datatype;
  spec.layout = format.layout;
  spec.elementCount = elementCount;
  spec.poolBytes = defaultPoolBytes(format.datatype, format.layout, elementCount);
  return spec;
}

Bytes elementsOf(Datatype datatype, std::span<const std::uint32_t> words) {
  const std::size_t bytes = datatype == Datatype::kFloat32 ? 4 : 2;
  Bytes elements(words.size() * bytes);
  for (std::size_t n = 0; n < words.size(); ++n) {
    if (datatype == Datatype::kFloat32) {
      storeWord(elements.data() + 4 * n, words[n]);
    } else {
      storeWord(elements.data() + 2 * n, static_cast<std::uint16_t>(words[n] >> 16));
    }
  }
  return elements;
}

std::uint32_t wordOfNumber(Datatype datatype, float value) {
  const std::uint32_t upper = datatype == Datatype::kFloat16 ? zipccl::testing::float16Bits(value)
                                                             : zipccl::testing::bfloat16Bits(value);
  return upper << 16;
}

std::uint32_t bfloat16Word(float value) { return wordOfNumber(Datatype::kBfloat16, value); }

void fillWords(Datatype datatype, Random& random, Content content, LowHalves low,
               std::span<std::uint32_t> words) {
  const ElementFormat element = elementFormat(datatype);
  const float sigma = sigmaFor(datatype, content, random);
  const auto edge = static_cast<std::uint32_t>(random.below(element.maxExponent() + 1));
  for (std::uint32_t& word : words) {
    switch (content) {
      case Content::kGaussian:
        word = gaussianWord(datatype, random, sigma);
        break;
      case Content::kManyZeros:
        word = manyZerosWord(datatype, random, sigma);
        break;
      case Content::kZero:
        word = 0;
        break;
      case Content::kRandomBits:
        word = static_cast<std::uint32_t>(random()) & 0xFFFF0000U;
        break;
      case Content::kSpecialValues:
        word = specialWord(element, random, edge);
        break;
    }
    const bool storesLow =
        low == LowHalves::kAny || (low == LowHalves::kRare && random.below(1024) == 0);
    if (storesLow) word |= static_cast<std::uint32_t>(random.below(65536));
  }
}

Words mixedWords(Datatype datatype, Random& random, std::uint64_t count) {
  Words words(count);
  std::span<std::uint32_t> rest(words);
  while (!rest.empty()) {
    const std::span<std::uint32_t> tile =
        rest.first(std::min<std::size_t>(kTileElements, rest.size()));
    fillWords(datatype, random, kContents[random.below(std::size(kContents))],
              kLowHalves[random.below(std::size(kLowHalves))], tile);
    rest = rest.subspan(tile.size());
  }
  return words;
}

Words wordsWithEscapes(Datatype datatype, Random& random, std::uint32_t escapes) {
  const ElementFormat element = elementFormat(datatype);
  Words words(kTileElements);
  if (escapes == kTileElements) {
    // Nothing to measure, so the window begins at 0, and every exponent field is the largest.
    for (std::uint32_t& word : words) word = wordOf(element, element.maxExponent(), random);
    return words;
  }
  // The rest are so near 1 that the window covers them, whatever share of a lane they are.
  const std::uint32_t ofOne = element.maxExponent() / 2;
  const std::uint32_t farFields = ofOne / 3;
  for (std::uint32_t n = 0; n < kTileElements; ++n) {
    const std::uint32_t field = n < escapes
                                    ? 1 + static_cast<std::uint32_t>(random.below(farFields))
                                    : ofOne - static_cast<std::uint32_t>(random.below(2));
    words[n] = wordOf(element, field, random);
  }
  for (std::uint32_t n = kTileElements; n > 1; --n) {
    std::swap(words[n - 1], words[random.below(n)]);
  }
  return words;
}

Encoded encodeChecked(const FrameSpec& spec, std::span<const std::byte> elements,
                      const ApplicationWords& application, Misalignment misalignment) {
  const ExactBuffer source(elements, misalignment.source);
  Encoded first;
  for (const TileCodec* codec : tileCodecs()) {
    SCOPED_TRACE(codec->name());
    for (const std::uint8_t poison : {std::uint8_t{0x00}, std::uint8_t{0xFF}}) {
      Encoded encoded =
          encodePoisoned(*codec, spec, source, application, misalignment.frame, poison);
      if (first.frame.empty()) {
        first = std::move(encoded);
      } else {
        EXPECT_TRUE(equal(first.frame, encoded.frame)) << "frames of equal input differ";
      }
    }
  }
  EXPECT_TRUE(equal(source.bytes(), elements)) << "encode changed its input";
  EXPECT_EQ(first.result.staticBytes, staticBytes(spec));
  EXPECT_LE(first.frame.size(), elements.size() + elements.size() / 100 + 512);
  expectEqual(first.result, resultFromFrame(spec, first.frame));
  return first;
}

void expectDecodes(const FrameSpec& spec, const Encoded& encoded,
                   std::span<const std::byte> elements, Misalignment misalignment) {
  const ExactBuffer frame(encoded.frame, misalignment.frame);
  const std::uint64_t split = encoded.result.staticBytes;
  const ExactBuffer staticPart(std::span(encoded.frame).first(split), misalignment.frame);
  const ExactBuffer dynamicPart(std::span(encoded.frame).subspan(split), misalignment.output);
  {
    GuardedBuffer output(elements.size(), misalignment.output);
    EXPECT_EQ(decodeFrame(frame.bytes(), output.bytes()), DecodeStatus::kOk);
    EXPECT_TRUE(equal(output.bytes(), elements)) << "the frame in one piece";
    EXPECT_TRUE(output.isIntact());
  }
  for (const TileCodec* codec : tileCodecs()) {
    SCOPED_TRACE(codec->name());
    GuardedBuffer output(elements.size(), misalignment.output);
    EXPECT_EQ(decodeWith(*codec, spec, staticPart.bytes(), dynamicPart.bytes(), output.bytes()),
              DecodeStatus::kOk);
    EXPECT_TRUE(equal(output.bytes(), elements)) << "the frame in two parts";
    EXPECT_TRUE(output.isIntact());
  }
}

EncodeResult roundTrip(const FrameSpec& spec, std::span<const std::byte> elements,
                       Misalignment misalignment) {
  const Encoded encoded = encodeChecked(spec, elements, {}, misalignment);
  expectDecodes(spec, encoded, elements, misalignment);
  return encoded.result;
}

void expectEqual(const EncodeResult& actual, const EncodeResult& expected) {
  EXPECT_EQ(actual.staticBytes, expected.staticBytes);
  EXPECT_EQ(actual.dynamicBytes, expected.dynamicBytes);
  EXPECT_EQ(actual.extraBytes, expected.extraBytes);
  EXPECT_EQ(actual.tiles, expected.tiles);
  EXPECT_EQ(actual.rawTiles, expected.rawTiles);
  EXPECT_EQ(actual.emptyTiles, expected.emptyTiles);
  EXPECT_EQ(actual.zeroCodeTiles, expected.zeroCodeTiles);
  EXPECT_EQ(actual.lowTiles, expected.lowTiles);
  EXPECT_EQ(actual.escapes, expected.escapes);
}

void mutateFrame(const FrameLayout& layout, Random& random, std::span<std::byte> frame) {
  const auto somePlace = [&]() -> std::size_t {
    if (random.chance(0.5)) return random.below(frame.size());
    switch (random.below(3)) {
      case 0:
        return random.below(kHeaderBytes);
      case 1:
        return layout.descriptorsAt + random.below(4 * layout.tileCount);
      default:
        return layout.groupsAt + random.below(8 * layout.groupCount);
    }
  };
  const std::size_t at = somePlace();
  const std::size_t left = frame.size() - at;
  switch (random.below(6)) {
    case 0:
      frame[at] ^= static_cast<std::byte>(1U << random.below(8));
      break;
    case 1:
      frame[at] = static_cast<std::byte>(random());
      break;
    case 2:
      frame[at] = random.chance(0.5) ? std::byte{0} : std::byte{0xFF};
      break;
    case 3: {  // a 16-bit number, a little more or less
      if (left < 2) return;
      const auto delta = static_cast<std::uint32_t>(random.below(5)) - 2;
      const std::uint32_t value = loadWord<std::uint16_t>(frame.data() + at) + delta;
      storeWord(frame.data() + at, static_cast<std::uint16_t>(value));
      break;
    }
    case 4:  // an offset or a size as it might be
      if (left < 8) return;
      storeWord(frame.data() + (at & ~std::size_t{7}), 16 * random.below(frame.size() / 8));
      break;
    default:  // one field over another
      if (left < 8) return;
      std::copy_n(frame.data() + random.below(frame.size() - 8), 8, frame.data() + at);
  }
}

}  // namespace zipccl::codec::testing
