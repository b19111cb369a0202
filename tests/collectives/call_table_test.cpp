// SPDX-License-Identifier: Apache-2.0
//
// The table of calls as text: numbers, ratios, what does not fit, and the file that comes of it.

#include "collectives/call_table.hpp"

#include <gtest/gtest.h>
#include <zipccl/version.h>

#include <array>
#include <cstdint>
#include <limits>
#include <string>

#include "support/seeded_test.hpp"

namespace zipccl::collectives {
namespace {

__extension__ typedef unsigned __int128 Wide;

std::string ratioText(std::uint64_t numerator, std::uint64_t denominator) {
  std::array<char, 64> memory{};
  return std::string(SignalSafeText(memory).ratio(numerator, denominator).text());
}

CallOutcome outcomeOf(CollectiveKind collective, Datatype datatype) {
  CallOutcome outcome;
  outcome.collective = collective;
  outcome.datatype = datatype;
  outcome.inputBytes = 1000;
  return outcome;
}

TEST(SignalSafeText, WritesNumbersAndNames) {
  std::array<char, 128> memory{};
  SignalSafeText text(memory);
  text << std::uint64_t{0} << " " << std::numeric_limits<std::uint64_t>::max() << " "
       << std::int64_t{-7} << " " << std::numeric_limits<std::int64_t>::min() << " ";
  text.quoted("a\"b\\c\nd\xC3 ~");
  EXPECT_EQ(text.text(), "0 18446744073709551615 -7 -9223372036854775808 \"a?b?c?d? ~\"");
  EXPECT_TRUE(text.isWhole());
}

TEST(SignalSafeText, SaysWhatDidNotFit) {
  std::array<char, 5> memory{};
  SignalSafeText text(memory);
  text << "123" << std::uint64_t{45};
  EXPECT_TRUE(text.isWhole());
  text << std::uint64_t{6} << "";
  EXPECT_EQ(text.text(), "12345");
  EXPECT_FALSE(text.isWhole());
}

class CallTableText : public zipccl::testing::SeededTest {};

TEST_F(CallTableText, RatiosAreRoundedDown) {
  EXPECT_EQ(ratioText(0, 3), "0.000");
  EXPECT_EQ(ratioText(1, 1000), "0.001");
  EXPECT_EQ(ratioText(2, 3), "0.666");
  EXPECT_EQ(ratioText(7, 5), "1.400");
  EXPECT_EQ(ratioText(std::numeric_limits<std::uint64_t>::max(), 1), "18446744073709551615.000");
  for (int i = 0; i < 10'000; ++i) {
    const std::uint64_t denominator = 1 + (random_() >> random_.between(12, 63));
    const std::uint64_t numerator = random_() >> random_.between(0, 63);
    const auto thousandths =
        static_cast<std::uint64_t>(Wide{numerator} * 1000 / denominator % 1000);
    const std::string digits = std::to_string(1000 + thousandths).substr(1);
    EXPECT_EQ(ratioText(numerator, denominator),
              std::to_string(numerator / denominator) + "." + digits)
        << numerator << " / " << denominator;
  }
}

TEST(CallTable, WritesARowForEachKindOfCall) {
  CallTable table;
  CallOutcome native = outcomeOf(CollectiveKind::kAllGather, Datatype::kBfloat16);
  table.add(native);
  CallOutcome staged = native;
  staged.decision.strategy = policy::Strategy::kStaged;
  staged.decision.nativeUs = 5.5;
  staged.decision.stagedUs = 3.0;
  staged.plainBytes = 900;
  staged.encodedBytes = 600;
  table.add(staged);
  staged.collective = CollectiveKind::kSendRecv;
  staged.datatype = Datatype::kFloat32;
  staged.decision.nativeUs = 0.0;
  table.add(staged);
  CallOutcome unknown = staged;
  unknown.collective.reset();
  table.add(unknown);

  std::array<char, CallTable::kMostTextBytes> memory{};
  SignalSafeText text(memory);
  table.write(text, {.host = "node1", .process = 47, .rank = 3, .rankCount = 8});
  EXPECT_TRUE(text.isWhole());
  EXPECT_EQ(text.text(),
            "{\n  \"zipccl\": \"" ZIPCCL_VERSION_STRING
            "\",\n  \"host\": \"node1\",\n  \"process\": 47,\n  \"rank\": 3,\n  \"ranks\": 8,\n"
            "  \"calls\": [\n"
            "    {\"collective\": \"AllGather\", \"datatype\": \"bfloat16\", \"calls\": 2, "
            "\"compressedCalls\": 1, \"bytes\": 2000, \"encodedBytes\": 900, \"wireBytes\": 600, "
            "\"ratio\": 1.500, \"strategy\": \"mixed\", \"estimatedSavedUs\": 2},\n"
            "    {\"collective\": \"SendRecv\", \"datatype\": \"float32\", \"calls\": 1, "
            "\"compressedCalls\": 1, \"bytes\": 1000, \"encodedBytes\": 900, \"wireBytes\": 600, "
            "\"ratio\": 1.500, \"strategy\": \"staged\", \"estimatedSavedUs\": -3}\n  ]\n}\n");
}

/// The room that a handler has is enough for the longest file.
TEST(CallTable, TheLargestFits) {
  CallTable table;
  for (const CollectiveKind collective : kAllCollectiveKinds) {
    for (int datatype = 0; datatype <= static_cast<int>(Datatype::kFloat8e5m2); ++datatype) {
      CallOutcome outcome = outcomeOf(collective, static_cast<Datatype>(datatype));
      outcome.decision.strategy = policy::Strategy::kStaged;
      outcome.decision.stagedUs = 9e15;
      outcome.inputBytes = std::numeric_limits<std::uint64_t>::max();
      outcome.plainBytes = std::numeric_limits<std::uint64_t>::max();
      outcome.encodedBytes = 1;
      table.add(outcome);
    }
  }
  std::array<char, CallTable::kMostTextBytes> memory{};
  SignalSafeText text(memory);
  const std::string host(255, 'h');
  table.write(text, {.host = host, .process = std::numeric_limits<std::int64_t>::max()});
  EXPECT_TRUE(text.isWhole());
  EXPECT_TRUE(text.text().ends_with("\n  ]\n}\n"));
}

}  // namespace
}  // namespace zipccl::collectives
