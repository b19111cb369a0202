// SPDX-License-Identifier: Apache-2.0
//
// Sizes as users type them, and text of untrusted files as it is printed.

#include "support/text.hpp"

#include <gtest/gtest.h>

#include "support/failure.hpp"

namespace zipccl::tools {
namespace {

TEST(ParseByteSize, ReadsNumbersWithUnits) {
  EXPECT_EQ(parseByteSize("0"), 0U);
  EXPECT_EQ(parseByteSize("8"), 8U);
  EXPECT_EQ(parseByteSize("8B"), 8U);
  EXPECT_EQ(parseByteSize("64K"), 65536U);
  EXPECT_EQ(parseByteSize("64k"), 65536U);
  EXPECT_EQ(parseByteSize("1M"), 1048576U);
  EXPECT_EQ(parseByteSize("1MB"), 1048576U);
  EXPECT_EQ(parseByteSize("1MiB"), 1048576U);
  EXPECT_EQ(parseByteSize("1mib"), 1048576U);
  EXPECT_EQ(parseByteSize("1.5M"), 1572864U);
  EXPECT_EQ(parseByteSize("0.5K"), 512U);
  EXPECT_EQ(parseByteSize("2G"), 2147483648U);
  EXPECT_EQ(parseByteSize("1T"), 1099511627776U);
  EXPECT_EQ(parseByteSize("010"), 10U);
  EXPECT_EQ(parseByteSize("4611686018427387904"), 1ULL << 62);
}

TEST(ParseByteSize, RejectsEverythingElse) {
  for (const char* text : {"",
                           "M",
                           "-1",
                           "-1M",
                           "+1",
                           " 1",
                           "1 M",
                           "1X",
                           "1MM",
                           "1MBB",
                           "1iB",
                           "1KX",
                           "0x10",
                           "1e6",
                           "1.2.3",
                           "1.",
                           ".5",
                           "1M ",
                           "4611686018427387905",
                           "4T4",
                           "18446744073709551616",
                           "9999999T",
                           "99999999999999999999999999999999999999999999999999",
                           "1\n"}) {
    EXPECT_THROW(static_cast<void>(parseByteSize(text)), UsageError) << "'" << text << "'";
  }
}

TEST(ParseByteSize, NamesWhatItCouldNotRead) {
  try {
    static_cast<void>(parseByteSize("12Q\x1b"));
    FAIL() << "12Q was accepted";
  } catch (const UsageError& error) {
    EXPECT_EQ(
        std::string(error.what()),
        "'12Q\\x1b' is not a size: its unit is none of K, M, G, T; examples: 8, 64K, 1.5M, 2G");
  }
}

TEST(HumanBytes, ChoosesAUnit) {
  EXPECT_EQ(humanBytes(0), "0 B");
  EXPECT_EQ(humanBytes(1023), "1023 B");
  EXPECT_EQ(humanBytes(1024), "1 KiB");
  EXPECT_EQ(humanBytes(1536), "1.5 KiB");
  EXPECT_EQ(humanBytes(64U << 20), "64 MiB");
  EXPECT_EQ(humanBytes(~0ULL), "16 EiB");
}

TEST(Printable, EscapesWhatATerminalWouldObey) {
  EXPECT_EQ(printable("ag.0.step1"), "ag.0.step1");
  EXPECT_EQ(printable("\x1b[2J"), "\\x1b[2J");
  EXPECT_EQ(printable("a\nb\\c\x7f\xc3\xa9"), "a\\x0ab\\x5cc\\x7f\\xc3\\xa9");
  EXPECT_EQ(printable(std::string_view("\0x", 2)), "\\x00x");
}

TEST(Printable, CutsWhatIsLong) {
  EXPECT_EQ(printable(std::string(10, 'a'), 10), std::string(10, 'a'));
  EXPECT_EQ(printable(std::string(11, 'a'), 10), std::string(10, 'a') + "...");
  EXPECT_EQ(printable("aaaaaaaaa\n", 10), "aaaaaaaaa...");
}

}  // namespace
}  // namespace zipccl::tools
