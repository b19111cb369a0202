// SPDX-License-Identifier: Apache-2.0
//
// The parts that collectives are made of: geometry, note and seal, class table, scratch.

#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <optional>
#include <vector>
#include <zipccl/codec.hpp>

#include "codec/layout.hpp"
#include "collectives/class_table.hpp"
#include "collectives/frame_geometry.hpp"
#include "collectives/frame_note.hpp"
#include "collectives/host_codec.hpp"
#include "collectives/scratch.hpp"
#include "forwarding_codec.hpp"
#include "policy/chunks.hpp"
#include "support/seeded_test.hpp"

namespace zipccl::collectives {
namespace {

class FrameGeometryTest : public zipccl::testing::SeededTest {};

TEST_F(FrameGeometryTest, PolicyAndCodecAgreeOnSizes) {
  using policy::FrameLayout;
  constexpr std::pair<FrameLayout, codec::Layout> kLayouts[] = {
      {FrameLayout::kNarrow, codec::Layout::kNarrow}, {FrameLayout::kWide, codec::Layout::kWide}};
  for (const codec::Datatype datatype : codec::kDatatypes) {
    const policy::FrameGeometry geometry = frameGeometry(datatype);
    for (int round = 0; round < 5000; ++round) {
      const std::uint64_t count = random_.below(std::uint64_t{1} << random_.between(1, 40));
      SCOPED_TRACE(count);
      ASSERT_GE(policy::frameBoundBytes(geometry, count),
                codec::alignUp(codec::maxFrameBytes(datatype, count), 128));
      for (const auto& [policyLayout, codecLayout] : kLayouts) {
        if (geometry.tileBytes(policyLayout) == 0) continue;
        const std::uint64_t tiles = count / geometry.tileElements;
        const std::uint64_t extraBytes =
            random_.below(tiles * geometry.maxExtraBytes(policyLayout) / 16 + 1) * 16;
        policy::ClassStatistics statistics;
        ASSERT_EQ(policy::poolBytes(geometry, policyLayout, statistics, count),
                  codec::defaultPoolBytes(datatype, codecLayout, count));
        if (random_.chance(0.7)) {
          policy::CallObservation observation(geometry);
          observation.add({.layout = policyLayout, .tileCount = tiles, .extraBytes = extraBytes});
          statistics = policy::afterStaged({}, observation.extra());
        }
        const codec::FrameSpec spec{datatype, codecLayout, count,
                                    policy::poolBytes(geometry, policyLayout, statistics, count),
                                    false};
        ASSERT_LE(spec.poolBytes, codec::maxPoolBytes(datatype, codecLayout, count));
        ASSERT_GE(policy::staticBoundBytes(geometry, policyLayout, statistics, count),
                  codec::staticBytes(spec));
      }
    }
  }
}

TEST_F(FrameGeometryTest, PolicyAndCodecAgreeOnSteadyPools) {
  const policy::FrameGeometry geometry = frameGeometry(codec::Datatype::kBfloat16);
  for (int round = 0; round < 5000; ++round) {
    // Whole bytes a tile: then the policy's fixed point is exact.
    const std::uint64_t tiles = random_.between(1, 1 << 20);
    const std::uint64_t extraBytes = tiles * random_.below(641);
    policy::CallObservation observation(geometry);
    observation.add({.tileCount = tiles, .extraBytes = extraBytes});
    const policy::ClassStatistics statistics = policy::afterStaged({}, observation.extra());
    ASSERT_EQ(policy::poolBytes(geometry, policy::FrameLayout::kNarrow, statistics, tiles * 1024),
              codec::steadyPoolBytes(codec::Datatype::kBfloat16, codec::Layout::kNarrow,
                                     tiles * 1024, extraBytes))
        << tiles << " tiles, " << extraBytes << " bytes";
  }
}

std::vector<std::byte> sealedFrame() {
  const codec::FrameSpec spec{.elementCount = 3000, .poolBytes = 128, .checksum = true};
  const std::vector<std::uint16_t> elements(3000, 0x3C12);
  std::vector<std::byte> frame(codec::maxFrameBytes(spec.datatype, spec.elementCount));
  static_cast<void>(codec::encode(spec, elements.data(), frame));
  sealHeader(frame, {.lowTiles = 1, .call = 77, .chunk = 5});
  return frame;
}

TEST(FrameNote, TravelsInAHeaderThatStaysValid) {
  const std::vector<std::byte> frame = sealedFrame();
  codec::FrameHeader header;
  ASSERT_EQ(codec::readHeader(frame, header), codec::DecodeStatus::kOk);
  EXPECT_EQ(readNote(header.application), (FrameNote{.lowTiles = 1, .call = 77, .chunk = 5}));
  EXPECT_TRUE(isSealIntact(frame));
}

TEST(FrameNote, SealBreaksWithAnyBitOfTheHeader) {
  std::vector<std::byte> frame = sealedFrame();
  for (std::size_t bit = 0; bit < 8 * codec::kHeaderBytes; ++bit) {
    const std::byte mask{static_cast<unsigned char>(1U << bit % 8)};
    frame[bit / 8] ^= mask;
    EXPECT_FALSE(isSealIntact(frame)) << "bit " << bit;
    frame[bit / 8] ^= mask;
  }
  EXPECT_TRUE(isSealIntact(frame));
}

TEST(FrameNote, HasNoSealInLessThanAHeader) {
  const std::vector<std::byte> frame = sealedFrame();
  EXPECT_FALSE(isSealIntact(std::span(frame).first(codec::kHeaderBytes - 1)));
  EXPECT_FALSE(isSealIntact({}));
}

TEST(ClassTable, KeepsStatisticsByClass) {
  ClassTable table;
  const ClassKey small = classOf(CollectiveKind::kAllGather, Datatype::kBfloat16, 1000);
  const ClassKey large = classOf(CollectiveKind::kAllGather, Datatype::kBfloat16, 2000);
  EXPECT_EQ(small, classOf(CollectiveKind::kAllGather, Datatype::kBfloat16, 1023));
  EXPECT_NE(small, classOf(CollectiveKind::kAllGather, Datatype::kFloat32, 1000));
  EXPECT_NE(small, large);
  table.use(small, 1).statistics.nativeStreak = 5;
  table.use(large, 2).statistics.nativeStreak = 7;
  EXPECT_EQ(table.use(small, 3).statistics.nativeStreak, 5U);
  EXPECT_EQ(table.use(large, 4).statistics.nativeStreak, 7U);
  EXPECT_EQ(table.classCount(), 2U);
}

ClassKey numbered(std::size_t number) {
  ClassKey key = classOf(CollectiveKind::kAllGather, static_cast<Datatype>(number / 40), 0);
  key.sizeClass = static_cast<std::uint8_t>(number % 40);
  return key;
}

TEST(ClassTable, ForgetsTheClassNotUsedForLongest) {
  ClassTable table;
  std::uint64_t call = 0;
  for (std::size_t i = 0; i < ClassTable::kMaxClasses; ++i) {
    table.use(numbered(i), call++).statistics.nativeStreak = i + 1;
  }
  EXPECT_EQ(table.use(numbered(0), call++).statistics.nativeStreak, 1U);
  EXPECT_EQ(table.use(numbered(1000), call++).statistics.nativeStreak, 0U);
  EXPECT_EQ(table.classCount(), ClassTable::kMaxClasses);
  EXPECT_EQ(table.use(numbered(0), call++).statistics.nativeStreak, 1U);
  EXPECT_EQ(table.use(numbered(2), call++).statistics.nativeStreak, 3U);
  EXPECT_EQ(table.use(numbered(1), call++).statistics.nativeStreak, 0U) << "it was forgotten";
}

/// One rank that moves nothing, and may or may not be done with buffers.
class NoTransport final : public transport::Transport {
 public:
  NoTransport() : Transport(0, 1) {}
  [[nodiscard]] std::string_view name() const noexcept override { return "none"; }
  [[nodiscard]] bool hasFailed() const noexcept override { return false; }
  [[nodiscard]] std::optional<Error> failure() const override { return std::nullopt; }
  [[nodiscard]] bool mayStillTouchBuffers() const noexcept override { return touchesBuffers; }

  bool touchesBuffers = false;

 private:
  [[nodiscard]] transport::Request doStartAllGather(const void*, void*, std::size_t,
                                                    transport::StreamHandle) override {
    return {};
  }
  [[nodiscard]] transport::Request doStartBroadcast(void*, std::size_t, int,
                                                    transport::StreamHandle) override {
    return {};
  }
  [[nodiscard]] transport::Request doStartExchange(std::span<const transport::SendMessage>,
                                                   std::span<const transport::ReceiveMessage>,
                                                   transport::StreamHandle) override {
    return {};
  }
  void doBarrier() override {}
  void doAllGatherControl(std::span<const std::byte>, std::span<std::byte>,
                          std::chrono::milliseconds) override {}
  void doAbort(std::string_view) noexcept override {}
};

/// Gives out memory of its own and notes what comes back.
class CountingCodec final : public testing::ForwardingCodec {
 public:
  [[nodiscard]] std::byte* allocate(std::uint64_t bytes) override {
    return memory_.emplace_back(bytes).data();
  }
  void release(std::byte*, std::uint64_t) noexcept override { ++releaseCount; }

  int releaseCount = 0;

 private:
  std::deque<std::vector<std::byte>> memory_;
};

TEST(Scratch, IsGivenBackUnlessTheTransportMayStillWriteToIt) {
  for (const bool touchesBuffers : {false, true}) {
    CountingCodec codec;
    NoTransport transport;
    {
      Scratch scratch(codec, transport, 1000);
      static_cast<void>(scratch.reserve(100));
      transport.touchesBuffers = touchesBuffers;
      static_cast<void>(scratch.reserve(200));
    }
    EXPECT_EQ(codec.releaseCount, touchesBuffers ? 0 : 2);
  }
}

TEST(Scratch, GrowsToWhatIsNeededAndNeverBeyondItsBound) {
  const std::unique_ptr<FrameCodec> codec = makeHostCodec();
  const NoTransport transport;
  Scratch scratch(*codec, transport, 10'000);
  EXPECT_EQ(scratch.heldBytes(), 0U);
  const std::span<std::byte> first = scratch.reserve(4000);
  EXPECT_EQ(first.size(), 4000U);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(first.data()) % 128, 0U);
  const std::span<std::byte> again = scratch.reserve(100);
  EXPECT_EQ(again.data(), first.data());
  EXPECT_EQ(scratch.heldBytes(), 4000U);
  EXPECT_EQ(scratch.reserve(10'000).size(), 10'000U);
  try {
    static_cast<void>(scratch.reserve(10'001));
    FAIL() << "above the bound";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInternalError);
  }
  EXPECT_EQ(scratch.heldBytes(), 10'000U);
}

}  // namespace
}  // namespace zipccl::collectives
