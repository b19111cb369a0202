// SPDX-License-Identifier: Apache-2.0
//
// One call by several threads: the bytes, counts and statuses of one thread, whatever their number.

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <thread>
#include <vector>

#include "base/error.hpp"
#include "codec/bytes.hpp"
#include "codec/codec_testing.hpp"
#include "codec/layout.hpp"
#include "codec/thread_pool.hpp"
#include "support/guarded_buffer.hpp"
#include "support/seeded_test.hpp"

namespace zipccl::codec::testing {
namespace {

using zipccl::testing::GuardedBuffer;

constexpr std::uint64_t kChunkElements = kChunkGroups * kGroupTiles * kTileElements;

class Threads : public zipccl::testing::SeededTest {
 protected:
  /// A frame of a few chunks, at whose ends sizes may stand or not.
  std::uint64_t someCount() {
    const std::uint64_t near = (1 + random_.below(4)) * kChunkElements;
    switch (random_.below(4)) {
      case 0:
        return near;
      case 1:
        return near + random_.below(2 * kTileElements);
      case 2:
        return near - random_.below(2 * kTileElements);
      default:
        return random_.below(5 * kChunkElements);
    }
  }

  FrameSpec someSpec(const Format& format) {
    FrameSpec spec = specOf(format, someCount());
    const std::uint64_t most = maxPoolBytes(format.datatype, format.layout, spec.elementCount);
    if (random_.chance(0.7)) spec.poolBytes = random_.below(most / 128 / 8 + 1) * 128;
    spec.checksum = random_.chance(0.5);
    return spec;
  }

  /// Made of few tiles, so that random numbers take no more time than the codec.
  Bytes someElements(const FrameSpec& spec) {
    const Words some = mixedWords(spec.datatype, random_, 40 * kTileElements);
    Words words(spec.elementCount);
    for (std::uint64_t at = 0; at < words.size(); at += kTileElements) {
      const std::uint64_t length = std::min<std::uint64_t>(kTileElements, words.size() - at);
      const std::uint64_t from = random_.below(some.size() - length);
      std::copy_n(some.begin() + static_cast<std::ptrdiff_t>(from), length,
                  words.begin() + static_cast<std::ptrdiff_t>(at));
    }
    return elementsOf(spec.datatype, words);
  }

  static Encoded encodeBy(CodecThreads* threads, const FrameSpec& spec, const Bytes& elements) {
    GuardedBuffer frame(maxFrameBytes(spec.datatype, spec.elementCount));
    Encoded encoded;
    encoded.result = encode(spec, elements.data(), frame.bytes(), {1, 2, 3, 4}, threads);
    EXPECT_TRUE(frame.isIntact());
    const auto used = frame.bytes().first(encoded.result.frameBytes());
    encoded.frame.assign(used.begin(), used.end());
    return encoded;
  }

  CodecThreads two_{2};
  CodecThreads five_{5};
};

TEST_F(Threads, GiveTheBytesOfOne) {
  for (int repeat = 0; repeat < 6; ++repeat) {
    for (const Format& format : kFormats) {
      const FrameSpec spec = someSpec(format);
      SCOPED_TRACE(::testing::Message() << format << " count " << spec.elementCount << " pool "
                                        << spec.poolBytes << " checksum " << spec.checksum);
      const Bytes elements = someElements(spec);
      const Encoded alone = encodeBy(nullptr, spec, elements);
      for (CodecThreads* threads : {&two_, &five_}) {
        const Encoded shared = encodeBy(threads, spec, elements);
        EXPECT_TRUE(shared.frame == alone.frame) << threads->count() << " threads";
        expectEqual(shared.result, alone.result);
        GuardedBuffer output(elements.size());
        EXPECT_EQ(decodeFrame(alone.frame, output.bytes(), threads), DecodeStatus::kOk);
        EXPECT_TRUE(output.isIntact());
        EXPECT_TRUE(std::equal(elements.begin(), elements.end(), output.bytes().begin()));
      }
      if (HasFailure()) return;
    }
  }
}

TEST_F(Threads, FindTheFaultOfOne) {
  std::uint32_t found = 0;
  for (const Format& format : kFormats) {
    FrameSpec spec = specOf(format, 3 * kChunkElements + 5);
    spec.checksum = random_.chance(0.3);
    const Bytes elements = someElements(spec);
    const Bytes good = encodeBy(nullptr, spec, elements).frame;
    const FrameLayout layout =
        frameLayout(spec.datatype, spec.layout, spec.elementCount, spec.poolBytes);
    for (int repeat = 0; repeat < 12 && !HasFailure(); ++repeat) {
      Bytes bad = good;
      // Several faults, of which the first in order counts.
      for (std::uint64_t n = random_.below(5); n > 0; --n) {
        const std::uint64_t at = random_.chance(0.5)
                                     ? random_.between(layout.descriptorsAt, layout.tilesAt - 1)
                                     : random_.between(layout.tilesAt, layout.tailAt - 1);
        bad[at] ^= static_cast<std::byte>(1U << random_.below(8));
      }
      GuardedBuffer output(elements.size());
      const DecodeStatus expected = decodeFrame(bad, output.bytes());
      found |= 1U << static_cast<unsigned>(expected);
      const std::span<const std::byte> frame(bad);
      const Addend addends[] = {
          {{}, {}, elements.data()},
          {{frame.first(layout.staticBytes), frame.subspan(layout.staticBytes)}, spec, nullptr}};
      const ReduceResult alone =
          decodeReduce(spec.datatype, spec.elementCount, addends, 1.0F, output.bytes());
      for (CodecThreads* threads : {&two_, &five_}) {
        EXPECT_EQ(decodeFrame(bad, output.bytes(), threads), expected) << describe(expected);
        const ReduceResult shared =
            decodeReduce(spec.datatype, spec.elementCount, addends, 1.0F, output.bytes(), threads);
        EXPECT_EQ(shared.status, alone.status);
        EXPECT_EQ(shared.addend, alone.addend);
      }
      EXPECT_TRUE(output.isIntact());
    }
  }
  EXPECT_NE(found & 1U << static_cast<unsigned>(DecodeStatus::kBadDescriptor), 0U);
  EXPECT_NE(found & 1U << static_cast<unsigned>(DecodeStatus::kBadGroupOffset), 0U);
}

TEST_F(Threads, GiveTheSumsOfOne) {
  for (const Format& format : kFormats) {
    FrameSpec spec = someSpec(format);
    std::vector<Bytes> frames;
    std::vector<Addend> addends;
    const Bytes own = someElements(spec);
    for (int i = 0; i < 3; ++i) frames.push_back(encodeBy(nullptr, spec, someElements(spec)).frame);
    for (const Bytes& each : frames) {
      const std::span<const std::byte> frame(each);
      const std::uint64_t split = staticBytes(spec);
      addends.push_back({{frame.first(split), frame.subspan(split)}, spec, nullptr});
    }
    addends.insert(addends.begin() + static_cast<std::ptrdiff_t>(random_.below(4)),
                   Addend{{}, {}, own.data()});
    GuardedBuffer alone(own.size(), 0, 0x11);
    ASSERT_EQ(decodeReduce(spec.datatype, spec.elementCount, addends, 0.5F, alone.bytes()).status,
              DecodeStatus::kOk);
    for (CodecThreads* threads : {&two_, &five_}) {
      GuardedBuffer shared(own.size(), 0, 0x22);
      ASSERT_EQ(
          decodeReduce(spec.datatype, spec.elementCount, addends, 0.5F, shared.bytes(), threads)
              .status,
          DecodeStatus::kOk);
      EXPECT_TRUE(std::equal(alone.bytes().begin(), alone.bytes().end(), shared.bytes().begin()))
          << format << " count " << spec.elementCount << " by " << threads->count();
      EXPECT_TRUE(shared.isIntact());
    }
  }
}

TEST_F(Threads, StayInsideABufferThatIsTooSmall) {
  FrameSpec spec = specOf(kBfloat16Format, 3 * kChunkElements);
  spec.poolBytes = 256;
  const Bytes elements = someElements(spec);
  const Encoded whole = encodeBy(nullptr, spec, elements);
  ASSERT_GT(whole.result.dynamicBytes, 100'000U);
  for (const std::uint64_t missing : {std::uint64_t{1}, std::uint64_t{70'000},
                                      whole.result.dynamicBytes, whole.result.dynamicBytes + 1}) {
    GuardedBuffer frame(whole.frame.size() - missing);
    try {
      (void)encode(spec, elements.data(), frame.bytes(), {}, &five_);
      FAIL() << "nothing was thrown";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
      const std::uint64_t needed =
          missing > whole.result.dynamicBytes ? whole.result.staticBytes : whole.frame.size();
      EXPECT_NE(error.message().find(std::to_string(needed)), std::string::npos);
    }
    EXPECT_TRUE(frame.isIntact());
  }
  GuardedBuffer frame(whole.frame.size());
  EXPECT_EQ(encode(spec, elements.data(), frame.bytes(), {1, 2, 3, 4}, &five_).frameBytes(),
            whole.frame.size());
  EXPECT_TRUE(std::equal(whole.frame.begin(), whole.frame.end(), frame.bytes().begin()));
}

TEST_F(Threads, ServeCallsOfSeveralThreads) {
  const FrameSpec spec = specOf(kBfloat16Format, 2 * kChunkElements + 77);
  const Bytes elements = someElements(spec);
  const Bytes expected = encodeBy(nullptr, spec, elements).frame;
  std::atomic<int> wrong{0};
  std::vector<std::thread> callers;
  for (int caller = 0; caller < 4; ++caller) {
    callers.emplace_back([&] {
      Bytes frame(maxFrameBytes(spec.datatype, spec.elementCount));
      Bytes output(elements.size());
      for (int repeat = 0; repeat < 5; ++repeat) {
        const EncodeResult result = encode(spec, elements.data(), frame, {1, 2, 3, 4}, &two_);
        const std::span<const std::byte> used = std::span(frame).first(result.frameBytes());
        wrong += std::equal(used.begin(), used.end(), expected.begin(), expected.end()) ? 0 : 1;
        wrong +=
            decodeFrame(used, output, &two_) == DecodeStatus::kOk && output == elements ? 0 : 1;
      }
    });
  }
  for (std::thread& caller : callers) caller.join();
  EXPECT_EQ(wrong, 0);
}

TEST_F(Threads, TakeSmallBuffersToo) {
  for (const std::uint64_t count : {0U, 1U, 1023U, 1024U, 9000U}) {
    const FrameSpec spec = specOf(kFloat16Format, count);
    const Bytes elements = elementsOf(spec.datatype, mixedWords(spec.datatype, random_, count));
    const Encoded alone = encodeBy(nullptr, spec, elements);
    EXPECT_TRUE(encodeBy(&five_, spec, elements).frame == alone.frame);
    Bytes output(elements.size());
    EXPECT_EQ(decodeFrame(alone.frame, output, &five_), DecodeStatus::kOk);
    EXPECT_TRUE(output == elements);
  }
}

TEST(ThreadsOfTheCodec, AreAtLeastOne) {
  EXPECT_THROW(CodecThreads(0), Error);
  EXPECT_THROW(CodecThreads(CodecThreads::kMost + 1), Error);
  EXPECT_EQ(CodecThreads(1).count(), 1U);
  EXPECT_EQ(CodecThreads(3).count(), 3U);
}

TEST(ThreadsOfTheCodec, DealEachChunkOnce) {
  ChunkDealer dealer(3 * kChunkGroups + 1);
  ChunkDealer::Chunk chunk;
  std::uint64_t group = 0;
  for (std::uint64_t index = 0; index < 4; ++index) {
    ASSERT_TRUE(dealer.next(chunk));
    EXPECT_EQ(chunk.index, index);
    EXPECT_EQ(chunk.firstGroup, group);
    group = chunk.endGroup;
  }
  EXPECT_EQ(group, 3 * kChunkGroups + 1);
  EXPECT_FALSE(dealer.next(chunk));
}

TEST(ThreadsOfTheCodec, KeepTheLowestFault) {
  FirstFault<int> fault;
  EXPECT_FALSE(fault.isBefore(1'000'000));
  fault.add(7, 70);
  fault.add(9, 90);
  EXPECT_EQ(fault.get(), 70);
  fault.add(3, 30);
  EXPECT_EQ(fault.get(), 30);
  EXPECT_TRUE(fault.isBefore(4));
  EXPECT_FALSE(fault.isBefore(3));
}

}  // namespace
}  // namespace zipccl::codec::testing
