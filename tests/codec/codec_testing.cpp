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

namespace zipccl::codec::testing {
namespace {

using zipccl::testing::ExactBuffer;
using zipccl::testing::GuardedBuffer;

std::uint32_t signBit(Random& random) { return random.chance(0.5) ? 0x80000000U : 0U; }

std::uint32_t wordOf(std::uint32_t exponent, Random& random) {
  return signBit(random) | exponent << 23 | static_cast<std::uint32_t>(random.below(128)) << 16;
}

std::uint32_t gaussianWord(Random& random, float sigma) {
  return bfloat16Word(static_cast<float>(random.normal()) * sigma);
}

std::uint32_t manyZerosWord(Random& random, float sigma) {
  switch (random.below(8)) {
    case 0:
    case 1:
      return 0;
    case 2:
      return 0x80000000U;
    case 3:
      return wordOf(0, random);
    default:
      return gaussianWord(random, sigma);
  }
}

std::uint32_t specialWord(Random& random, std::uint32_t edge) {
  switch (random.below(8)) {
    case 0:
      return wordOf(255, random);  // NaN payloads, quiet and signalling, and infinities
    case 1:
      return signBit(random) | 0x7F800000U;
    case 2:
      return signBit(random);
    case 3:
      return wordOf(0, random);
    default:
      return wordOf(
          static_cast<std::uint32_t>(std::min<std::uint64_t>(255, edge + random.below(10))),
          random);
  }
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
    EXPECT_TRUE(isValidDescriptor(descriptor, spec.datatype == Datatype::kFloat32));
    result.rawTiles += kindOf(descriptor) == TileKind::kRaw ? 1 : 0;
    result.emptyTiles += kindOf(descriptor) == TileKind::kEmpty ? 1 : 0;
    result.zeroCodeTiles += kindOf(descriptor) == TileKind::kSixAndZero ? 1 : 0;
    result.lowTiles += hasLow(descriptor) ? 1 : 0;
    result.escapes += escapesOf(descriptor);
  }
  return result;
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

std::uint32_t bfloat16Word(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  return (bits + 0x7FFFU + ((bits >> 16) & 1U)) & 0xFFFF0000U;
}

void fillWords(Random& random, Content content, LowHalves low, std::span<std::uint32_t> words) {
  const auto sigma = static_cast<float>(std::exp2(40.0 * random.uniform() - 30.0));
  const auto edge = static_cast<std::uint32_t>(random.below(256));
  for (std::uint32_t& word : words) {
    switch (content) {
      case Content::kGaussian:
        word = gaussianWord(random, sigma);
        break;
      case Content::kManyZeros:
        word = manyZerosWord(random, sigma);
        break;
      case Content::kZero:
        word = 0;
        break;
      case Content::kRandomBits:
        word = static_cast<std::uint32_t>(random()) & 0xFFFF0000U;
        break;
      case Content::kSpecialValues:
        word = specialWord(random, edge);
        break;
    }
    const bool storesLow =
        low == LowHalves::kAny || (low == LowHalves::kRare && random.below(1024) == 0);
    if (storesLow) word |= static_cast<std::uint32_t>(random.below(65536));
  }
}

Words mixedWords(Random& random, std::uint64_t count) {
  Words words(count);
  std::span<std::uint32_t> rest(words);
  while (!rest.empty()) {
    const std::span<std::uint32_t> tile =
        rest.first(std::min<std::size_t>(kTileElements, rest.size()));
    fillWords(random, kContents[random.below(std::size(kContents))],
              kLowHalves[random.below(std::size(kLowHalves))], tile);
    rest = rest.subspan(tile.size());
  }
  return words;
}

Words wordsWithEscapes(Random& random, std::uint32_t escapes) {
  if (escapes == kTileElements) {
    // Nothing to measure, so the window begins at 0, and every exponent field is 255.
    Words words(kTileElements);
    for (std::uint32_t& word : words) word = wordOf(255, random);
    return words;
  }
  // The rest are so near 1 that the window covers them, whatever share of a lane they are.
  Words words(kTileElements);
  for (std::uint32_t n = 0; n < kTileElements; ++n) {
    words[n] = n < escapes ? wordOf(1 + static_cast<std::uint32_t>(random.below(60)), random)
                           : wordOf(126 + static_cast<std::uint32_t>(random.below(2)), random);
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

}  // namespace zipccl::codec::testing
