// SPDX-License-Identifier: Apache-2.0
//
// The parts of the benchmark of ceilings that need no device: what the command line says, and what
// is said of samples.

#include <gtest/gtest.h>

#include <functional>
#include <sstream>
#include <string>

#include "base/error.hpp"
#include "bench/codec_cases.hpp"
#include "bench/traffic_measurement.hpp"

namespace zipccl::bench {
namespace {

std::string messageOf(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
    return error.message();
  }
  return "nothing was thrown";
}

TEST(BenchCases, AreReadFromTheCommandLine) {
  const CodecCase plain = parseCodecCase("traffic");
  EXPECT_EQ(plain.kind, "traffic");
  EXPECT_EQ(plain.sizesBytes, std::vector<std::uint64_t>{256U << 20});
  EXPECT_EQ(plain.blockLimits, std::vector<unsigned>{0});
  const CodecCase all = parseCodecCase("traffic@4,16K,3M,2G/16,0");
  EXPECT_EQ(all.sizesBytes,
            (std::vector<std::uint64_t>{4, 16384, 3U << 20, std::uint64_t{2} << 30}));
  EXPECT_EQ(all.blockLimits, (std::vector<unsigned>{16, 0}));
  for (const std::string& text : defaultCodecCases()) {
    EXPECT_FALSE(parseCodecCase(text).sizesBytes.empty()) << text;
  }
}

TEST(BenchCases, RefuseWhatTheyAreNot) {
  const auto messageFor = [](const std::string& text) {
    return messageOf([&] { (void)parseCodecCase(text); });
  };
  EXPECT_NE(messageFor("traffic@12x").find("'12x'"), std::string::npos);
  EXPECT_NE(messageFor("traffic@-4").find("'-4'"), std::string::npos);
  EXPECT_NE(messageFor("traffic@6").find("6 bytes"), std::string::npos);
  EXPECT_NE(messageFor("traffic@0").find("0 bytes"), std::string::npos);
  EXPECT_NE(messageFor("traffic@").find("size is missing"), std::string::npos);
  EXPECT_NE(messageFor("traffic@1M,").find("size is missing"), std::string::npos);
  EXPECT_NE(messageFor("traffic@999999G").find("999999"), std::string::npos);
  EXPECT_NE(messageFor("traffic@1M/").find("''"), std::string::npos);
  EXPECT_NE(messageFor("traffic@1M/4294967296").find("4294967296"), std::string::npos);
  EXPECT_NE(messageFor("@1M").find("no kind"), std::string::npos);
  EXPECT_NE(messageFor("normal:1@1M").find("no kind"), std::string::npos);
}

TEST(BenchReport, RatesAndRatiosAreThoseOfTheSamples) {
  TrafficResult result;
  result.mix = {4, 3};
  result.inputBytes = 2U << 20;
  result.blocks = 77;
  result.rounds = {{10.0, 8.0}, {12.0, 12.0}, {11.0, 10.0}};
  const nlohmann::ordered_json json = toJson(result);
  EXPECT_DOUBLE_EQ(json["kernel"]["inputGBs"].get<double>(), 209.7152);
  EXPECT_DOUBLE_EQ(json["kernel"]["speedToMemcpy"]["median"].get<double>(), 1.1);
  EXPECT_DOUBLE_EQ(json["memcpy"]["speedToMemcpy"]["least"].get<double>(), 1.0);
  EXPECT_EQ(json["kernel"]["samplesUs"].get<std::vector<double>>(),
            (std::vector<double>{8.0, 12.0, 10.0}));
  std::ostringstream table;
  printRow(table, result);
  EXPECT_NE(table.str().find("1.100 [1.000 1.250]"), std::string::npos) << table.str();
  EXPECT_NE(table.str().find("2 MiB"), std::string::npos) << table.str();
}

}  // namespace
}  // namespace zipccl::bench
