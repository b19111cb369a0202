// SPDX-License-Identifier: Apache-2.0
//
// The parts of the codec's benchmark that need no device: what the command line says, the values,
// and what is said of samples.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <fstream>
#include <sstream>
#include <string>

#include "base/error.hpp"
#include "bench/codec_cases.hpp"
#include "bench/codec_data.hpp"
#include "perf_codec/report.hpp"

namespace zipccl::bench {
namespace {

using tools::perf_codec::CodecReport;
using tools::perf_codec::CodecResult;

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
  const CodecCase plain = parseCodecCase("normal:0.02");
  EXPECT_EQ(plain.data, "normal:0.02");
  EXPECT_EQ(plain.sizesBytes, std::vector<std::uint64_t>{256U << 20});
  EXPECT_EQ(plain.blockLimits, std::vector<unsigned>{0});
  const CodecCase all = parseCodecCase("file:a/b@c:d@4,16K,3M,2G/16,0");
  EXPECT_EQ(all.data, "file:a/b@c:d");
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
  EXPECT_NE(messageFor("random@12x").find("'12x'"), std::string::npos);
  EXPECT_NE(messageFor("random@-4").find("'-4'"), std::string::npos);
  EXPECT_NE(messageFor("random@6").find("6 bytes"), std::string::npos);
  EXPECT_NE(messageFor("random@0").find("0 bytes"), std::string::npos);
  EXPECT_NE(messageFor("random@").find("size is missing"), std::string::npos);
  EXPECT_NE(messageFor("random@1M,").find("size is missing"), std::string::npos);
  EXPECT_NE(messageFor("random@999999G").find("999999"), std::string::npos);
  EXPECT_NE(messageFor("random@1M/").find("''"), std::string::npos);
  EXPECT_NE(messageFor("random@1M/4294967296").find("4294967296"), std::string::npos);
  EXPECT_NE(messageFor("@1M").find("no data"), std::string::npos);
}

std::uint16_t word(const DataSet& data, std::size_t n) {
  std::uint16_t value = 0;
  std::memcpy(&value, data.bytes.data() + 2 * n, 2);
  return value;
}

TEST(BenchData, IsWhatItsNameSays) {
  const DataSet zeros = makeDataSet("zeros:0.39", 7);
  const std::size_t count = zeros.bytes.size() / 2;
  std::size_t zeroCount = 0;
  for (std::size_t n = 0; n < count; ++n) zeroCount += word(zeros, n) == 0 ? 1 : 0;
  EXPECT_NEAR(static_cast<double>(zeroCount) / static_cast<double>(count), 0.39, 0.002);

  const DataSet normal = makeDataSet("normal:3", 7);
  double squares = 0.0;
  for (std::size_t n = 0; n < count; ++n) {
    const std::uint32_t bits = static_cast<std::uint32_t>(word(normal, n)) << 16;
    float value = 0.0F;
    std::memcpy(&value, &bits, 4);
    squares += static_cast<double>(value) * static_cast<double>(value);
  }
  EXPECT_NEAR(std::sqrt(squares / static_cast<double>(count)), 3.0, 0.01);

  const DataSet widened = makeDataSet("widened:3", 7);
  EXPECT_EQ(widened.datatype, codec::Datatype::kFloat32);
  EXPECT_EQ(widened.layout, codec::Layout::kNarrow);
  for (std::size_t n = 0; n < 1000; ++n) {
    EXPECT_EQ(word(widened, 2 * n), 0);
    EXPECT_EQ(word(widened, 2 * n + 1), word(normal, n));
  }
  EXPECT_EQ(makeDataSet("float:3", 7).layout, codec::Layout::kWide);
  EXPECT_EQ(makeDataSet("random", 7).bytes, makeDataSet("random", 7).bytes);
  EXPECT_NE(makeDataSet("random", 7).bytes, makeDataSet("random", 8).bytes);
}

TEST(BenchData, ComesFromSafetensorsFiles) {
  const std::string path = ::testing::TempDir() + "zipccl_bench_data:1.safetensors";
  {
    const std::string header = R"({"a:b":{"dtype":"BF16","shape":[2],"data_offsets":[0,4]},)"
                               R"("c":{"dtype":"BF16","shape":[1],"data_offsets":[4,6]},)"
                               R"("d":{"dtype":"F32","shape":[1],"data_offsets":[6,10]},)"
                               R"("e":{"dtype":"I32","shape":[1],"data_offsets":[10,14]}})";
    const std::uint64_t headerBytes = header.size();
    std::ofstream file(path, std::ios::binary);
    file.write(reinterpret_cast<const char*>(&headerBytes), 8);
    file << header << "ABCDEFGHIJKLMN";
  }
  const auto textOf = [](const DataSet& data) {
    return std::string(reinterpret_cast<const char*>(data.bytes.data()), data.bytes.size());
  };
  EXPECT_EQ(textOf(makeDataSet("file:" + path, 0)), "ABCDEF");
  EXPECT_EQ(textOf(makeDataSet("file:" + path + ":a:b", 0)), "ABCD");
  const DataSet floats = makeDataSet("file:" + path + ":d", 0);
  EXPECT_EQ(textOf(floats), "GHIJ");
  EXPECT_EQ(floats.datatype, codec::Datatype::kFloat32);
  EXPECT_EQ(floats.layout, codec::Layout::kWide);
  const auto messageFor = [](const std::string& text) {
    return messageOf([&] { (void)makeDataSet(text, 0); });
  };
  EXPECT_NE(messageFor("file:" + path + ":e").find("I32"), std::string::npos);
  EXPECT_NE(messageFor("file:" + path + ":x").find("names no tensor"), std::string::npos);
  EXPECT_NE(messageFor("file:/no/such/file").find("names no file"), std::string::npos);
  EXPECT_NE(messageFor("nothing").find("'nothing' is no data"), std::string::npos);
  EXPECT_NE(messageFor("normal:0").find("'normal:0'"), std::string::npos);
  EXPECT_NE(messageFor("zeros:1.5").find("'zeros:1.5'"), std::string::npos);
  EXPECT_EQ(std::remove(path.c_str()), 0);
}

TEST(BenchReport, RatesAndRatiosAreThoseOfTheSamples) {
  CodecReport report;
  report.arguments = {"gpu_codec_bench"};
  CodecResult result;
  result.data = "normal:1";
  result.inputBytes = 2'000'000;
  result.elementCount = 1'000'000;
  result.meanFrameBytes = 1'400'000;
  result.meanSteadyBytes = 1'375'000;
  result.rounds = {{10.0, 8.0, 5.0, 13.0}, {12.0, 12.0, 4.0, 16.0}, {11.0, 10.0, 5.5, 15.0}};
  report.codec.push_back(result);
  EXPECT_TRUE(report.isRight());
  nlohmann::ordered_json json = toJson(report);
  const auto& row = json["codec"][0];
  EXPECT_DOUBLE_EQ(row["bitsPerValue"].get<double>(), 11.2);
  EXPECT_DOUBLE_EQ(row["steadyBitsPerValue"].get<double>(), 11.0);
  EXPECT_DOUBLE_EQ(row["encode"]["inputGBs"].get<double>(), 200.0);
  EXPECT_DOUBLE_EQ(row["encode"]["speedToMemcpy"]["median"].get<double>(), 1.1);
  EXPECT_DOUBLE_EQ(row["decode"]["speedToMemcpy"]["most"].get<double>(), 3.0);
  EXPECT_EQ(row["decode"]["samplesUs"].get<std::vector<double>>(),
            (std::vector<double>{5.0, 4.0, 5.5}));
  std::ostringstream table;
  printRow(table, result);
  EXPECT_NE(table.str().find("1.100 [1.000 1.250]"), std::string::npos) << table.str();
  EXPECT_EQ(table.str().find("WRONG"), std::string::npos);

  report.codec[0].wrongBytes = 3;
  EXPECT_FALSE(report.isRight());
  report.codec[0].wrongBytes = 0;
  report.codec[0].statusWord = 1U << 14;
  EXPECT_FALSE(report.isRight());
  EXPECT_FALSE(toJson(report)["isRight"].get<bool>());
  std::ostringstream wrong;
  printRow(wrong, report.codec[0]);
  EXPECT_NE(wrong.str().find("WRONG"), std::string::npos);
}

}  // namespace
}  // namespace zipccl::bench
