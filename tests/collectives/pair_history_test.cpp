// SPDX-License-Identifier: Apache-2.0
//
// The histories of a pair of ranks: both ends know the same when a message begins, whatever each of
// them has finished by then.

#include "collectives/pair_history.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <vector>

#include "policy/decide.hpp"
#include "support/seeded_test.hpp"

namespace zipccl::collectives {
namespace {

class PairHistories : public zipccl::testing::SeededTest {};

/// One end, which has a message open as long as the next ones may begin without its end.
struct End {
  explicit End(HistoryLag lag) : history(lag) {}

  PairHistory history;
  std::deque<std::size_t> open;
  std::size_t begun = 0;
};

TEST_F(PairHistories, OfBothEndsAgreeForAHundredThousandMessages) {
  constexpr std::size_t kMessages = 100'000;
  struct Message {
    std::optional<ClassKey> key;
    std::optional<policy::ExtraSpace> seen;
  };
  std::vector<Message> messages(kMessages);
  for (Message& message : messages) {
    const auto sizeClass = std::uint64_t{1} << random_.below(12);
    if (random_.chance(0.9)) {
      message.key =
          classOf(random_.chance(0.5) ? CollectiveKind::kSendRecv : CollectiveKind::kAlltoAllv,
                  random_.chance(0.5) ? Datatype::kBfloat16 : Datatype::kFloat32, sizeClass);
      if (random_.chance(0.7)) message.seen = {random_.below(10'000), random_.below(10'000)};
    }
  }
  constexpr HistoryLag kOfNccl{.messages = 8, .settling = 3, .sendsAndReceives = 32};
  for (const HistoryLag lag : {HistoryLag{}, kOfNccl}) {
    std::vector<policy::ClassStatistics> atBegin(kMessages);
    std::size_t differ = 0;
    std::size_t mostOpen = 0;
    for (const bool isFirstEnd : {true, false}) {
      End end(lag);
      while (end.begun < kMessages || !end.open.empty()) {
        const bool mayBegin =
            end.begun < kMessages && end.history.mayBegin(messages[end.begun].key);
        EXPECT_EQ(end.history.hasOpen(), !end.open.empty());
        ASSERT_TRUE(mayBegin || !end.open.empty()) << "nothing is open, and nothing may begin";
        if (mayBegin && (end.open.empty() || random_.chance(0.6))) {
          const std::size_t number = end.begun++;
          const PairHistory::Message begun = end.history.begin(messages[number].key);
          ASSERT_EQ(begun.number, number);
          ASSERT_EQ(begun.entry != nullptr, messages[number].key.has_value());
          end.open.push_back(number);
          mostOpen = std::max(mostOpen, end.open.size());
          if (begun.entry == nullptr) continue;
          if (isFirstEnd) {
            atBegin[number] = begun.entry->statistics;
          } else if (begun.entry->statistics != atBegin[number]) {
            ++differ;
          }
          continue;
        }
        // Native messages may end before earlier ones do.
        const std::size_t at = random_.below(end.open.size());
        const std::size_t number = end.open[at];
        end.open.erase(end.open.begin() + static_cast<std::ptrdiff_t>(at));
        const Message& message = messages[number];
        if (message.seen) {
          end.history.endStaged(number, *message.seen);
        } else if (number % 3 == 0) {
          end.history.endUnseen(number);
        } else {
          end.history.endNative(number);
        }
      }
    }
    EXPECT_EQ(differ, 0U);
    EXPECT_GE(mostOpen, lag.messages);
    EXPECT_LE(mostOpen, lag.sendsAndReceives);
  }
}

TEST_F(PairHistories, LetSendsAndReceivesRunAhead) {
  PairHistory history(HistoryLag{.messages = 8, .settling = 3, .sendsAndReceives = 32});
  const ClassKey alone = classOf(CollectiveKind::kSendRecv, Datatype::kBfloat16, 5000);
  const ClassKey other = classOf(CollectiveKind::kAlltoAll, Datatype::kBfloat16, 5000);
  for (std::uint64_t number = 0; number < 32; ++number) {
    ASSERT_TRUE(history.mayBegin(alone)) << number;
    EXPECT_EQ(history.begin(alone).entry->statistics.observed, 0U);
    EXPECT_EQ(history.mayBegin(other), number < 7);
  }
  EXPECT_FALSE(history.mayBegin(alone));
  history.endStaged(0, {.narrow = 1, .wide = 1});
  EXPECT_TRUE(history.mayBegin(alone));
  EXPECT_EQ(history.begin(alone).entry->statistics.observed, 1U);
}

TEST_F(PairHistories, TakeEffectAfterTheLag) {
  constexpr HistoryLag kLag{};
  PairHistory history;
  const ClassKey key = classOf(CollectiveKind::kAlltoAll, Datatype::kBfloat16, 5000);
  for (std::uint64_t number = 0; number < 10; ++number) {
    const policy::ClassStatistics seen = history.begin(key).entry->statistics;
    EXPECT_EQ(seen.observed, number < kLag.messages
                                 ? 0U
                                 : std::min<std::uint64_t>(number - kLag.messages + 1,
                                                           policy::ClassStatistics::kWindow));
    if (number >= kLag.messages) {
      EXPECT_EQ(seen.largest().narrow, 100 + number - kLag.messages);
    }
    history.endStaged(number, {.narrow = 100 + number, .wide = 0});
  }
}

TEST_F(PairHistories, LearnOfANewClassAtOnce) {
  PairHistory history(HistoryLag{.messages = 8, .settling = 3});
  const ClassKey known = classOf(CollectiveKind::kAllGather, Datatype::kBfloat16, 5000);
  const ClassKey other = classOf(CollectiveKind::kAllGather, Datatype::kFloat32, 5000);
  for (std::uint64_t number = 0; number < 3; ++number) {
    EXPECT_EQ(history.begin(known).entry->statistics.observed, number);
    EXPECT_FALSE(history.mayBegin(known));
    EXPECT_TRUE(history.mayBegin(other));
    history.endStaged(number, {.narrow = 1, .wide = 1});
  }
  // Three have ended, of which the next one counts the last: then up to seven may be open.
  std::uint64_t number = 3;
  for (; number < 11; ++number) {
    ASSERT_TRUE(history.mayBegin(known)) << number;
    EXPECT_EQ(history.begin(known).entry->statistics.observed, 3U);
  }
  EXPECT_FALSE(history.mayBegin(known));
  EXPECT_FALSE(history.mayBegin(other));
  history.endNative(3);
  EXPECT_TRUE(history.mayBegin(known));
  // A new class waits for no other class than the lag asks for.
  EXPECT_TRUE(history.mayBegin(other));
}

}  // namespace
}  // namespace zipccl::collectives
