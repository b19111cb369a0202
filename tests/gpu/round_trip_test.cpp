// SPDX-License-Identifier: Apache-2.0
//
// Device and host against each other, on every kind of input: what one encodes the other decodes,
// bit for bit, and their frames are of one size.

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <numeric>
#include <set>
#include <string>
#include <vector>

#include "codec/bytes.hpp"
#include "codec/layout.hpp"
#include "codec/tile_window.hpp"
#include "gpu/gpu_testing.hpp"
#include "support/safetensors.hpp"

namespace zipccl::gpu::testing {
namespace {

using codec::kGroupTiles;
using codec::kTileElements;
using codec::TileKind;
using codec::testing::Content;
using codec::testing::elementsOf;
using codec::testing::LowHalves;
using codec::testing::specOf;

std::uint32_t descriptorOf(std::span<const std::byte> frame, std::uint64_t tile) {
  return codec::loadWord<std::uint32_t>(frame.data() + codec::kHeaderBytes + 4 * tile);
}

std::uint64_t tilesOf(TileKind kind, std::span<const std::byte> frame, std::uint64_t tileCount) {
  std::uint64_t tiles = 0;
  for (std::uint64_t t = 0; t < tileCount; ++t) {
    tiles += codec::kindOf(descriptorOf(frame, t)) == kind ? 1 : 0;
  }
  return tiles;
}

class RoundTrip : public DeviceTest {
 protected:
  Bytes roundTripWords(const Format& format, const Words& words,
                       SizeCheck sizeCheck = SizeCheck::kBoundOnly) {
    return roundTrip(specOf(format, words.size()), elementsOf(format.datatype, words), sizeCheck);
  }

  /// Of another kind in every tile.
  Bytes mixedElements(const Format& format, std::uint64_t count) {
    return elementsOf(format.datatype, codec::testing::mixedWords(format.datatype, random_, count));
  }

  Words filled(const Format& format, Content content, std::uint64_t count) {
    Words words(count);
    fillWords(format.datatype, random_, content, LowHalves::kRare, words);
    return words;
  }

  /// `elements`, repeated to `bytes`.
  static Bytes repeated(const Bytes& elements, std::uint64_t bytes) {
    Bytes all(bytes);
    for (std::size_t at = 0; at < all.size(); at += elements.size()) {
      std::copy_n(elements.begin(), std::min(elements.size(), all.size() - at),
                  all.begin() + static_cast<std::ptrdiff_t>(at));
    }
    return all;
  }

  /// More groups than the device runs at once, at eight blocks of them a multiprocessor.
  [[nodiscard]] std::uint64_t manyGroups() const {
    return 8 * static_cast<std::uint64_t>(multiprocessors()) + 1;
  }
};

TEST_F(RoundTrip, AllSixteenBitPatterns) {
  for (const Format& format : kGpuFormats) {
    SCOPED_TRACE(format.name);
    const codec::ElementFormat element = codec::elementFormat(format.datatype);
    const std::uint32_t others = 65536U >> element.exponentBits;  // patterns of one exponent
    std::array<Words, 3> arrangements;
    for (Words& words : arrangements) words.resize(65536);
    for (std::uint32_t pattern = 0; pattern < 65536; ++pattern) {
      // Tiles of few exponents; of four neighbouring ones, which are coded; of any.
      arrangements[0][pattern] = pattern << 16;
      const std::uint32_t exponent = codec::exponentOf(element, pattern);
      const std::uint32_t rest = (pattern & (others / 2 - 1)) | (pattern >> 15) * (others / 2);
      arrangements[1][(exponent / 4 * others + rest) * 4 + exponent % 4] = pattern << 16;
      arrangements[2][pattern] = pattern << 16;
    }
    for (std::uint32_t n = 65536; n > 1; --n) {
      std::swap(arrangements[2][n - 1], arrangements[2][random_.below(n)]);
    }
    for (const Words& words : arrangements) {
      const std::set<std::uint32_t> patterns(words.begin(), words.end());
      ASSERT_EQ(patterns.size(), 65536U);
      roundTripWords(format, words);
    }
  }
}

TEST_F(RoundTrip, GaussianOfManySigmas) {
  for (const Format& format : kGpuFormats) {
    const bool isFloat16 = format.datatype == codec::Datatype::kFloat16;
    for (const int octave :
         isFloat16 ? std::array{-20, -14, -10, -6, 0, 11} : std::array{-100, -30, -6, 0, 40, 110}) {
      for (int step = 0; step < 16; ++step) {
        const double sigma = std::exp2(octave + (step + random_.uniform()) / 16);
        SCOPED_TRACE(::testing::Message() << format << " sigma " << sigma);
        const std::uint64_t count = 20 * kTileElements + random_.below(kTileElements);
        roundTripWords(format, gaussianWords(format.datatype, random_, sigma, count),
                       SizeCheck::kNear);
        if (HasFailure()) return;
      }
    }
  }
}

TEST_F(RoundTrip, ZerosOfAnyShare) {
  for (const Format& format : kGpuFormats) {
    for (int step = 0; step <= 20; ++step) {
      const double share = step == 20 ? 1.0 : (step + random_.uniform()) / 20;
      for (const double negativeShare : {0.0, 0.5, 1.0}) {
        SCOPED_TRACE(::testing::Message()
                     << format << " zeros " << share << ", of them negative " << negativeShare);
        roundTripWords(format, wordsWithZeros(format.datatype, random_, share, negativeShare,
                                              24 * kTileElements + 77));
        if (HasFailure()) return;
      }
    }
  }
}

TEST_F(RoundTrip, ZerosOfAnyShareTakeNoMoreThanOnTheHost) {
  for (const Format& format : kGpuFormats) {
    for (const double share :
         {0.01, 0.02, 0.03, 0.04, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99}) {
      SCOPED_TRACE(::testing::Message() << format << " zeros " << share);
      const Words words = wordsWithZeros(format.datatype, random_, share, 0.5, 100 * kTileElements);
      (void)encodeOnDevice(specOf(format, words.size()), elementsOf(format.datatype, words),
                           SizeCheck::kNotLarger);
    }
  }
}

/// Escapes of a tile under the kind and window that give the fewest.
std::uint32_t fewestEscapes(const codec::ElementFormat& element,
                            std::span<const std::uint32_t> tile) {
  std::array<std::uint32_t, 256> values{};
  for (const std::uint32_t word : tile) ++values[codec::exponentOf(element, word >> 16)];
  std::uint32_t most = 0;
  for (std::uint32_t base = 0; base <= element.maxWindowBase(); ++base) {
    std::uint32_t inSeven = 0;
    for (std::uint32_t code = 0; code < 7; ++code) inSeven += values[base + code];
    std::uint32_t inSix = values[0];
    for (std::uint32_t code = base == 0 ? 1 : 0; code < 6; ++code) inSix += values[base + code];
    most = std::max({most, inSeven, inSix});
  }
  return kTileElements - most;
}

TEST_F(RoundTrip, WindowsAreNearTheBest) {
  // Whatever sigma and however many zeros: a tile may have at most 8 escapes too many, on average,
  // which is 0.06 bits a value.
  constexpr std::uint64_t kTiles = 100;
  for (const Format& format : kGpuFormats) {
    for (const double share : {0.0, 0.01, 0.03, 0.1, 0.3, 0.5, 0.7, 0.8, 0.9, 0.95, 0.99}) {
      for (int step = 0; step < 8; ++step) {
        const double sigma = std::exp2(-6 + (step + random_.uniform()) / 8);
        SCOPED_TRACE(::testing::Message() << format << " sigma " << sigma << " zeros " << share);
        Words words = gaussianWords(format.datatype, random_, sigma, kTiles * kTileElements);
        for (std::uint32_t& word : words) {
          if (random_.chance(share)) word = 0;
        }
        const Bytes frame =
            encodeOnDevice(specOf(format, words.size()), elementsOf(format.datatype, words));
        if (HasFailure()) return;
        std::uint64_t escapes = 0;
        std::uint64_t fewest = 0;
        for (std::uint64_t tile = 0; tile < kTiles; ++tile) {
          const std::uint32_t descriptor = descriptorOf(frame, tile);
          escapes += codec::kindOf(descriptor) == TileKind::kRaw
                         ? codec::elementFormat(format.datatype).rawRestBytes()
                         : codec::escapesOf(descriptor);
          fewest += fewestEscapes(codec::elementFormat(format.datatype),
                                  std::span(words).subspan(tile * kTileElements, kTileElements));
        }
        EXPECT_LE(escapes, fewest + 8 * kTiles);
      }
    }
  }
}

TEST_F(RoundTrip, MixedTiles) {
  for (const Format& format : kGpuFormats) {
    for (int repeat = 0; repeat < 20; ++repeat) {
      const std::uint64_t count = random_.below(60 * kTileElements);
      FrameSpec spec = specOf(format, count);
      spec.poolBytes =
          random_.below(codec::maxPoolBytes(format.datatype, format.layout, count) / 128 + 1) * 128;
      SCOPED_TRACE(::testing::Message()
                   << format << " count " << count << " pool " << spec.poolBytes);
      roundTrip(spec, mixedElements(format, count));
      if (HasFailure()) return;
    }
  }
}

TEST_F(RoundTrip, EveryContent) {
  for (const Format& format : kGpuFormats) {
    for (const Content content : codec::testing::kContents) {
      SCOPED_TRACE(::testing::Message() << format << " content " << static_cast<int>(content));
      for (int repeat = 0; repeat < 4; ++repeat) {
        roundTripWords(format,
                       filled(format, content, 17 * kTileElements + random_.below(kTileElements)));
      }
      if (HasFailure()) return;
    }
  }
}

TEST_F(RoundTrip, SubnormalsNaNsAndInfinities) {
  // Each a whole frame, so that nothing measurable is beside them.
  for (const Format& format : kGpuFormats) {
    const codec::ElementFormat element = codec::elementFormat(format.datatype);
    const std::uint32_t most = element.maxExponent();
    for (const std::uint32_t exponent : {0U, 1U, 6U, 7U, most - 6, most - 5, most - 1, most}) {
      for (const bool alone : {true, false}) {
        SCOPED_TRACE(::testing::Message() << format << " exponent " << exponent << alone);
        Words words = gaussianWords(format.datatype, random_, 1.0, 9 * kTileElements);
        for (std::uint32_t& word : words) {
          if (!alone && random_.chance(0.9)) continue;
          const auto bits = static_cast<std::uint32_t>(random_.below(65536)) << 16;
          const std::uint32_t shift = 31 - element.exponentBits;
          word = (bits & ~(most << shift)) | exponent << shift;
        }
        roundTripWords(format, words);
        if (HasFailure()) return;
      }
    }
  }
}

TEST_F(RoundTrip, RandomBitsMeetTheBoundExactly) {
  for (const Format& format : kGpuFormats) {
    Words words(40 * kTileElements + 1023);
    random_.fill(std::as_writable_bytes(std::span(words)));
    const Bytes elements = elementsOf(format.datatype, words);
    const std::uint64_t most = codec::maxPoolBytes(format.datatype, format.layout, words.size());
    for (const std::uint64_t pool : {std::uint64_t{0}, std::uint64_t{128}, most}) {
      SCOPED_TRACE(::testing::Message() << format << " pool " << pool);
      FrameSpec spec = specOf(format, words.size());
      spec.poolBytes = pool;
      const Bytes frame = roundTrip(spec, elements, SizeCheck::kNear);
      ASSERT_EQ(frame.size(), codec::maxFrameBytes(format.datatype, words.size()));
      EXPECT_EQ(tilesOf(TileKind::kRaw, frame, 40), 40U);
    }
  }
}

TEST_F(RoundTrip, AllZeroIsEmptyAndNegativeZeroIsNot) {
  for (const Format& format : kGpuFormats) {
    SCOPED_TRACE(format.name);
    Words words(25 * kTileElements + 3, 0U);
    Bytes frame = roundTripWords(format, words, SizeCheck::kNear);
    if (HasFailure()) return;
    EXPECT_EQ(tilesOf(TileKind::kEmpty, frame, 25), 25U);

    // One element that is not +0, anywhere in every other tile.
    for (std::uint64_t tile = 0; tile < 25; tile += 2) {
      words[tile * kTileElements + random_.below(kTileElements)] = 0x80000000U;
    }
    frame = roundTripWords(format, words, SizeCheck::kNear);
    if (HasFailure()) return;
    EXPECT_EQ(tilesOf(TileKind::kEmpty, frame, 25), 12U);

    std::fill(words.begin(), words.end(), 0x80000000U);
    frame = roundTripWords(format, words, SizeCheck::kNear);
    if (HasFailure()) return;
    EXPECT_EQ(tilesOf(TileKind::kEmpty, frame, 25), 0U);
  }
}

TEST_F(RoundTrip, AlternatingRawAndEmptyTiles) {
  for (const Format& format : kGpuFormats) {
    for (const std::uint64_t first : {0, 1}) {
      SCOPED_TRACE(::testing::Message() << format << " first " << first);
      Words words(67 * kTileElements, 0U);
      for (std::uint64_t tile = first; tile < 67; tile += 2) {
        random_.fill(
            std::as_writable_bytes(std::span(words).subspan(tile * kTileElements, kTileElements)));
      }
      const Bytes frame = roundTripWords(format, words, SizeCheck::kNear);
      if (HasFailure()) return;
      EXPECT_EQ(tilesOf(TileKind::kRaw, frame, 67), first == 0 ? 34U : 33U);
      EXPECT_EQ(tilesOf(TileKind::kEmpty, frame, 67), first == 0 ? 33U : 34U);
    }
  }
}

TEST_F(RoundTrip, EscapesAtEveryLimit) {
  // 32 and 64: what the decoder reads with a load a lane or two; 192: where the encoder looks a
  // second time; `most`: beyond it a tile goes raw.
  for (const Format& format : kGpuFormats) {
    const std::uint32_t most = codec::elementFormat(format.datatype).maxEscapes();
    for (const std::uint32_t escapes : {0U, 1U, 31U, 32U, 33U, 63U, 64U, 65U, 191U, 192U, 193U,
                                        most - 1, most, most + 1, 1024U}) {
      SCOPED_TRACE(::testing::Message() << format << " escapes " << escapes);
      Words words;
      for (int tile = 0; tile < 19; ++tile) {
        append(words, tileWithEscapes(random_, format.datatype, escapes));
      }
      const Bytes frame = roundTripWords(format, words, SizeCheck::kNear);
      if (HasFailure()) return;
      for (std::uint64_t tile = 0; tile < 19; ++tile) {
        const std::uint32_t descriptor = descriptorOf(frame, tile);
        EXPECT_EQ(codec::kindOf(descriptor), escapes > most ? TileKind::kRaw : TileKind::kSeven);
        EXPECT_EQ(codec::escapesOf(descriptor), escapes > most ? 0 : escapes);
      }
    }
  }
}

TEST_F(RoundTrip, GroupsOfEveryMixtureOfTiles) {
  // Tiles of every kind beside each other, in fewer and in more groups than run at once.
  for (const Format& format : kGpuFormats) {
    for (const std::uint64_t groups : {std::uint64_t{30}, manyGroups()}) {
      SCOPED_TRACE(::testing::Message() << format << " groups " << groups);
      std::vector<Words> tiles;
      for (int n = 0; n < 12; ++n) {
        tiles.push_back(tileWithEscapes(random_, format.datatype,
                                        static_cast<std::uint32_t>(random_.below(660))));
        // fp32: half of the tiles have low halves.
        if (n % 2 == 0) continue;
        for (std::uint32_t& word : tiles.back())
          word |= static_cast<std::uint32_t>(random_.below(65536));
      }
      tiles.push_back(Words(kTileElements, 0U));
      tiles.push_back(filled(format, Content::kRandomBits, kTileElements));
      tiles.push_back(wordsWithZeros(format.datatype, random_, 0.5, 0.1, kTileElements));
      Words words;
      words.reserve((groups * kGroupTiles + 1) * kTileElements);
      for (std::uint64_t group = 0; group < groups; ++group) {
        for (std::uint32_t t = 0; t < kGroupTiles; ++t) {
          append(words, tiles[random_.below(tiles.size())]);
        }
      }
      append(words, filled(format, Content::kSpecialValues, random_.below(kTileElements)));
      roundTripWords(format, words);
      if (HasFailure()) return;
    }
  }
}

TEST_F(RoundTrip, OneOutlierAtEveryPlaceOfATile) {
  // Tile n holds it at element n.
  for (const Format& format : kGpuFormats) {
    const bool isFloat16 = format.datatype == codec::Datatype::kFloat16;
    const std::array<std::uint32_t, 4> outliers =
        isFloat16 ? std::array{0x7E010000U, 0x7C000000U, 0x00010000U, 0x04000000U}
                  : std::array{0x7FC10000U, 0x7F800000U, 0x00010000U, 0x4F000000U};
    for (const std::uint32_t outlier : outliers) {
      SCOPED_TRACE(::testing::Message() << format << std::hex << " outlier " << outlier);
      Words words(std::uint64_t{kTileElements} * kTileElements);
      const Words tile = tileWithEscapes(random_, format.datatype, 0);
      for (std::uint64_t n = 0; n < kTileElements; ++n) {
        std::copy(tile.begin(), tile.end(),
                  words.begin() + static_cast<std::ptrdiff_t>(n * kTileElements));
        words[n * kTileElements + n] = outlier;
      }
      const Bytes frame = roundTripWords(format, words, SizeCheck::kNear);
      if (HasFailure()) return;
      for (std::uint64_t n = 0; n < kTileElements; ++n) {
        EXPECT_EQ(codec::escapesOf(descriptorOf(frame, n)), 1U) << "tile " << n;
      }
    }
  }
}

TEST_F(RoundTrip, RealTensors) {
  const char* const fromUser = std::getenv("ZIPCCL_TEST_DATA_FOLDER");
  const std::string folder = fromUser != nullptr ? fromUser : ZIPCCL_DATA_FOLDER;
  const zipccl::testing::SafetensorsFile bfloat16(folder + "/bf16.safetensors");
  const zipccl::testing::SafetensorsFile float32(folder + "/fp32.safetensors");
  for (const Format& format : kGpuFormats) {
    const bool isFloat32 = format.datatype == codec::Datatype::kFloat32;
    Bytes all;
    int tensors = 0;
    for (const zipccl::testing::Tensor& tensor : (isFloat32 ? float32 : bfloat16).tensors()) {
      if (tensor.dtype != (isFloat32 ? "F32" : "BF16")) continue;
      ++tensors;
      all.insert(all.end(), tensor.bytes.begin(), tensor.bytes.end());
      SCOPED_TRACE(::testing::Message() << format << " " << tensor.name);
      FrameSpec spec = specOf(format, tensor.elementCount);
      const Bytes frame = roundTrip(spec, tensor.bytes, SizeCheck::kNotLarger);
      codec::FrameHeader header;
      ASSERT_EQ(codec::readHeader(frame, header), codec::DecodeStatus::kOk);
      // In the steady state nothing is left for the dynamic part.
      spec.poolBytes = codec::steadyPoolBytes(format.datatype, format.layout, spec.elementCount,
                                              header.extraBytes);
      EXPECT_EQ(roundTrip(spec, tensor.bytes).size(), codec::staticBytes(spec));
      if (HasFailure()) return;
    }
    EXPECT_GE(tensors, 3) << format;
    roundTrip(specOf(format, all.size() / codec::elementBytes(format.datatype)), all,
              SizeCheck::kNotLarger);
  }
}

TEST_F(RoundTrip, EveryKindOfCount) {
  std::vector<std::uint64_t> counts = {0,    1,    2,    7,    8,        31,
                                       33,   127,  129,  511,  513,      1023,
                                       1024, 1025, 2047, 2049, 3 * 1024, 3 * 1024 + 1};
  constexpr std::uint64_t kGroupElements = std::uint64_t{kGroupTiles} * kTileElements;
  for (const std::uint64_t groups : {1, 2, 3, 8, 9}) {
    for (const std::uint64_t n :
         {groups * kGroupElements - 1, groups * kGroupElements, groups * kGroupElements + 1,
          groups * kGroupElements + kTileElements}) {
      counts.push_back(n);
    }
  }
  counts.push_back(1'000'000 + 2 * random_.below(1000) + 1);
  for (const Format& format : kGpuFormats) {
    const Bytes elements = mixedElements(format, *std::max_element(counts.begin(), counts.end()));
    for (const std::uint64_t count : counts) {
      SCOPED_TRACE(::testing::Message() << format << " count " << count);
      roundTrip(specOf(format, count),
                std::span(elements).first(count * codec::elementBytes(format.datatype)));
      if (HasFailure()) return;
    }
  }
}

TEST_F(RoundTrip, EveryCountOfTwoTiles) {
  for (const Format& format : kGpuFormats) {
    const Bytes elements = mixedElements(format, 2 * kTileElements + 1);
    const std::uint64_t step = usesExactBuffers() ? 97 : 1;
    for (std::uint64_t count = 0; count <= 2 * kTileElements + 1; count += step) {
      SCOPED_TRACE(::testing::Message() << format << " count " << count);
      const FrameSpec spec = specOf(format, count);
      const auto part = std::span(elements).first(count * codec::elementBytes(format.datatype));
      deviceRoundTrip(spec, part);
      if (HasFailure()) return;
    }
  }
}

TEST_F(RoundTrip, EveryElementAlignment) {
  for (const Format& format : kGpuFormats) {
    const std::uint64_t elementBytes = codec::elementBytes(format.datatype);
    const Bytes elements = mixedElements(format, 41 * kTileElements + 1023);
    for (std::size_t misalignmentBytes = elementBytes; misalignmentBytes < 16;
         misalignmentBytes += elementBytes) {
      for (const unsigned maxBlocks : {0U, 1U, 3U}) {
        for (const std::uint64_t count :
             {std::uint64_t{1}, std::uint64_t{1023}, std::uint64_t{1024},
              17 * std::uint64_t{kTileElements} + random_.below(kTileElements),
              elements.size() / elementBytes}) {
          SCOPED_TRACE(::testing::Message()
                       << format << " " << misalignmentBytes << " bytes past, count " << count
                       << " blocks " << maxBlocks);
          deviceRoundTrip(specOf(format, count), std::span(elements).first(count * elementBytes),
                          SizeCheck::kBoundOnly, {{maxBlocks}, misalignmentBytes});
          if (HasFailure()) return;
        }
      }
    }
  }
}

TEST_F(RoundTrip, MoreGroupsThanRunAtOnce) {
  // 2048: up to there the decoder of bf16 trades registers for resident blocks.
  for (const Format& format : kGpuFormats) {
    const std::uint64_t elementBytes = codec::elementBytes(format.datatype);
    const bool isFloat32 = format.datatype == codec::Datatype::kFloat32;
    const std::uint64_t groups =
        isFloat32 ? manyGroups() : std::max<std::uint64_t>(2048, manyGroups());
    const std::uint64_t border = groups * kGroupTiles * kTileElements;
    const Bytes elements =
        repeated(mixedElements(format, 301 * kTileElements + 7), (border + 2048) * elementBytes);
    for (const std::uint64_t count : {border - 1, border + 1}) {
      SCOPED_TRACE(::testing::Message() << format << " count " << count);
      deviceRoundTrip(specOf(format, count), std::span(elements).first(count * elementBytes));
      if (HasFailure()) return;
    }
  }
}

TEST_F(RoundTrip, EveryPlaceOfTheBorderInsideOneGroup) {
  for (const Format& format : kGpuFormats) {
    Words words = tileWithEscapes(random_, format.datatype, 100);
    append(words, filled(format, Content::kRandomBits, kTileElements));
    append(words, tileWithEscapes(random_, format.datatype, 600));
    const Bytes elements = elementsOf(format.datatype, words);
    FrameSpec spec = specOf(format, words.size());
    const std::uint64_t most = codec::maxPoolBytes(format.datatype, format.layout, words.size());
    std::uint64_t withinRegion = 0;
    for (spec.poolBytes = 0; spec.poolBytes <= most; spec.poolBytes += 128) {
      SCOPED_TRACE(::testing::Message() << format << " pool " << spec.poolBytes);
      const Bytes frame = roundTrip(spec, elements, SizeCheck::kNear);
      withinRegion += spec.poolBytes > 0 && frame.size() > codec::staticBytes(spec) ? 1 : 0;
      if (HasFailure()) return;
    }
    EXPECT_GE(withinRegion, codec::elementFormat(format.datatype).rawRestBytes() / 64);
  }
}

TEST_F(RoundTrip, EveryKindOfPool) {
  for (const Format& format : kGpuFormats) {
    for (const std::uint64_t groups : {std::uint64_t{7}, manyGroups() + 1}) {
      const std::uint64_t count = groups * kGroupTiles * kTileElements + 11;
      const Bytes elements = mixedElements(format, count);
      FrameSpec spec = specOf(format, count);
      const Bytes first = encodeOnHost(spec, elements);
      codec::FrameHeader header;
      ASSERT_EQ(codec::readHeader(first, header), codec::DecodeStatus::kOk);
      const std::uint64_t most = codec::maxPoolBytes(format.datatype, format.layout, count);
      const std::uint64_t steady =
          codec::steadyPoolBytes(format.datatype, format.layout, count, header.extraBytes);
      const std::uint64_t half = header.extraBytes / 2 / 128 * 128;
      for (const std::uint64_t pool :
           {std::uint64_t{0}, std::uint64_t{128}, half, spec.poolBytes, steady, most}) {
        SCOPED_TRACE(::testing::Message() << format << " groups " << groups << " pool " << pool);
        FrameSpec other = spec;
        other.poolBytes = pool;
        deviceRoundTrip(other, elements);
        if (HasFailure()) return;
      }
    }
  }
}

TEST_F(RoundTrip, FewBlocks) {
  for (const Format& format : kGpuFormats) {
    for (const std::uint64_t groups : {1, 2, 3, 4, 5, 40, 150}) {
      const std::uint64_t count =
          groups * kGroupTiles * kTileElements - 3 * kTileElements + random_.below(kTileElements);
      const Bytes elements = mixedElements(format, count);
      for (const unsigned maxBlocks : {1U, 2U, 16U, 100'000U}) {
        SCOPED_TRACE(::testing::Message()
                     << format << " groups " << groups << " blocks " << maxBlocks);
        deviceRoundTrip(specOf(format, count), elements, SizeCheck::kBoundOnly, {{maxBlocks}});
        if (HasFailure()) return;
      }
    }
  }
}

TEST_F(RoundTrip, DecoderReadsOnlyWhatTheEncoderWrote) {
  // Under initcheck: nothing here was written before but the source. No empty tiles, whose records
  // are not written.
  for (const Format& format : kGpuFormats) {
    Words words = gaussianWords(format.datatype, random_, 0.02, 70 * kTileElements + 17);
    fillWords(format.datatype, random_, Content::kRandomBits, LowHalves::kAny,
              std::span(words).subspan(9 * kTileElements, kTileElements));
    fillWords(format.datatype, random_, Content::kGaussian, LowHalves::kRare,
              std::span(words).subspan(20 * kTileElements, 5 * kTileElements));
    append(words, tileWithEscapes(random_, format.datatype, 500));
    const Bytes elements = elementsOf(format.datatype, words);
    FrameSpec spec = specOf(format, words.size());
    for (const std::uint64_t pool : {std::uint64_t{0}, spec.poolBytes}) {
      spec.poolBytes = pool;
      const GuardedDeviceBuffer source(stream(), elements);
      const DeviceBuffer frame(codec::maxFrameBytes(spec.datatype, spec.elementCount));
      const DeviceBuffer output(elements.size());
      const DeviceWord<std::uint32_t> status(stream(), 0);
      encode(spec, source.data(), frame.data(), frame.bytes(), nullptr, workspace(),
             stream().get());
      const std::uint64_t split = codec::staticBytes(spec);
      decode(spec, frame.data(), frame.data() + split, frame.bytes() - split, output.data(),
             status.get(), stream().get());
      Bytes decoded(elements.size());
      check(cudaMemcpyAsync(decoded.data(), output.data(), decoded.size(), cudaMemcpyDeviceToHost,
                            stream().get()),
            "reading the output");
      stream().synchronize();
      EXPECT_EQ(status.value(), 0U) << describeWord(status.value());
      EXPECT_TRUE(equalBytes(decoded, elements));
    }
  }
}

}  // namespace
}  // namespace zipccl::gpu::testing
