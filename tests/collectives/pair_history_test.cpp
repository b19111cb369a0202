// SPDX-License-Identifier: Apache-2.0
//
// The histories of a pair of ranks: both ends know the same when a message begins, whatever each of
// them has finished by then.

#include "collectives/pair_history.hpp"

#include <gtest/gtest.h>

#include <deque>
#include <vector>

#include "policy/decide.hpp"
#include "support/seeded_test.hpp"

namespace zipccl::collectives {
namespace {

class PairHistories : public zipccl::testing::SeededTest {};

/// One end, which may have up to kLag messages open.
struct End {
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
  std::vector<policy::ClassStatistics> atBegin(kMessages);
  std::size_t differ = 0;
  for (const bool isFirstEnd : {true, false}) {
    End end;
    while (end.begun < kMessages || !end.open.empty()) {
      const bool mayBegin = end.begun < kMessages && end.open.size() < PairHistory::kLag;
      if (mayBegin && (end.open.empty() || random_.chance(0.5))) {
        const std::size_t number = end.begun++;
        const PairHistory::Message begun = end.history.begin(messages[number].key);
        ASSERT_EQ(begun.number, number);
        ASSERT_EQ(begun.entry != nullptr, messages[number].key.has_value());
        end.open.push_back(number);
        if (begun.entry == nullptr) continue;
        if (isFirstEnd) {
          atBegin[number] = begun.entry->statistics;
        } else if (begun.entry->statistics != atBegin[number]) {
          ++differ;
        }
        continue;
      }
      const Message& message = messages[end.open.front()];
      end.open.pop_front();
      message.seen ? end.history.endStaged(*message.seen) : end.history.endNative();
    }
  }
  EXPECT_EQ(differ, 0U);
}

TEST_F(PairHistories, TakeEffectAfterTheLag) {
  PairHistory history;
  const ClassKey key = classOf(CollectiveKind::kAlltoAll, Datatype::kBfloat16, 5000);
  for (std::uint64_t number = 0; number < 10; ++number) {
    const policy::ClassStatistics seen = history.begin(key).entry->statistics;
    EXPECT_EQ(seen.observed, number < PairHistory::kLag
                                 ? 0U
                                 : std::min<std::uint64_t>(number - PairHistory::kLag + 1,
                                                           policy::ClassStatistics::kWindow));
    if (number >= PairHistory::kLag) {
      EXPECT_EQ(seen.largest().narrow, 100 + number - PairHistory::kLag);
    }
    history.endStaged({.narrow = 100 + number, .wide = 0});
  }
}

}  // namespace
}  // namespace zipccl::collectives
