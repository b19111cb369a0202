// SPDX-License-Identifier: Apache-2.0
//
// The table and the JSON file of `zipccl perf codec`, made from known samples; the sizes of frames,
// and the data that is encoded.

#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "perf_codec/measurement.hpp"
#include "perf_codec/report.hpp"
#include "support/failure.hpp"
#include "support/seeded_test.hpp"
#include "temporary_folder.hpp"

namespace zipccl::tools::perf_codec {
namespace {

CodecResult sampleResult() {
  CodecResult result;
  result.device = Device::kGpu;
  result.data = "normal:1";
  result.inputBytes = 2'000'000;
  result.elementCount = 1'000'000;
  result.meanFrameBytes = 1'400'000;
  result.meanSteadyBytes = 1'375'000;
  result.wasChecked = true;
  result.rounds = {{10.0, 8.0, 5.0, 13.0}, {12.0, 12.0, 4.0, 16.0}, {11.0, 10.0, 5.5, 15.0}};
  return result;
}

RunReport sampleReport() {
  RunReport report;
  report.info.arguments = {"zipccl", "perf", "codec"};
  report.info.startedAt = "2026-01-02T03:04:05Z";
  report.info.machine = {"Some CPU", 2, {"avx2", "bmi2"}, "Linux 6.1", "host"};
  report.info.gpu = GpuMachine{"Some GPU", "9.0", 132, 1U << 30, 1U << 20, "580.1", "13.0", "13.0"};
  report.info.data = {
      {"normal:1", "Gaussian, sigma 1", codec::Datatype::kBfloat16, codec::Layout::kNarrow}};
  report.info.seed = 12345;
  report.results.push_back(sampleResult());
  return report;
}

RunReport sampleReportWithRival() {
  RunReport report = sampleReport();
  report.info.rivalVersion = "6.0.0";
  RivalResult rival;
  rival.settings = "chunks of 64 KiB";
  rival.trials = {{"chunks of 64 KiB", 60.0}, {"chunks of 1 KiB", 90.0}};
  rival.meanBytes = 1'325'000;
  rival.rounds = {{40.0, 20.0}, {30.0, 20.0}, {30.0, 11.0}};
  report.results[0].rival = rival;
  return report;
}

std::vector<std::string> cellsOf(const std::string& row) {
  std::istringstream words(row);
  std::vector<std::string> cells;
  for (std::string word; words >> word;) cells.push_back(word);
  return cells;
}

TEST(CodecReport, RatesAndRatiosAreThoseOfTheSamples) {
  const RunReport report = sampleReport();
  EXPECT_TRUE(report.isRight());
  const auto json = nlohmann::json::parse(jsonText(report));
  EXPECT_EQ(json["argv"].size(), 3U);
  EXPECT_EQ(json["seed"], 12345);
  EXPECT_EQ(json["gpu"]["name"], "Some GPU");
  EXPECT_TRUE(json["nvcompVersion"].is_null());
  EXPECT_EQ(json["data"][0]["description"], "Gaussian, sigma 1");
  const auto& row = json["results"][0];
  EXPECT_EQ(row["device"], "gpu");
  EXPECT_DOUBLE_EQ(row["bitsPerValue"].get<double>(), 11.2);
  EXPECT_DOUBLE_EQ(row["steadyBitsPerValue"].get<double>(), 11.0);
  EXPECT_DOUBLE_EQ(row["encode"]["inputGBs"].get<double>(), 200.0);
  EXPECT_DOUBLE_EQ(row["encode"]["speedToMemcpy"]["median"].get<double>(), 1.1);
  EXPECT_DOUBLE_EQ(row["decode"]["speedToMemcpy"]["most"].get<double>(), 3.0);
  EXPECT_EQ(row["decode"]["samplesUs"].get<std::vector<double>>(),
            (std::vector<double>{5.0, 4.0, 5.5}));
  EXPECT_EQ(row["wrongElements"], 0);
  EXPECT_FALSE(row.contains("rival"));

  const std::vector<std::string> cells = cellsOf(tableRow(report.info, report.results[0]));
  const std::vector<std::string> expected = {"gpu",    "2000000", "bfloat16", "narrow", "all",
                                             "181.8",  "200.0",   "1.100",    "[1.000", "1.250]",
                                             "400.0",  "2.000",   "[2.000",   "3.000]", "15.0",
                                             "11.200", "11.000",  "0",        "3",      "normal:1"};
  EXPECT_EQ(cells, expected);
}

TEST(CodecReport, TellsOfTheRivalInTheSameRounds) {
  const RunReport report = sampleReportWithRival();
  EXPECT_TRUE(report.isRight());
  const auto json = nlohmann::json::parse(jsonText(report));
  EXPECT_EQ(json["nvcompVersion"], "6.0.0");
  const auto& rival = json["results"][0]["rival"];
  EXPECT_DOUBLE_EQ(rival["bitsPerValue"].get<double>(), 10.6);
  EXPECT_EQ(rival["trials"][1]["settings"], "chunks of 1 KiB");
  EXPECT_EQ(rival["trials"][1]["bothUs"], 90.0);
  // 40 / 8, 30 / 12, 30 / 10 and 20 / 5, 20 / 4, 11 / 5.5.
  EXPECT_DOUBLE_EQ(rival["encodeSpeedup"]["median"].get<double>(), 3.0);
  EXPECT_DOUBLE_EQ(rival["decodeSpeedup"]["median"].get<double>(), 4.0);
  EXPECT_DOUBLE_EQ(rival["encode"]["speedToMemcpy"]["median"].get<double>(), 11.0 / 30.0);
  const std::vector<std::string> cells = cellsOf(tableRow(report.info, report.results[0]));
  const std::vector<std::string> last(cells.end() - 7, cells.end());
  EXPECT_EQ(last, (std::vector<std::string>{"66.67", "100.0", "3.00", "4.00", "10.600", "0",
                                            "normal:1"}));
  // Titles and rows have the same number of columns: the spreads are three words each.
  EXPECT_NE(tableHead(report.info).find("nvCOMP 6.0.0"), std::string::npos);
}

TEST(CodecReport, HeadSaysWhatTheFiguresAreOf) {
  RunReport report = sampleReport();
  report.info.gpuNote = "no such thing";
  report.info.rivalNote = "cannot load it";
  const std::string head = tableHead(report.info);
  for (const char* part :
       {"Gaussian, sigma 1", "seed 12345", "Some CPU", "2 cores", "avx2 bmi2", "one thread",
        "Some GPU", "driver 580.1", "gpu: not measured, no such thing",
        "nvCOMP: not measured, cannot load it"}) {
    EXPECT_NE(head.find(part), std::string::npos) << part << "\n" << head;
  }
}

TEST(CodecReport, NothingWrongIsOverlooked) {
  for (int fault = 0; fault < 4; ++fault) {
    RunReport report = sampleReportWithRival();
    CodecResult& result = report.results[0];
    if (fault == 0) result.wrongElements = 3;
    if (fault == 1)
      result.statusWord = 1U << static_cast<int>(codec::DecodeStatus::kBadEscapeCount);
    if (fault == 2) result.rival->wrongElements = 3;
    if (fault == 3) result.rival->failedChunks = 2;
    EXPECT_FALSE(report.isRight()) << fault;
    EXPECT_FALSE(nlohmann::json::parse(jsonText(report))["isRight"].get<bool>()) << fault;
    const std::string foot = tableFoot(report);
    const std::array parts = {"WRONG BITS", "a frame was rejected: ", "wrong elements: 3",
                              "nvCOMP failed on 2 chunks"};
    EXPECT_NE(foot.find(parts.at(static_cast<std::size_t>(fault))), std::string::npos) << foot;
    if (fault < 2) {
      EXPECT_EQ(foot.find("every bit"), std::string::npos) << foot;
    }
  }
  RunReport unchecked = sampleReport();
  unchecked.results[0].wasChecked = false;
  EXPECT_NE(tableFoot(unchecked).find("nothing was checked"), std::string::npos);
  EXPECT_EQ(tableFoot(unchecked).find("every bit"), std::string::npos);
  EXPECT_FALSE(nlohmann::json::parse(jsonText(unchecked))["results"][0].contains("wrongElements"));
}

class CodecData : public zipccl::testing::SeededTest {
 protected:
  DataSet make(const std::string& text, std::optional<zipcclDataType_t> datatype = {},
               std::optional<codec::Layout> layout = {}) {
    return makeDataSet(text, {datatype, layout, seed_, 1 << 20, 2});
  }
};

TEST_F(CodecData, TakesTheLayoutThatSuitsIt) {
  EXPECT_EQ(make("normal:1").datatype, codec::Datatype::kBfloat16);
  EXPECT_EQ(make("normal:1", zipcclFloat16).datatype, codec::Datatype::kFloat16);
  EXPECT_EQ(make("widened").datatype, codec::Datatype::kFloat32);
  EXPECT_EQ(make("widened").layout, codec::Layout::kNarrow);
  EXPECT_EQ(make("normal:1", zipcclFloat32).layout, codec::Layout::kWide);
  EXPECT_EQ(make("normal:1", zipcclFloat32, codec::Layout::kNarrow).layout, codec::Layout::kNarrow);
  EXPECT_EQ(make("widened", std::nullopt, codec::Layout::kWide).layout, codec::Layout::kWide);
  EXPECT_THROW(static_cast<void>(make("normal:1", zipcclBfloat16, codec::Layout::kWide)),
               UsageError);
  EXPECT_THROW(static_cast<void>(make("normal:1", zipcclInt32)), UsageError);
}

TEST_F(CodecData, RepeatsWholeTensors) {
  const testing::TemporaryFolder folder;
  std::string content(6000, '\0');
  for (char& byte : content) byte = static_cast<char>(random_());
  const std::string path = folder.write(
      "x.safetensors",
      testing::safetensorsBytes(R"({"a":{"dtype":"BF16","shape":[3000],"data_offsets":[0,6000]}})",
                                content));
  const DataSet data = make("file:" + path);
  EXPECT_EQ(data.bytes.size(), (1 << 20) / 6000 * 6000U);
  for (std::size_t at = 0; at < data.bytes.size(); ++at) {
    ASSERT_EQ(data.bytes[at], static_cast<std::byte>(content[at % 6000])) << at;
  }
  EXPECT_FALSE(data.usesSeed);
}

TEST_F(CodecData, RepeatsWithoutEnd) {
  DataSet data;
  for (int i = 0; i < 7; ++i) data.bytes.push_back(static_cast<std::byte>(i));
  std::string text(20, '?');
  data.forEachPiece(5, text.size(), [&](std::uint64_t at, std::span<const std::byte> piece) {
    for (std::size_t i = 0; i < piece.size(); ++i) {
      text[at + i] = static_cast<char>('0' + std::to_integer<int>(piece[i]));
    }
  });
  EXPECT_EQ(text, "56012345601234560123");
}

TEST_F(CodecData, FrameSizesAreThoseOfTheCodec) {
  const DataSet data = make("normal:0.02");
  const codec::FrameSpec spec = firstSpec(data, 1 << 20);
  std::vector<std::byte> frame(codec::maxFrameBytes(spec.datatype, spec.elementCount));
  const codec::EncodeResult encoded = codec::encode(spec, data.bytes.data(), frame);
  codec::FrameSpec steady = spec;
  steady.poolBytes =
      codec::steadyPoolBytes(spec.datatype, spec.layout, spec.elementCount, encoded.extraBytes);
  const codec::EncodeResult later = codec::encode(steady, data.bytes.data(), frame);
  codec::encode(spec, data.bytes.data(), frame);

  FrameSizes sizes;
  EXPECT_TRUE(sizes.add(frame));
  EXPECT_TRUE(sizes.add(frame));
  CodecResult result = emptyResult(Device::kHost, data, spec);
  sizes.finish(result);
  EXPECT_EQ(result.meanFrameBytes, static_cast<double>(encoded.frameBytes()));
  EXPECT_EQ(result.meanSteadyBytes, static_cast<double>(later.frameBytes()));
  frame[0] ^= std::byte{1};
  EXPECT_FALSE(sizes.add(frame));
}

}  // namespace
}  // namespace zipccl::tools::perf_codec
