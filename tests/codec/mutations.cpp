// SPDX-License-Identifier: Apache-2.0
//
// Frames, changed here and there, before one implementation of the codec.

#include "codec/mutations.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstring>
#include <string>

#include "codec/bytes.hpp"
#include "codec/codec_testing.hpp"
#include "codec/layout.hpp"
#include "golden/golden_cases.hpp"
#include "support/guarded_buffer.hpp"

namespace zipccl::codec::testing {
namespace {

using zipccl::testing::ExactBuffer;
using zipccl::testing::GuardedBuffer;

constexpr std::size_t kStatusCount = static_cast<std::size_t>(DecodeStatus::kChecksumMismatch) + 1;

class Mutator {
 public:
  Mutator(const TileCodec& codec, Random& random) : codec_(codec), random_(random) {
    for (const Format& format : kFormats) {
      for (const std::uint64_t poolTiles : {0, 1, 3}) addBase(format, poolTiles);
    }
  }

  void mutateOnce() {
    const Base& base = bases_[random_.below(bases_.size())];
    Bytes frame = base.frame;
    for (std::uint64_t n = 1 + random_.below(3); n > 0; --n) mutate(base, frame);
    if (random_.below(32) == 0) frame.resize(random_.below(frame.size()));
    const Manner manner = {random_.chance(0.5), random_.below(64) == 0};
    Bytes first;
    Bytes second;
    const DecodeStatus status = decodeSomehow(base, frame, manner, 0x00, first);
    ASSERT_LT(static_cast<std::size_t>(status), kStatusCount);
    ++reached_[static_cast<std::size_t>(status)];
    if (status != DecodeStatus::kOk) return;
    ASSERT_EQ(decodeSomehow(base, frame, manner, 0xFF, second), DecodeStatus::kOk);
    FrameHeader header;
    ASSERT_EQ(readHeader(frame, header), DecodeStatus::kOk);
    const std::uint64_t written = header.spec.elementCount * elementBytes(header.spec.datatype);
    ASSERT_TRUE(written == 0 || std::memcmp(first.data(), second.data(), written) == 0);
  }

  void expectEveryStatus() const {
    for (std::size_t i = 0; i < kStatusCount; ++i) {
      const std::string name(golden::nameOf(static_cast<DecodeStatus>(i)));
      std::printf("{\"codec\":\"%s\",\"status\":\"%s\",\"mutations\":%llu}\n", codec_.name(),
                  name.c_str(), static_cast<unsigned long long>(reached_[i]));
      EXPECT_GT(reached_[i], 0U) << name;
    }
  }

 private:
  struct Base {
    FrameSpec spec;
    Bytes frame;
  };

  /// How a mutated frame is decoded.
  struct Manner {
    bool inParts;        ///< in two parts as agreed, or in one piece by its own header
    bool isOutputShort;  ///< by a byte
  };

  void addBase(const Format& format, std::uint64_t poolTiles) {
    // Three tiles, or with the middle pool nine, so two groups.
    const std::uint64_t tiles = poolTiles == 1 ? 9 : 3;
    Words words = mixedWords(format.datatype, random_, tiles * kTileElements + random_.below(100));
    fillWords(format.datatype, random_, Content::kGaussian, LowHalves::kRare,
              std::span(words).first(2 * kTileElements));
    Base base;
    base.spec = specOf(format, words.size());
    base.spec.poolBytes = elementFormat(format.datatype).maxEscapes() * poolTiles;
    base.frame = encodeChecked(base.spec, elementsOf(format.datatype, words)).frame;
    bases_.push_back(std::move(base));
  }

  void mutate(const Base& base, Bytes& frame) {
    mutateFrame(frameLayout(base.spec.datatype, base.spec.layout, base.spec.elementCount,
                            base.spec.poolBytes),
                random_, frame);
    // A checksum that the frame does not have: bits that few changes hit.
    if (random_.below(512) == 0) {
      frame[offsetof(HeaderBytes, flags)] = static_cast<std::byte>(kFlagChecksum);
    }
  }

  DecodeStatus decodeSomehow(const Base& base, const Bytes& frame, const Manner& manner,
                             std::uint8_t poison, Bytes& output) const {
    const std::uint64_t agreedBytes = base.spec.elementCount * elementBytes(base.spec.datatype);
    GuardedBuffer guarded(agreedBytes - (manner.isOutputShort ? 1 : 0), 0, poison);
    DecodeStatus status{};
    if (manner.inParts) {
      const std::size_t split = std::min<std::size_t>(frame.size(), staticBytes(base.spec));
      const std::span<const std::byte> whole(frame);
      const ExactBuffer staticPart(whole.first(split));
      const ExactBuffer dynamicPart(whole.subspan(split));
      status =
          decodeWith(codec_, base.spec, staticPart.bytes(), dynamicPart.bytes(), guarded.bytes());
    } else {
      const ExactBuffer exact(frame);
      status = decodeFrameWith(codec_, exact.bytes(), guarded.bytes());
    }
    EXPECT_TRUE(guarded.isIntact());
    output.assign(guarded.bytes().begin(), guarded.bytes().end());
    return status;
  }

  const TileCodec& codec_;
  Random& random_;
  std::vector<Base> bases_;
  std::array<std::uint64_t, kStatusCount> reached_{};
};

}  // namespace

void expectStatusesOfMutations(const TileCodec& codec, Random& random, std::uint64_t count) {
  SCOPED_TRACE(codec.name());
  Mutator mutator(codec, random);
  for (std::uint64_t i = 0; i < count && !::testing::Test::HasFailure(); ++i) mutator.mutateOnce();
  mutator.expectEveryStatus();
}

}  // namespace zipccl::codec::testing
