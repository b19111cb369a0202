// SPDX-License-Identifier: Apache-2.0
//
// Every implementation of a tile, one by one: that the machine runs those that it can, that each
// can be forced, and that each gives the reference's bytes without touching any outside its pieces.
// Whole frames go through every implementation in all tests that use codec_testing.hpp.

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <fstream>
#include <iterator>
#include <set>
#include <sstream>
#include <string>

#include "codec/bytes.hpp"
#include "codec/codec_testing.hpp"
#include "codec/layout.hpp"
#include "codec/tile_bits.hpp"
#include "support/guarded_buffer.hpp"
#include "support/seeded_test.hpp"

namespace zipccl::codec::testing {
namespace {

using zipccl::testing::ExactBuffer;
using zipccl::testing::GuardedBuffer;

/// The flags of the first processor, as the kernel lists them.
std::set<std::string> cpuFlags() {
  std::ifstream file("/proc/cpuinfo");
  std::string line;
  while (std::getline(file, line)) {
    if (!line.starts_with("flags")) continue;
    std::istringstream words(line.substr(line.find(':') + 1));
    return {std::istream_iterator<std::string>(words), {}};
  }
  return {};
}

bool machineRuns(HostCodecChoice choice) {
  return tileCodecFor(choice).name() == std::string(hostCodecChoiceName(choice));
}

TEST(Implementations, ScalarIsTheLastResort) {
  ASSERT_FALSE(tileCodecs().empty());
  EXPECT_EQ(tileCodecs().back(), &scalarTileCodec());
  EXPECT_TRUE(machineRuns(HostCodecChoice::kScalar));
}

TEST(Implementations, Avx2RunsWhereTheMachineHasIt) {
  const std::set<std::string> flags = cpuFlags();
  const bool expected = flags.contains("avx2") && flags.contains("bmi2");
  EXPECT_EQ(machineRuns(HostCodecChoice::kAvx2), expected);
}

TEST(Implementations, EachIsChosenByItsName) {
  for (const TileCodec* codec : tileCodecs()) {
    int chosenBy = 0;
    for (const auto choice :
         {HostCodecChoice::kScalar, HostCodecChoice::kAvx2, HostCodecChoice::kAvx512}) {
      chosenBy += hostCodecChoiceName(choice) == codec->name() ? 1 : 0;
      if (hostCodecChoiceName(choice) == codec->name()) {
        EXPECT_EQ(&tileCodecFor(choice), codec);
      }
    }
    EXPECT_EQ(chosenBy, 1) << codec->name();
  }
  EXPECT_EQ(&tileCodecFor(HostCodecChoice::kAuto), tileCodecs().front());
}

/// A tile's pieces as one implementation wrote them.
struct TileBytes {
  std::uint32_t descriptor = 0;
  Bytes record;
  Bytes block;
  Bytes escapes;

  friend bool operator==(const TileBytes&, const TileBytes&) = default;
};

class Tiles : public zipccl::testing::SeededTest {
 protected:
  static TileBytes encodeGuarded(const TileCodec& codec, TileFormat format,
                                 std::span<const std::byte> elements, std::uint8_t poison) {
    const ExactBuffer source(elements, 1);
    GuardedBuffer record(format.isNarrow() ? kUpperRecordBytes : kWideRecordBytes, 3, poison);
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
    tile.block = take(block, blockBytesOf(tile.descriptor, format.isNarrow()));
    tile.escapes = take(escapes, escapesOf(tile.descriptor));
    return tile;
  }

  /// From pieces that end where their allocations end.
  static bool decodeGuarded(const TileCodec& codec, TileFormat format, const TileBytes& tile,
                            std::size_t elementsBytes, Bytes& elements) {
    const ExactBuffer record(tile.record, 1);
    const ExactBuffer block(tile.block, 2);
    const ExactBuffer escapes(tile.escapes, 3);
    GuardedBuffer output(elementsBytes, 5);
    const bool accepted =
        codec.decode(format, tile.descriptor,
                     {record.bytes().data(), block.bytes().data(), escapes.bytes().data()},
                     output.bytes().data());
    EXPECT_TRUE(output.isIntact());
    elements.assign(output.bytes().begin(), output.bytes().end());
    return accepted;
  }
};

TEST_F(Tiles, GiveTheBytesOfTheReference) {
  for (int repeat = 0; repeat < 300 && !HasFailure(); ++repeat) {
    Words words(kTileElements);
    fillWords(random_, kContents[random_.below(std::size(kContents))],
              kLowHalves[random_.below(std::size(kLowHalves))], words);
    if (repeat % 5 == 0) {
      words = wordsWithEscapes(random_, static_cast<std::uint32_t>(random_.below(700)));
    }
    for (const Format& format : kFormats) {
      const TileFormat tileFormat = {format.datatype, format.layout};
      const Bytes elements = elementsOf(format.datatype, words);
      const TileBytes expected = encodeGuarded(scalarTileCodec(), tileFormat, elements, 0x00);
      for (const TileCodec* codec : tileCodecs()) {
        SCOPED_TRACE(::testing::Message() << codec->name() << " " << format);
        EXPECT_EQ(encodeGuarded(*codec, tileFormat, elements, 0xFF), expected);
        Bytes decoded;
        EXPECT_TRUE(decodeGuarded(*codec, tileFormat, expected, elements.size(), decoded));
        EXPECT_EQ(decoded, elements);
      }
    }
  }
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

TEST_F(Tiles, OfAnyBytesDecodeAlike) {
  // Records of random bits under descriptors of every kind, with the number of escapes that the
  // codes hold, and with one more and one less.
  for (int repeat = 0; repeat < 5000 && !HasFailure(); ++repeat) {
    const Format& format = kFormats[random_.below(std::size(kFormats))];
    const TileFormat tileFormat = {format.datatype, format.layout};
    TileBytes tile;
    tile.record.resize(tileFormat.isNarrow() ? kUpperRecordBytes : kWideRecordBytes);
    random_.fill(tile.record);
    const auto kind = static_cast<TileKind>(random_.below(4));
    const bool isCoded = kind == TileKind::kSeven || kind == TileKind::kSixAndZero;
    const auto base = static_cast<std::uint32_t>(isCoded ? random_.below(kMaxWindowBase + 1) : 0);
    const bool hasLow = tileFormat.hasLowHalves() && random_.chance(0.5);
    const std::uint32_t escapes = isCoded ? escapesIn(tile.record) : 0;
    const std::uint32_t wrong = isCoded ? static_cast<std::uint32_t>(random_.below(3)) : 1;
    tile.descriptor = makeDescriptor(kind, base, escapes + wrong - 1, hasLow);
    tile.block.resize(blockBytesOf(tile.descriptor, tileFormat.isNarrow()));
    random_.fill(tile.block);
    tile.escapes.resize(escapesOf(tile.descriptor));
    random_.fill(tile.escapes);
    const std::size_t elementsBytes = kTileElements * elementBytes(format.datatype);
    Bytes expected;
    ASSERT_EQ(decodeGuarded(scalarTileCodec(), tileFormat, tile, elementsBytes, expected),
              wrong == 1);
    for (const TileCodec* codec : tileCodecs()) {
      SCOPED_TRACE(::testing::Message() << codec->name() << " " << format);
      Bytes decoded;
      EXPECT_EQ(decodeGuarded(*codec, tileFormat, tile, elementsBytes, decoded), wrong == 1);
      if (wrong == 1) {
        EXPECT_EQ(decoded, expected);
      }
    }
  }
}

}  // namespace
}  // namespace zipccl::codec::testing
