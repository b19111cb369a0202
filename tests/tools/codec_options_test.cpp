// SPDX-License-Identifier: Apache-2.0
//
// The flags of `zipccl perf codec`, good and bad, and what follows from them.

#include <gtest/gtest.h>

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "perf_codec/flags.hpp"
#include "perf_codec/options.hpp"
#include "support/failure.hpp"

namespace zipccl::tools::perf_codec {
namespace {

/// Parses a command line; throws CLI::ParseError.
Options parse(std::vector<std::string> words) {
  CLI::App app("test", "test");
  Options options;
  addFlags(app, options);
  std::vector<std::string> reversed(words.rbegin(), words.rend());
  app.parse(reversed);
  return options;
}

TEST(CodecFlags, HaveDefaultsThatMakeSense) {
  const Options options = parse({});
  EXPECT_FALSE(options.rounds);
  EXPECT_TRUE(options.checks);
  EXPECT_FALSE(options.datatype);
  EXPECT_FALSE(options.layout);
  EXPECT_EQ(options.data, std::vector<std::string>{"normal:0.02"});
  EXPECT_EQ(options.device, DeviceChoice::kAuto);
  EXPECT_EQ(options.against, RivalChoice::kAuto);
  EXPECT_EQ(options.blockLimits, std::vector<unsigned>{0});
  EXPECT_EQ(inputSizes(options, Device::kHost),
            (std::vector<std::uint64_t>{1U << 20, 4U << 20, 16U << 20}));
  EXPECT_EQ(inputSizes(options, Device::kGpu).back(), 256U << 20);
}

TEST(CodecFlags, AreThoseOfTheCollectives) {
  const Options shorts = parse({"-b", "8", "-e", "128M", "-f", "2", "-n", "10", "-w", "3", "-c",
                                "0", "-d", "float", "-J", "out.json"});
  const Options longs =
      parse({"--minbytes", "8", "--maxbytes", "128M", "--stepfactor", "2", "--iters", "10",
             "--warmup_iters", "3", "--check", "0", "--datatype", "fp32", "--json", "out.json"});
  for (const Options& options : {shorts, longs}) {
    EXPECT_EQ(options.minBytes, 8U);
    EXPECT_EQ(options.maxBytes, 128U << 20);
    EXPECT_EQ(options.stepFactor, 2U);
    EXPECT_EQ(options.rounds, 10);
    EXPECT_EQ(options.warmups, 3);
    EXPECT_FALSE(options.checks);
    EXPECT_EQ(options.datatype, zipcclFloat32);
    EXPECT_EQ(options.jsonPath, "out.json");
    const MeasurementPlan plan = planFor(options, Device::kHost);
    EXPECT_EQ(plan.rounds, 10);
    EXPECT_EQ(plan.warmupRounds, 3);
    EXPECT_FALSE(plan.checks);
  }
}

TEST(CodecFlags, TakeListsAndChoices) {
  const Options options =
      parse({"--data", "normal:1", "--data", "file:a,b", "--max-blocks", "16,0,33", "--device",
             "gpu", "--rotate", "3M", "--against=nvcomp", "--nvcomp", "x.so", "--layout", "wide"});
  EXPECT_EQ(options.data, (std::vector<std::string>{"normal:1", "file:a,b"}));
  EXPECT_EQ(options.blockLimits, (std::vector<unsigned>{16, 0, 33}));
  EXPECT_EQ(options.device, DeviceChoice::kGpu);
  EXPECT_EQ(planFor(options, Device::kGpu).rotatedBytes, 3U << 20);
  EXPECT_EQ(options.against, RivalChoice::kNvcomp);
  EXPECT_EQ(options.nvcompPath, "x.so");
  EXPECT_EQ(options.layout, codec::Layout::kWide);
  EXPECT_EQ(parse({"--layout", "narrow"}).layout, codec::Layout::kNarrow);
  EXPECT_FALSE(parse({"--layout", "auto"}).layout);
  EXPECT_EQ(parse({"--device", "host"}).device, DeviceChoice::kHost);
  EXPECT_EQ(parse({"--against", "none"}).against, RivalChoice::kNone);
}

TEST(CodecFlags, RejectWhatTheyCannotMean) {
  const std::vector<std::vector<std::string>> wrong = {{"-b", "x"},
                                                       {"-b", "-1"},
                                                       {"-f", "1"},
                                                       {"-n", "0"},
                                                       {"-w", "-1"},
                                                       {"-c", "2"},
                                                       {"-c", "x"},
                                                       {"--seed", "-1"},
                                                       {"-d", "bf17"},
                                                       {"--layout", "fat"},
                                                       {"--layout", "1"},
                                                       {"--device", "tpu"},
                                                       {"--device", "1"},
                                                       {"--against", "zstd"},
                                                       {"--against", "2"},
                                                       {"--max-blocks", "-1"},
                                                       {"--max-blocks", ""},
                                                       {"--max-blocks", "4294967296"},
                                                       {"--max-blocks", "1,x"},
                                                       {"--data"},
                                                       {"stray"},
                                                       {"--ranks", "4"},
                                                       {"-n", "1", "-n", "2"}};
  for (const std::vector<std::string>& words : wrong) {
    std::string line;
    for (const std::string& word : words) line += word + " ";
    EXPECT_THROW(static_cast<void>(parse(words)), CLI::ParseError) << line;
  }
}

TEST(CodecSizes, StayWithinTheLargestFrame) {
  Options options;
  options.minBytes = std::uint64_t{2} << 40;
  EXPECT_EQ(inputSizes(options, Device::kGpu).size(), 1U);
  options.minBytes = *options.minBytes + 1;
  EXPECT_THROW(static_cast<void>(inputSizes(options, Device::kGpu)), UsageError);
}

TEST(CodecSizes, HoldAnElementEach) {
  Options options;
  for (const std::uint64_t bytes : {0U, 1U, 3U}) {
    options.minBytes = bytes;
    EXPECT_THROW(static_cast<void>(inputSizes(options, Device::kHost)), UsageError) << bytes;
  }
  options.minBytes = options.maxBytes = 4;
  EXPECT_EQ(inputSizes(options, Device::kHost), std::vector<std::uint64_t>{4});
  options.maxBytes = 3;
  EXPECT_THROW(static_cast<void>(inputSizes(options, Device::kHost)), UsageError);
}

TEST(CodecPlan, EndsByRoundsOrByTime) {
  MeasurementPlan plan = MeasurementPlan::forDevice(Device::kHost);
  EXPECT_FALSE(plan.isEnough(MeasurementPlan::kLeastRounds - 1, 1e9));
  EXPECT_TRUE(plan.isEnough(MeasurementPlan::kLeastRounds, MeasurementPlan::kBudgetSeconds));
  EXPECT_FALSE(plan.isEnough(MeasurementPlan::kMostRounds - 1, 0.0));
  EXPECT_TRUE(plan.isEnough(MeasurementPlan::kMostRounds, 0.0));
  plan.rounds = 40;
  EXPECT_FALSE(plan.isEnough(39, 1e9));
  EXPECT_TRUE(plan.isEnough(40, 0.0));
}

}  // namespace
}  // namespace zipccl::tools::perf_codec
