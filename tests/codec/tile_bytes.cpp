// SPDX-License-Identifier: Apache-2.0
//
// One implementation of a tile against the scalar reference, piece by piece.

#include "codec/tile_bytes.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <iterator>

#include "codec/bytes.hpp"
#include "codec/codec_testing.hpp"
#include "codec/layout.hpp"
#include "codec/tile_bits.hpp"
#include "support/guarded_buffer.hpp"

namespace zipccl::codec::testing {
namespace {

using zipccl::testing::ExactBuffer;
using zipccl::testing::GuardedBuffer;

/// A tile's pieces as one implementation wrote them.
struct TileBytes {
  std::uint32_t descriptor = 0;
  Bytes record;
  Bytes block;
  Bytes escapes;

  friend bool operator==(const TileBytes&, const TileBytes&) = default;
};

TileBytes encodeGuarded(const TileCodec& codec, TileFormat format,
                        std::span<const std::byte> elements, std::uint8_t poison) {
  const ExactBuffer source(elements, 1);
  GuardedBuffer record(format.element().recordBytes(format.layout), 3, poison);
  GuardedBuffer block(kMaxBlockBytes, 5, poison);
  GuardedBuffer escapes(kMaxEscapes, 7, poison);
  TileBytes tile;
  tile.descriptor =
      codec.encode(format, source.bytes().data(),
                   {record.bytes().data(), block.bytes().data(), escapes.bytes().data()});
  EXPECT_TRUE(record.isIntact() && block.isIntact() && escapes.isIntact());
  const auto take = [poison](const GuardedBuffer& buffer, std::size_t used) {
    const auto rest = buffer.bytes().subspan(used);
    EXPECT_TRUE(std::all_of(rest.begin(), rest.end(), [=](std::byte byte) {
      return byte == static_cast<std::byte>(poison);
    })) << "bytes behind those of the tile were written";
    const auto taken = buffer.bytes().first(used);
    return Bytes(taken.begin(), taken.end());
  };
  tile.record = take(record, record.bytes().size());
  tile.block = take(block, blockBytesOf(tile.descriptor, format.element(), format.layout));
  tile.escapes = take(escapes, escapesOf(tile.descriptor));
  return tile;
}

/// From pieces that end where their allocations end.
bool decodeGuarded(const TileCodec& codec, TileFormat format, const TileBytes& tile,
                   std::size_t elementsBytes, Bytes& elements) {
  const ExactBuffer record(tile.record, 1);
  const ExactBuffer block(tile.block, 2);
  const ExactBuffer escapes(tile.escapes, 3);
  GuardedBuffer output(elementsBytes, 5);
  const bool accepted = codec.decode(
      format, tile.descriptor,
      {record.bytes().data(), block.bytes().data(), escapes.bytes().data()}, output.bytes().data());
  EXPECT_TRUE(output.isIntact());
  elements.assign(output.bytes().begin(), output.bytes().end());
  return accepted;
}

/// How many codes of a record are escapes.
std::uint32_t escapesIn(const Bytes& record) {
  std::uint32_t count = 0;
  for (std::uint32_t lane = 0; lane < kLanes; ++lane) {
    std::uint32_t codeWords[kCodeWords];
    for (std::uint32_t k = 0; k < kCodeWords; ++k) {
      codeWords[k] = loadWord<std::uint32_t>(record.data() + codeWordAt(lane, k));
    }
    count += static_cast<std::uint32_t>(std::popcount(escapeMask(codeWords)));
  }
  return count;
}

/// A tile of random bits, `wrong` escapes away from what its codes hold.
TileBytes anyBytes(Random& random, TileFormat format, std::uint32_t moreEscapes, TileKind kind) {
  TileBytes tile;
  tile.record.resize(format.element().recordBytes(format.layout));
  random.fill(tile.record);
  const bool isCoded = kind == TileKind::kSeven || kind == TileKind::kSixAndZero;
  const auto base =
      static_cast<std::uint32_t>(isCoded ? random.below(format.element().maxWindowBase() + 1) : 0);
  const bool hasLow = format.element().hasLowHalves && random.chance(0.5);
  const std::uint32_t escapes = isCoded ? escapesIn(tile.record) + moreEscapes : 0;
  tile.descriptor = makeDescriptor(kind, base, escapes, hasLow);
  tile.block.resize(blockBytesOf(tile.descriptor, format.element(), format.layout));
  random.fill(tile.block);
  tile.escapes.resize(escapesOf(tile.descriptor));
  random.fill(tile.escapes);
  return tile;
}

}  // namespace

void expectBytesOfTheReference(const TileCodec& codec, Random& random, int repeats) {
  for (int repeat = 0; repeat < repeats && !::testing::Test::HasFailure(); ++repeat) {
    for (const Format& format : kFormats) {
      Words words(kTileElements);
      fillWords(format.datatype, random, kContents[random.below(std::size(kContents))],
                kLowHalves[random.below(std::size(kLowHalves))], words);
      if (repeat % 5 == 0) {
        words = wordsWithEscapes(format.datatype, random,
                                 static_cast<std::uint32_t>(random.below(700)));
      }
      SCOPED_TRACE(::testing::Message() << codec.name() << " " << format);
      const TileFormat tileFormat = {format.datatype, format.layout};
      const Bytes elements = elementsOf(format.datatype, words);
      const TileBytes expected = encodeGuarded(scalarTileCodec(), tileFormat, elements, 0x00);
      EXPECT_EQ(encodeGuarded(codec, tileFormat, elements, 0xFF), expected);
      Bytes decoded;
      EXPECT_TRUE(decodeGuarded(codec, tileFormat, expected, elements.size(), decoded));
      EXPECT_EQ(decoded, elements);
    }
  }
}

void expectDecodesAnyBytesAlike(const TileCodec& codec, Random& random, int repeats) {
  for (int repeat = 0; repeat < repeats && !::testing::Test::HasFailure(); ++repeat) {
    const Format& format = kFormats[random.below(std::size(kFormats))];
    SCOPED_TRACE(::testing::Message() << codec.name() << " " << format);
    const TileFormat tileFormat = {format.datatype, format.layout};
    const auto kind = static_cast<TileKind>(random.below(4));
    const bool isCoded = kind == TileKind::kSeven || kind == TileKind::kSixAndZero;
    const auto moreEscapes = static_cast<std::uint32_t>(random.below(3)) - 1;
    const TileBytes tile = anyBytes(random, tileFormat, moreEscapes, kind);
    const std::size_t elementsBytes = kTileElements * elementBytes(format.datatype);
    Bytes expected;
    const bool isGood = decodeGuarded(scalarTileCodec(), tileFormat, tile, elementsBytes, expected);
    ASSERT_EQ(isGood, !isCoded || moreEscapes == 0);
    Bytes decoded;
    EXPECT_EQ(decodeGuarded(codec, tileFormat, tile, elementsBytes, decoded), isGood);
    if (isGood) {
      EXPECT_EQ(decoded, expected);
    }
  }
}

}  // namespace zipccl::codec::testing
