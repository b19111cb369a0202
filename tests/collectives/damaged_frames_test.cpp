// SPDX-License-Identifier: Apache-2.0
//
// Frames that are damaged on their way: with the checksum on, every rank gets the right bits or an
// error that names the sender, all ranks end, and none waits for ever.

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <string>
#include <vector>

#include "all_gather_check.hpp"
#include "codec/layout.hpp"
#include "damaging_transport.hpp"
#include "local_group.hpp"
#include "log_capture.hpp"
#include "support/seeded_test.hpp"

namespace zipccl::collectives {
namespace {

using testing::AllGatherCase;
using testing::checkAllGather;
using testing::Content;
using testing::Damage;
using testing::LocalGroup;
using testing::makeShards;
using testing::RankErrors;
using testing::Shard;
using testing::testSettings;

constexpr int kRanks = 3;
constexpr int kSender = 1;

CommunicatorSettings checkedSettings() {
  CommunicatorSettings settings = testSettings();
  settings.agreed.checksum = true;
  return settings;
}

void flipBit(std::span<std::byte> bytes, std::uint64_t bit) {
  bytes[bit / 8] ^= std::byte{static_cast<unsigned char>(1U << bit % 8)};
}

/// Damages what kSender sends in all-gather number `index`.
Damage onSend(int index, const std::function<void(std::span<std::byte>)>& change) {
  return {.onSend =
              [=](int rank, int at, std::span<std::byte> sent) {
                if (rank == kSender && at == index) change(sent);
              },
          .onReceive = {}};
}

/// Damages what `receiver` gets from kSender in all-gather number `index`.
Damage onReceive(int receiver, int index, const std::function<void(std::span<std::byte>)>& change) {
  return {.onSend = {},
          .onReceive = [=](int rank, int at, std::span<std::byte> received, std::size_t bytes) {
            if (rank == receiver && at == index) change(received.subspan(kSender * bytes, bytes));
          }};
}

class DamagedFrames : public zipccl::testing::SeededTest {
 protected:
  /// Makes calls on a fresh group until they fail, at most three; every result that came is
  /// compared. Returns the first error of each rank.
  RankErrors callUntilFailure(const Damage& damage, AllGatherCase test,
                              const CommunicatorSettings& settings = checkedSettings()) {
    LocalGroup group(kRanks, settings, [&](std::unique_ptr<transport::Transport> inner) {
      return testing::damage(std::move(inner), damage);
    });
    test.seed = random_();
    const std::vector<Shard> shards = makeShards(test, kRanks);
    const RankErrors errors = group.run([&](Communicator& communicator) {
      for (int call = 0; call < 3; ++call) checkAllGather(communicator, test, shards);
    });
    bool anyFailed = false;
    for (const std::optional<Error>& error : errors) anyFailed = anyFailed || error.has_value();
    for (int rank = 0; rank < kRanks && anyFailed; ++rank) {
      EXPECT_TRUE(errors[static_cast<std::size_t>(rank)])
          << "rank " << rank << " made all its calls though another rank failed";
      EXPECT_TRUE(group[rank].asyncError()) << "rank " << rank;
    }
    return errors;
  }

  /// At least one rank names the sender's damaged frame; the others were ended by that rank.
  static void expectDamageFound(const RankErrors& errors) {
    for (const std::optional<Error>& error : errors) {
      ASSERT_TRUE(error);
      EXPECT_EQ(error->code(), ErrorCode::kRemoteError) << error->what();
      EXPECT_NE(error->message().find("the frame of rank 1 (call 0, chunk 0) is damaged: "),
                std::string::npos)
          << error->what();
    }
  }
};

TEST_F(DamagedFrames, EveryHeaderBitIsProtected) {
  const AllGatherCase test{.elementCount = 1500};
  // Every fourth bit, other ones each time; a group of its own for each.
  constexpr std::uint64_t kStep = testing::kIsThreadSanitized ? 40 : 4;
  for (std::uint64_t bit = random_.below(kStep); bit < 8 * codec::kHeaderBytes; bit += kStep) {
    SCOPED_TRACE(::testing::Message() << "bit " << bit);
    const auto flip = [&](std::span<std::byte> frame) { flipBit(frame, bit); };
    expectDamageFound(callUntilFailure(onReceive(2, 0, flip), test));
    if (HasFailure()) return;
  }
}

TEST_F(DamagedFrames, ADamagedSenderIsFoundByAllReceivers) {
  const AllGatherCase test{.elementCount = 20'000};
  const codec::FrameLayout layout =
      codec::frameLayout(codec::Datatype::kBfloat16, codec::Layout::kNarrow, 20'000, 0);
  for (int round = 0; round < static_cast<int>(testing::scaled(30)); ++round) {
    const std::uint64_t bit = 8 * layout.descriptorsAt + random_.below(8 * 4 * layout.tileCount);
    SCOPED_TRACE(::testing::Message() << "descriptor bit " << bit);
    const RankErrors errors =
        callUntilFailure(onSend(0, [&](std::span<std::byte> f) { flipBit(f, bit); }), test);
    expectDamageFound(errors);
    if (HasFailure()) return;
  }
}

TEST_F(DamagedFrames, DescriptorsDamagedForOneReceiverEndAllRanks) {
  const AllGatherCase test{
      .datatype = Datatype::kFloat32, .elementCount = 20'000, .contents = {Content::kWidened}};
  const codec::FrameLayout layout =
      codec::frameLayout(codec::Datatype::kFloat32, codec::Layout::kNarrow, 20'000, 0);
  for (int round = 0; round < static_cast<int>(testing::scaled(30)); ++round) {
    const std::uint64_t bit = 8 * layout.descriptorsAt + random_.below(8 * 4 * layout.tileCount);
    SCOPED_TRACE(::testing::Message() << "descriptor bit " << bit);
    const auto flip = [&](std::span<std::byte> frame) { flipBit(frame, bit); };
    expectDamageFound(callUntilFailure(onReceive(0, 0, flip), test));
    if (HasFailure()) return;
  }
}

TEST_F(DamagedFrames, AnyDamageGivesTheRightBitsOrAnError) {
  int found = 0;
  constexpr int kRounds = static_cast<int>(testing::scaled(150));
  for (int round = 0; round < kRounds; ++round) {
    const AllGatherCase test{
        .datatype = random_.chance(0.5) ? Datatype::kBfloat16 : Datatype::kFloat32,
        .elementCount = 10'000,
        .contents = {random_.chance(0.5) ? Content::kManyEscapes : Content::kPatchwork}};
    // All-gather 0 carries static parts, 1 dynamic parts.
    const int index = static_cast<int>(random_.below(2));
    const std::uint64_t place = random_();
    const std::uint64_t flips = random_.between(1, 40);
    const std::uint64_t seed = random_();
    const auto change = [=](std::span<std::byte> bytes) {
      Random random(seed);
      for (std::uint64_t i = 0; i < flips; ++i) {
        flipBit(bytes, (place + random.below(200)) % (8 * bytes.size()));
      }
    };
    SCOPED_TRACE(::testing::Message() << "round " << round);
    const RankErrors errors = callUntilFailure(
        random_.chance(0.5) ? onSend(index, change) : onReceive(2, index, change), test);
    found += errors[2] ? 1 : 0;
    if (HasFailure()) return;
  }
  EXPECT_GT(found, kRounds / 2) << "most damage must be found, or the test damages nothing";
}

TEST_F(DamagedFrames, ContentDamageIsFoundByTheChecksumOnly) {
  const AllGatherCase test{.elementCount = 8192};
  const codec::FrameLayout layout =
      codec::frameLayout(codec::Datatype::kBfloat16, codec::Layout::kNarrow, 8192, 0);
  const auto flip = [&](std::span<std::byte> frame) { flipBit(frame, 8 * layout.tilesAt + 5); };
  const RankErrors errors = callUntilFailure(onReceive(2, 0, flip), test);
  expectDamageFound(errors);
  EXPECT_NE(errors[2]->message().find(codec::describe(codec::DecodeStatus::kChecksumMismatch)),
            std::string::npos)
      << errors[2]->what();

  std::atomic<bool> wasFlipped = false;
  LocalGroup unchecked(kRanks, testSettings(), [&](std::unique_ptr<transport::Transport> inner) {
    return testing::damage(std::move(inner), onReceive(2, 0, [&](std::span<std::byte> frame) {
                             flip(frame);
                             wasFlipped = true;
                           }));
  });
  const std::vector<Shard> shards = makeShards(test, kRanks);
  unchecked.runAll([&](Communicator& communicator) {
    const auto rank = static_cast<std::size_t>(communicator.rank());
    std::vector<std::byte> receive(kRanks * shards[0].size());
    communicator.allGather(shards[rank].data(), receive.data(), 8192, Datatype::kBfloat16);
    const bool isRight = std::memcmp(receive.data() + shards[0].size(), shards[kSender].data(),
                                     shards[0].size()) == 0;
    EXPECT_EQ(isRight, rank != 2);
  });
  EXPECT_TRUE(wasFlipped);
}

TEST_F(DamagedFrames, AForgedHeaderThatDisagreesIsAnErrorOfUse) {
  // A sound frame of another call: replayed by a sender that is one call behind.
  std::vector<std::byte> firstFrame;
  const Damage replay{.onSend =
                          [&](int rank, int index, std::span<std::byte> sent) {
                            if (rank != kSender) return;
                            if (index == 0) firstFrame.assign(sent.begin(), sent.end());
                            if (index == 1) {
                              ASSERT_EQ(sent.size(), firstFrame.size());
                              std::copy(firstFrame.begin(), firstFrame.end(), sent.begin());
                            }
                          },
                      .onReceive = {}};
  const RankErrors errors = callUntilFailure(replay, {.elementCount = 900});
  for (const std::optional<Error>& error : errors) {
    ASSERT_TRUE(error);
    EXPECT_NE(error->message().find("rank 1 is in chunk 0 of call 0 while rank"), std::string::npos)
        << error->what();
  }
}

TEST_F(DamagedFrames, TheLogSaysWhichRankFoundIt) {
  const int before = testing::countInLog("a collective failed: ");
  const auto flip = [](std::span<std::byte> frame) { flipBit(frame, 3); };
  static_cast<void>(callUntilFailure(onReceive(2, 0, flip), {.elementCount = 100}));
  EXPECT_EQ(testing::countInLog("a collective failed: "), before + 1);
  EXPECT_GE(testing::countInLog("rank 2 of 3: a collective failed: "), 1);
}

}  // namespace
}  // namespace zipccl::collectives
