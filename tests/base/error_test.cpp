// SPDX-License-Identifier: Apache-2.0
//
// Errors: codes, messages, and the place that they name; and the text they are made of.

#include "base/error.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <limits>
#include <string>
#include <string_view>

#include "base/text.hpp"

namespace zipccl {
namespace {

template <class Call>
Error caught(Call call) {
  try {
    call();
  } catch (const Error& error) {
    return error;
  }
  ADD_FAILURE() << "nothing was thrown";
  return Error(ErrorCode::kSuccess, "");
}

TEST(Error, CodesHaveNcclsValues) {
  EXPECT_EQ(static_cast<int>(ErrorCode::kSuccess), 0);
  EXPECT_EQ(static_cast<int>(ErrorCode::kUnhandledCudaError), 1);
  EXPECT_EQ(static_cast<int>(ErrorCode::kSystemError), 2);
  EXPECT_EQ(static_cast<int>(ErrorCode::kInternalError), 3);
  EXPECT_EQ(static_cast<int>(ErrorCode::kInvalidArgument), 4);
  EXPECT_EQ(static_cast<int>(ErrorCode::kInvalidUsage), 5);
  EXPECT_EQ(static_cast<int>(ErrorCode::kRemoteError), 6);
  EXPECT_EQ(static_cast<int>(ErrorCode::kInProgress), 7);
  EXPECT_STREQ(errorCodeText(ErrorCode::kInvalidArgument), "invalid argument");
  EXPECT_STREQ(errorCodeText(static_cast<ErrorCode>(99)), "unknown result code");
}

TEST(Error, FailNamesItsCaller) {
  const int line = __LINE__ + 1;
  const Error error = caught([] { fail(ErrorCode::kRemoteError, "rank ", 3, " left"); });
  EXPECT_EQ(error.code(), ErrorCode::kRemoteError);
  EXPECT_EQ(error.message(), "rank 3 left");
  EXPECT_EQ(error.line(), line);
  EXPECT_STREQ(error.file(), __FILE__);
  const std::string expected =
      std::string(
          "remote process exited or there was a network error: rank 3 left "
          "(tests/base/error_test.cpp:") +
      std::to_string(line) + ")";
  EXPECT_EQ(error.what(), expected);
}

TEST(Error, ExpectsThrowsOnlyWhenTheConditionFails) {
  expects(true, "never seen");
  expects(true, ErrorCode::kSystemError, "never seen");
  const int line = __LINE__ + 1;
  const Error plain = caught([] { expects(1 > 2, "one is not above ", 2); });
  EXPECT_EQ(plain.code(), ErrorCode::kInvalidArgument);
  EXPECT_EQ(plain.message(), "one is not above 2");
  EXPECT_EQ(plain.line(), line);
  const Error coded = caught([] { expects(false, ErrorCode::kSystemError, "no ", "disk"); });
  EXPECT_EQ(coded.code(), ErrorCode::kSystemError);
  EXPECT_EQ(coded.message(), "no disk");
}

TEST(Error, InvariantsAreCheckedInDebugBuilds) {
  invariant(true, "never seen");
  if constexpr (kAssertionsEnabled) {
    const Error error = caught([] { invariant(false, "count ", 7); });
    EXPECT_EQ(error.code(), ErrorCode::kInternalError);
    EXPECT_EQ(error.message(), "broken invariant: count 7");
  } else {
    EXPECT_NO_THROW(invariant(false, "count ", 7));
  }
}

TEST(Error, CopiesAreIndependent) {
  Error copy(ErrorCode::kSuccess, "");
  {
    const Error original(ErrorCode::kInvalidUsage, std::string(500, 'x'));
    copy = original;
  }
  EXPECT_EQ(copy.message(), std::string(500, 'x'));
  EXPECT_EQ(copy.code(), ErrorCode::kInvalidUsage);
}

TEST(Error, ShortFileNameKeepsTheProjectsFolders) {
  EXPECT_EQ(shortFileName("/home/x/src/zip/src/base/error.cpp"), "src/base/error.cpp");
  EXPECT_EQ(shortFileName("src/base/error.cpp"), "src/base/error.cpp");
  EXPECT_EQ(shortFileName("/a/mysrc/b.cpp"), "b.cpp");
  EXPECT_EQ(shortFileName("b.cpp"), "b.cpp");
  EXPECT_EQ(shortFileName(""), "");
}

TEST(Text, ConcatJoinsAllThatMessagesNeed) {
  const std::string text = "text";
  EXPECT_EQ(concat("a", text, std::string_view("view"), 'c', ' ', true, false),
            "atextviewc truefalse");
  EXPECT_EQ(concat(std::numeric_limits<std::int64_t>::min(), ' ',
                   std::numeric_limits<std::uint64_t>::max()),
            "-9223372036854775808 18446744073709551615");
  EXPECT_EQ(concat(static_cast<short>(-3), static_cast<unsigned char>(200)), "-3200");
  EXPECT_EQ(concat(0.1, ' ', 2.0f, ' ', 1e300), "0.1 2 1e+300");
  const char* const pointer = "pointer";
  EXPECT_EQ(concat(pointer), "pointer");
  EXPECT_EQ(concat(), "");
}

TEST(Text, QuantitiesCarryTheirUnits) {
  EXPECT_EQ(describeBytes(0), "0 bytes");
  EXPECT_EQ(describeBytes(1), "1 byte");
  EXPECT_EQ(describeBytes(1025), "1025 bytes");
  EXPECT_EQ(describeBytes(4096), "4096 bytes (4 KiB)");
  EXPECT_EQ(describeBytes(std::uint64_t{3} << 30), "3221225472 bytes (3 GiB)");
  EXPECT_EQ(describeBytes(std::uint64_t{1} << 60), "1152921504606846976 bytes (1048576 TiB)");
  EXPECT_EQ(describeMs(0), "0.000 s");
  EXPECT_EQ(describeMs(1), "0.001 s");
  EXPECT_EQ(describeMs(60'250), "60.250 s");
  EXPECT_EQ(describeMs(-70), "-0.070 s");
}

TEST(Text, ComparesWithoutCase) {
  EXPECT_TRUE(equalsIgnoringCase("AllGather", "allgATHER"));
  EXPECT_FALSE(equalsIgnoringCase("AllGather", "AllGathe"));
  EXPECT_FALSE(equalsIgnoringCase("[", "{"));
  EXPECT_TRUE(equalsIgnoringCase("", ""));
}

}  // namespace
}  // namespace zipccl
