// SPDX-License-Identifier: Apache-2.0
//
// The table and the JSON file, made from known samples.

#include "perf/report.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "perf/progress.hpp"
#include "support/failure.hpp"
#include "temporary_folder.hpp"

namespace zipccl::tools::perf {
namespace {

using testing::readFile;
using testing::TemporaryFolder;

RunReport sampleReport() {
  RunReport report;
  report.info.arguments = {"zipccl", "perf", "all_gather"};
  report.info.ranks = 4;
  report.info.libraryVersion = 100;
  report.info.dataDescription = "Gaussian, sigma 0.02";
  report.info.seed = 12345;
  report.info.startedAt = "2026-01-02T03:04:05Z";
  report.info.machine = {"Some CPU", 2, {"avx2", "bmi2"}, "Linux 6.1", "host"};
  SizeResult result;
  result.sizeBytes = 67108864;
  result.count = 8388608;
  result.wasChecked = true;
  result.reason = "asked for";
  for (const double factor : {1.0, 2.0, 3.0}) {
    result.outOfPlace.samples.push_back({.nativeUs = 10000.0 * factor,
                                         .zipcclUs = 40000.0 * factor,
                                         .nativeWireBytes = 50331648.0,
                                         .zipcclWireBytes = 35389440.0,
                                         .nativeCpuUs = 5000.0 * factor,
                                         .zipcclCpuUs = 60000.0 * factor,
                                         .wasStaged = true,
                                         .wasNativeFirst = factor == 2.0});
    result.inPlace.samples.push_back({.nativeUs = 8000.0 * factor,
                                      .zipcclUs = 20000.0 * factor,
                                      .nativeWireBytes = 50331648.0,
                                      .zipcclWireBytes = 35389440.0,
                                      .wasStaged = true});
  }
  report.results.push_back(result);
  return report;
}

std::vector<std::string> linesOf(const std::string& text) {
  std::istringstream stream(text);
  std::vector<std::string> lines;
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

std::vector<std::string> wordsOf(const std::string& line) {
  std::istringstream stream(line);
  std::vector<std::string> words;
  for (std::string word; stream >> word;) words.push_back(word);
  return words;
}

TEST(Table, HasTheColumnsOfNcclTestsAndMore) {
  const std::vector<std::string> head = linesOf(tableHead(sampleReport().info));
  ASSERT_GE(head.size(), 3U);
  for (const std::string& line : head) EXPECT_EQ(line.front(), '#');
  EXPECT_EQ(wordsOf(head[head.size() - 2]),
            (std::vector<std::string>{"#",      "size",    "count", "type", "time",     "+-%",
                                      "algbw",  "busbw",   "time",  "+-%",  "algbw",    "busbw",
                                      "#wrong", "speedup", "time",  "+-%",  "algbw",    "busbw",
                                      "#wrong", "speedup", "ratio", "wire", "strategy", "pairs"}));
}

TEST(Table, FillsEveryColumn) {
  const RunReport report = sampleReport();
  EXPECT_EQ(wordsOf(tableRow(report.info, report.results.front())),
            (std::vector<std::string>{
                "67108864", "8388608",  "bfloat16",                       //
                "20000.0",  "25",       "3.36",     "2.52",               // native, out of place
                "80000.0",  "25",       "0.84",     "0.63", "0", "0.25",  // zipccl, out of place
                "40000.0",  "25",       "1.68",     "1.26", "0", "0.40",  // zipccl, in place
                "1.422",    "35389440", "staged",   "3"}));
}

TEST(Table, SaysWhatIsMeasured) {
  RunReport report = sampleReport();
  CollectiveChoice& choice = report.info.options.collective;
  choice = {.name = CollectiveName::kReduceScatter, .operation = ReduceOperation::kAverage};
  report.results.front().outOfPlace.nativeError = {4.0, 100.0};
  report.results.front().outOfPlace.zipcclError = {1.0, 100.0};
  EXPECT_NE(tableHead(report.info).find("perf reduce_scatter, avg: 4 ranks"), std::string::npos);
  EXPECT_NE(tableFoot(report).find("native 2.00e-01, zipccl 1.00e-01"), std::string::npos);
  choice = {.name = CollectiveName::kBroadcast, .root = 2};
  EXPECT_NE(tableHead(report.info).find("perf broadcast, root 2: 4 ranks"), std::string::npos);
  EXPECT_EQ(tableFoot(report).find("fp64"), std::string::npos);
  choice = {.name = CollectiveName::kAllToAll, .splits = "zipf:1.5"};
  report.results.front().inPlace.samples.clear();
  EXPECT_NE(tableHead(report.info).find("perf alltoall, splits zipf:1.5: 4"), std::string::npos);
  const std::vector<std::string> words = wordsOf(tableRow(report.info, report.results.front()));
  ASSERT_EQ(words.size(), 23U);
  for (std::size_t i = 13; i < 19; ++i) EXPECT_EQ(words[i], "N/A");
}

TEST(Table, HasMpisOwnCollectiveAtItsEnd) {
  RunReport report = sampleReport();
  report.info.options.transport = TransportKind::kMpi;
  report.info.noPlainMpi = "it is not there";
  EXPECT_NE(tableHead(report.info).find("not measured: it is not there"), std::string::npos);
  report.info.noPlainMpi.clear();
  report.info.plainMpi = "Some MPI v1";
  PlaceResult& place = report.results.front().outOfPlace;
  for (PairSample& sample : place.samples) sample.plainMpiUs = 2.5 * sample.zipcclUs;
  place.plainMpiWrong = 5;
  const std::vector<std::string> head = linesOf(tableHead(report.info));
  EXPECT_NE(tableHead(report.info).find("Some MPI v1"), std::string::npos);
  EXPECT_TRUE(head[head.size() - 2].ends_with("pairs      time +-%  algbw  busbw speedup"))
      << head[head.size() - 2];
  const std::vector<std::string> words = wordsOf(tableRow(report.info, report.results.front()));
  ASSERT_EQ(words.size(), 28U);
  EXPECT_EQ(std::vector<std::string>(words.begin() + 22, words.end()),
            (std::vector<std::string>{"3", "200000", "25", "0.34", "0.25", "2.50"}));
  EXPECT_NE(tableFoot(report).find("2.50 times as fast as MPI's own collective"), std::string::npos)
      << tableFoot(report);
  EXPECT_EQ(report.wrongElements(), 5U);
  const nlohmann::json json = nlohmann::json::parse(jsonText(report));
  EXPECT_EQ(json["transport"]["plainMpi"], "Some MPI v1");
  const auto& measured = json["results"][0]["outOfPlace"];
  EXPECT_EQ(measured["plainMpi"]["timeUs"]["median"], 200000.0);
  EXPECT_EQ(measured["plainMpi"]["wrongElements"], 5);
  EXPECT_EQ(measured["samples"][2]["plainMpiUs"], 300000.0);
  EXPECT_FALSE(json["results"][0]["inPlace"].contains("plainMpi"));
}

TEST(BusBandwidth, IsThatOfNcclTests) {
  RunInfo info = sampleReport().info;
  const auto factor = [&](CollectiveName name) {
    info.options.collective.name = name;
    return busBandwidth(info, 1'000'000'000, 1e6);
  };
  EXPECT_DOUBLE_EQ(factor(CollectiveName::kAllGather), 0.75);
  EXPECT_DOUBLE_EQ(factor(CollectiveName::kAllReduce), 1.5);
  EXPECT_DOUBLE_EQ(factor(CollectiveName::kAllToAll), 0.75);
  EXPECT_DOUBLE_EQ(factor(CollectiveName::kBroadcast), 1.0);
  EXPECT_DOUBLE_EQ(factor(CollectiveName::kGather), 0.75);
  EXPECT_DOUBLE_EQ(factor(CollectiveName::kReduceScatter), 0.75);
  EXPECT_DOUBLE_EQ(factor(CollectiveName::kScatter), 0.75);
  EXPECT_DOUBLE_EQ(factor(CollectiveName::kSendRecv), 1.0);
}

TEST(Table, KeepsItsColumnsInLine) {
  RunReport report = sampleReport();
  const std::vector<std::string> head = linesOf(tableHead(report.info));
  const std::string& titles = head[head.size() - 2];
  const std::string row = tableRow(report.info, report.results.front());
  // Each title ends where its value ends.
  EXPECT_EQ(titles.find("size") + 4, row.find("67108864") + 8);
  EXPECT_EQ(titles.find("ratio") + 5, row.find("1.422") + 5);
  EXPECT_EQ(titles.find("strategy") + 8, row.find("staged") + 6);
  // Large values push, but never touch, their neighbours.
  report.results.front().sizeBytes = 123456789012345678U;
  report.results.front().count = 98765432109876543U;
  EXPECT_EQ(wordsOf(tableRow(report.info, report.results.front())).size(), 23U);
}

TEST(Table, ShowsWrongElementsOrThatNothingWasChecked) {
  RunReport report = sampleReport();
  report.results.front().outOfPlace.zipcclWrong = 17;
  report.results.front().inPlace.zipcclWrong = 4;
  std::vector<std::string> words = wordsOf(tableRow(report.info, report.results.front()));
  EXPECT_EQ(words[11], "17");
  EXPECT_EQ(words[17], "4");
  EXPECT_NE(tableFoot(report).find("# wrong elements: 21\n"), std::string::npos);
  EXPECT_NE(tableFoot(report).find("WRONG BITS"), std::string::npos);

  report = sampleReport();
  report.results.front().outOfPlace.nativeWrong = 3;
  EXPECT_NE(tableFoot(report).find("# wrong elements: 3, of them native: 3\n"), std::string::npos);

  report = sampleReport();
  report.results.front().wasChecked = false;
  words = wordsOf(tableRow(report.info, report.results.front()));
  EXPECT_EQ(words[11], "N/A");
  EXPECT_EQ(words[17], "N/A");
  EXPECT_EQ(tableFoot(report).find("# wrong elements"), std::string::npos);
  EXPECT_NE(tableFoot(report).find("nothing was checked"), std::string::npos);
}

TEST(Table, SaysWhatWasMeasuredAndOnWhat) {
  const std::string head = tableHead(sampleReport().info);
  for (const char* part :
       {"4 ranks", "bfloat16", "strategy staged", "threads of one process", "cannot gain speed",
        "Gaussian, sigma 0.02", "seed 12345", "Some CPU", "2 cores", "avx2 bmi2"}) {
    EXPECT_NE(head.find(part), std::string::npos) << part << " is not in\n" << head;
  }
  RunReport report = sampleReport();
  report.info.seed.reset();
  EXPECT_EQ(tableHead(report.info).find("seed"), std::string::npos);
  RunInfo info;
  info.options.linkBytesPerSecond = 1'250'000'000;
  EXPECT_NE(transportLabel(info).find("EMULATED link of 10 Gbit/s"), std::string::npos);
  info.options.linkBytesPerSecond = 312'500'000;
  EXPECT_NE(transportLabel(info).find("EMULATED link of 2.5 Gbit/s"), std::string::npos);
  info = RunInfo();
  info.options.transport = TransportKind::kMpi;
  EXPECT_EQ(transportLabel(info), "MPI processes on 1 host");
  info.hosts = 3;
  EXPECT_EQ(transportLabel(info), "MPI processes on 3 hosts");
  info.options.transport = TransportKind::kNccl;
  info.nccl = {.version = "2.28.9",
               .file = "libnccl.so.2",
               .device = "2 x H200",
               .areProcesses = true,
               .variables = {{"NCCL_P2P_DISABLE", "1"}}};
  EXPECT_EQ(transportLabel(info),
            "NCCL 2.28.9, 2 x H200, processes on 3 hosts, NCCL_P2P_DISABLE=1");
}

TEST(Table, ConcludesFromWhatWasMeasured) {
  RunReport report = sampleReport();
  EXPECT_NE(tableFoot(report).find("# 64 MiB: every bit arrived as it was sent; 29.7 % fewer bytes "
                                   "went between ranks than natively, 4.0 times as slow"),
            std::string::npos)
      << tableFoot(report);
  for (PairSample& sample : report.results.front().outOfPlace.samples) {
    sample.zipcclWireBytes = 60000000.0;
  }
  for (PairSample& sample : report.results.front().inPlace.samples) {
    sample.zipcclWireBytes = 60000000.0;
  }
  EXPECT_NE(tableFoot(report).find("19.2 % more bytes"), std::string::npos) << tableFoot(report);
  report.info.ranks = 1;
  for (SizeResult& result : report.results) {
    for (PlaceResult* place : {&result.outOfPlace, &result.inPlace}) {
      for (PairSample& sample : place->samples) {
        sample.nativeWireBytes = sample.zipcclWireBytes = 0.0;
      }
    }
  }
  EXPECT_NE(tableFoot(report).find("nothing to send"), std::string::npos);
  EXPECT_EQ(wordsOf(tableRow(report.info, report.results.front()))[19], "-");
}

TEST(Table, TellsHowManyCoresWorked) {
  EXPECT_NE(tableFoot(sampleReport()).find("largest size: native 0.50, zipccl 1.50\n"),
            std::string::npos)
      << tableFoot(sampleReport());
  const nlohmann::json json = nlohmann::json::parse(jsonText(sampleReport()));
  const auto& place = json["results"][0]["outOfPlace"];
  EXPECT_DOUBLE_EQ(place["native"]["cores"]["median"], 0.5);
  EXPECT_DOUBLE_EQ(place["zipccl"]["cores"]["median"], 1.5);
  EXPECT_EQ(place["samples"][1]["zipcclCpuUs"], 120000.0);
}

TEST(Table, TellsWhyTheStrategyIsNotTheOneAskedFor) {
  RunReport report = sampleReport();
  EXPECT_EQ(tableFoot(report).find("# strategy:"), std::string::npos);
  report.results.front().reason = "switched off";
  for (PairSample& sample : report.results.front().outOfPlace.samples) sample.wasStaged = false;
  report.results.push_back(report.results.front());
  const std::string foot = tableFoot(report);
  EXPECT_NE(foot.find("# strategy: switched off\n"), std::string::npos);
  EXPECT_EQ(foot.find("switched off"), foot.rfind("switched off")) << "said once";
}

TEST(Json, HoldsEverySample) {
  const nlohmann::json json = nlohmann::json::parse(jsonText(sampleReport()));
  EXPECT_EQ(json["schema"], 1);
  EXPECT_EQ(json["argv"], (std::vector<std::string>{"zipccl", "perf", "all_gather"}));
  EXPECT_EQ(json["data"]["seed"], 12345U);
  EXPECT_EQ(json["machine"]["cpuModel"], "Some CPU");
  EXPECT_EQ(json["machine"]["instructionSets"], (std::vector<std::string>{"avx2", "bmi2"}));
  EXPECT_EQ(json["transport"]["name"], "local");
  EXPECT_EQ(json["wrongElements"], 0);
  const auto& result = json["results"][0];
  EXPECT_EQ(result["sizeBytes"], 67108864U);
  EXPECT_EQ(result["pairs"], 3);
  EXPECT_EQ(result["strategy"], "staged");
  const auto& samples = result["outOfPlace"]["samples"];
  ASSERT_EQ(samples.size(), 3U);
  EXPECT_EQ(samples[2]["nativeUs"], 30000.0);
  EXPECT_EQ(samples[2]["zipcclUs"], 120000.0);
  EXPECT_EQ(samples[2]["zipcclWireBytes"], 35389440.0);
  EXPECT_EQ(samples[1]["nativeFirst"], true);
  EXPECT_EQ(samples[2]["nativeFirst"], false);
  EXPECT_EQ(result["inPlace"]["native"]["timeUs"]["median"], 16000.0);
  EXPECT_EQ(result["inPlace"]["zipccl"]["wrongElements"], 0);
  EXPECT_DOUBLE_EQ(result["inPlace"]["speedup"]["median"], 0.4);
}

TEST(Json, LeavesOutWhatWasNotChecked) {
  RunReport report = sampleReport();
  report.results.front().wasChecked = false;
  report.info.seed.reset();
  const nlohmann::json json = nlohmann::json::parse(jsonText(report));
  EXPECT_FALSE(json["results"][0]["inPlace"]["zipccl"].contains("wrongElements"));
  EXPECT_TRUE(json["data"]["seed"].is_null());
}

TEST(ReportFileTest, AppearsWhenItIsComplete) {
  const TemporaryFolder folder;
  const std::string path = folder.write("out.json", "old");
  {
    ReportFile file(path);
    EXPECT_EQ(readFile(path), "old");
    file.commit("new");
  }
  EXPECT_EQ(readFile(path), "new");
  { const ReportFile abandoned(path); }
  EXPECT_EQ(readFile(path), "new");
  const auto left = std::filesystem::directory_iterator(folder.path("."));
  EXPECT_EQ(std::distance(begin(left), end(left)), 1);
  EXPECT_THROW(ReportFile(folder.path("missing/out.json")), Failure);
}

TEST(ProgressTest, WritesToATerminalOnly) {
  std::ostringstream stream;
  {
    Progress progress(stream, false);
    progress.show("working");
    progress.clear();
  }
  EXPECT_EQ(stream.str(), "");
  {
    Progress progress(stream, true);
    progress.show("working");
    EXPECT_NE(stream.str().find("working"), std::string::npos);
    progress.clear();
    const std::string cleared = stream.str();
    progress.clear();
    EXPECT_EQ(stream.str(), cleared);
    EXPECT_EQ(cleared.substr(cleared.size() - 4), "\r\x1b[K");
    EXPECT_EQ(cleared.find('\n'), std::string::npos);
    progress.show("more");
  }
  EXPECT_EQ(stream.str().substr(stream.str().size() - 4), "\r\x1b[K");
}

}  // namespace
}  // namespace zipccl::tools::perf
