// SPDX-License-Identifier: Apache-2.0
//
// The ring of an all-gather, for random counts of ranks and sizes: played with bytes, by ranks that
// go on in any order and have any number of messages in flight.

#include "transport/ring_schedule.hpp"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <deque>
#include <vector>

#include "support/seeded_test.hpp"

namespace zipccl::transport {
namespace {

using Bytes = std::vector<std::byte>;

std::byte byteOf(std::uint64_t rank, std::uint64_t at) {
  return static_cast<std::byte>(rank * 101 + at * 7 + at / 251);
}

/// A rank of the ring: what it holds, and how far it is.
struct Rank {
  RingSchedule schedule;
  Bytes blocks;
  std::vector<bool> isThere;  ///< of each byte of `blocks`
  std::uint64_t sentCount = 0;
  std::uint64_t receivedCount = 0;
  std::deque<Bytes> arriving;  ///< from its left neighbour

  [[nodiscard]] bool maySend() const {
    return sentCount != schedule.pieceCount() &&
           schedule.receivedBefore(sentCount) <= receivedCount;
  }
};

class RingScheduleTest : public zipccl::testing::SeededTest {
 protected:
  static std::vector<Rank> makeRanks(int rankCount, std::uint64_t blockBytes,
                                     std::uint64_t pieceBytes) {
    const auto count = static_cast<std::uint64_t>(rankCount);
    std::vector<Rank> ranks;
    for (int rank = 0; rank < rankCount; ++rank) {
      const auto own = static_cast<std::uint64_t>(rank) * blockBytes;
      Rank made{.schedule = RingSchedule(rank, rankCount, blockBytes, pieceBytes),
                .blocks = Bytes(count * blockBytes, std::byte{0xA5}),
                .isThere = std::vector<bool>(count * blockBytes, false),
                .arriving = {}};
      for (std::uint64_t at = 0; at < blockBytes; ++at) {
        made.blocks[own + at] = byteOf(static_cast<std::uint64_t>(rank), at);
        made.isThere[own + at] = true;
      }
      ranks.push_back(std::move(made));
    }
    return ranks;
  }

  static void send(std::vector<Rank>& ranks, Rank& from) {
    const RingSchedule::Piece piece = from.schedule.sent(from.sentCount++);
    ASSERT_GT(piece.bytes, 0U);
    ASSERT_LE(piece.at + piece.bytes, from.blocks.size());
    for (std::uint64_t at = piece.at; at < piece.at + piece.bytes; ++at) {
      ASSERT_TRUE(from.isThere[at]) << "sends byte " << at << ", which it has not got";
    }
    const std::byte* const first = from.blocks.data() + piece.at;
    ranks[static_cast<std::size_t>(from.schedule.right())].arriving.emplace_back(
        first, first + piece.bytes);
  }

  static void receive(Rank& rank) {
    const RingSchedule::Piece piece = rank.schedule.received(rank.receivedCount++);
    const Bytes& message = rank.arriving.front();
    ASSERT_EQ(message.size(), piece.bytes);
    ASSERT_LE(piece.at + piece.bytes, rank.blocks.size());
    std::memcpy(rank.blocks.data() + piece.at, message.data(), message.size());
    for (std::uint64_t at = piece.at; at < piece.at + piece.bytes; ++at) {
      ASSERT_FALSE(rank.isThere[at]) << "byte " << at << " comes twice";
      rank.isThere[at] = true;
    }
    rank.arriving.pop_front();
  }

  /// Lets ranks go on in a random order, with at most `window` messages on each link, until none
  /// can.
  void play(std::vector<Rank>& ranks, std::uint64_t window) {
    for (;;) {
      std::vector<std::size_t> senders;
      std::vector<std::size_t> receivers;
      for (std::size_t r = 0; r < ranks.size(); ++r) {
        const Rank& right = ranks[static_cast<std::size_t>(ranks[r].schedule.right())];
        if (ranks[r].maySend() && right.arriving.size() < window) senders.push_back(r);
        if (!ranks[r].arriving.empty()) receivers.push_back(r);
      }
      if (senders.empty() && receivers.empty()) return;
      const bool sends = receivers.empty() || (!senders.empty() && random_.chance(0.5));
      std::vector<std::size_t>& able = sends ? senders : receivers;
      Rank& rank = ranks[able[random_.below(able.size())]];
      if (sends) {
        send(ranks, rank);
      } else {
        receive(rank);
      }
      if (HasFatalFailure()) return;
    }
  }
};

TEST_F(RingScheduleTest, BringsEachBlockToEachRankOnceInAnyOrderOfEvents) {
  for (int round = 0; round < 300; ++round) {
    const int rankCount = 2 + static_cast<int>(random_.below(7));
    const std::uint64_t blockBytes = 1 + random_.below(200);
    const std::uint64_t pieceBytes = 1 + random_.below(random_.chance(0.5) ? 20 : 400);
    const std::uint64_t window = 1 + random_.below(4);
    SCOPED_TRACE(::testing::Message()
                 << rankCount << " ranks, blocks of " << blockBytes << " bytes, pieces of "
                 << pieceBytes << ", " << window << " in flight");
    std::vector<Rank> ranks = makeRanks(rankCount, blockBytes, pieceBytes);
    play(ranks, window);
    ASSERT_FALSE(HasFatalFailure());
    for (const Rank& rank : ranks) {
      EXPECT_EQ(rank.sentCount, rank.schedule.pieceCount());
      EXPECT_EQ(rank.receivedCount, rank.schedule.pieceCount());
      for (std::uint64_t at = 0; at < rank.blocks.size(); ++at) {
        ASSERT_TRUE(rank.isThere[at]);
        ASSERT_EQ(rank.blocks[at], byteOf(at / blockBytes, at % blockBytes)) << "byte " << at;
      }
    }
  }
}

TEST_F(RingScheduleTest, HandsAPieceOnAsSoonAsItIsThere) {
  for (int round = 0; round < 300; ++round) {
    const int rankCount = 2 + static_cast<int>(random_.below(7));
    const RingSchedule schedule(static_cast<int>(random_.below(static_cast<unsigned>(rankCount))),
                                rankCount, 1 + random_.below(5000), 1 + random_.below(700));
    for (std::uint64_t number = 0; number < schedule.pieceCount(); ++number) {
      const std::uint64_t needed = schedule.receivedBefore(number);
      if (needed != 0) {
        EXPECT_EQ(schedule.sent(number), schedule.received(needed - 1));
      }
    }
  }
}

/// Sizes that no memory holds.
TEST_F(RingScheduleTest, CountsBeyondWhatAnIntHolds) {
  const std::uint64_t blockBytes = (std::uint64_t{1} << 40) + 3;
  const std::uint64_t pieceBytes = std::uint64_t{1} << 18;
  const RingSchedule schedule(0, 4, blockBytes, pieceBytes);
  const std::uint64_t piecesOfBlock = (std::uint64_t{1} << 22) + 1;
  EXPECT_EQ(schedule.pieceCount(), 3 * piecesOfBlock);
  EXPECT_EQ(schedule.sent(schedule.pieceCount() - 1),
            (RingSchedule::Piece{.at = 3 * blockBytes - 3, .bytes = 3}));
  EXPECT_EQ(schedule.received(0), (RingSchedule::Piece{.at = 3 * blockBytes, .bytes = pieceBytes}));
}

}  // namespace
}  // namespace zipccl::transport
