// SPDX-License-Identifier: Apache-2.0
//
// The flags of `zipccl perf`, good and bad.

#include "perf/options.hpp"

#include <gtest/gtest.h>

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "perf/datatype.hpp"
#include "perf/flags.hpp"
#include "support/failure.hpp"

namespace zipccl::tools::perf {
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

TEST(Flags, HaveDefaultsThatMakeSense) {
  const Options options = parse({});
  EXPECT_EQ(options.stepFactor, 4U);
  EXPECT_FALSE(options.iterations);
  EXPECT_FALSE(options.warmups);
  EXPECT_EQ(warmupsOf(options), 1);
  EXPECT_EQ(options.checks, 1);
  EXPECT_FALSE(options.ranks);
  EXPECT_EQ(options.transport, TransportKind::kLocal);
  EXPECT_EQ(options.strategy, zipcclStrategyStaged);
  EXPECT_FALSE(options.datatype);
  EXPECT_EQ(options.data, "normal:0.02");
  EXPECT_FALSE(options.seed);
  EXPECT_EQ(messageSizes(options), (std::vector<std::uint64_t>{1U << 20, 4U << 20, 16U << 20}));
}

TEST(Flags, AreThoseOfNcclTests) {
  const Options shorts = parse({"-b", "8", "-e", "128M", "-f", "2", "-n", "10", "-w", "3", "-c",
                                "0", "-d", "float", "-J", "out.json"});
  const Options longs =
      parse({"--minbytes", "8", "--maxbytes", "128M", "--stepfactor", "2", "--iters", "10",
             "--warmup_iters", "3", "--check", "0", "--datatype", "fp32", "--json", "out.json"});
  for (const Options& options : {shorts, longs}) {
    EXPECT_EQ(options.minBytes, 8U);
    EXPECT_EQ(options.maxBytes, 128U << 20);
    EXPECT_EQ(options.stepFactor, 2U);
    EXPECT_EQ(options.iterations, 10);
    EXPECT_EQ(options.warmups, 3);
    EXPECT_EQ(options.checks, 0);
    EXPECT_EQ(options.datatype, zipcclFloat32);
    EXPECT_EQ(options.jsonPath, "out.json");
  }
}

TEST(Flags, ChooseRanksTransportStrategyAndData) {
  const Options options = parse({"--ranks", "7", "--transport", "mpi", "--strategy=auto", "--data",
                                 "file:x:y", "--seed", "18446744073709551615"});
  EXPECT_EQ(options.ranks, 7);
  EXPECT_EQ(options.transport, TransportKind::kMpi);
  EXPECT_EQ(options.strategy, zipcclStrategyAuto);
  EXPECT_EQ(options.data, "file:x:y");
  EXPECT_EQ(options.seed, ~std::uint64_t{0});
  EXPECT_EQ(parse({"--strategy", "native"}).strategy, zipcclStrategyNative);
  EXPECT_EQ(parse({"--strategy", "staged"}).strategy, zipcclStrategyStaged);
}

TEST(Flags, KnowEveryDatatypeByBothNames) {
  for (const char* name :
       {"bfloat16", "bf16", "float", "fp32", "half", "fp16", "double", "fp64", "f8e4m3", "e4m3",
        "f8e5m2", "e5m2", "int8", "uint8", "int32", "uint32", "int64", "uint64"}) {
    EXPECT_TRUE(parse({"-d", name}).datatype) << name;
  }
}

TEST(Flags, RejectWhatTheyCannotMean) {
  const std::vector<std::vector<std::string>> wrong = {{"-b", "x"},
                                                       {"-b", "-1"},
                                                       {"-b", ""},
                                                       {"-e", "1Q"},
                                                       {"-f", "1"},
                                                       {"-f", "0"},
                                                       {"-f", "-2"},
                                                       {"-f", "1.5"},
                                                       {"-n", "0"},
                                                       {"-n", "-1"},
                                                       {"-n", "ten"},
                                                       {"-n", "99999999999999999999"},
                                                       {"-w", "-1"},
                                                       {"-c", "-1"},
                                                       {"-c", "x"},
                                                       {"--ranks", "0"},
                                                       {"--ranks", "1025"},
                                                       {"--ranks", "-4"},
                                                       {"--seed", "-1"},
                                                       {"--seed", "18446744073709551616"},
                                                       {"-d", "bf17"},
                                                       {"-d", ""},
                                                       {"--transport", "tcp"},
                                                       {"--strategy", "fused"},
                                                       {"--strategy", "7"},
                                                       {"--transport", "1"},
                                                       {"--no-such-flag"},
                                                       {"stray"},
                                                       {"-n"},
                                                       {"-n", "1", "-n", "2"}};
  for (const std::vector<std::string>& words : wrong) {
    std::string line;
    for (const std::string& word : words) line += word + " ";
    EXPECT_THROW(static_cast<void>(parse(words)), CLI::ParseError) << line;
  }
}

TEST(MessageSizes, GrowByTheFactorWithinTheLimits) {
  const auto sizes = [](std::vector<std::string> words) { return messageSizes(parse(words)); };
  using Sizes = std::vector<std::uint64_t>;
  EXPECT_EQ(sizes({"-b", "8", "-e", "128", "-f", "2"}), (Sizes{8, 16, 32, 64, 128}));
  EXPECT_EQ(sizes({"-b", "10", "-e", "99", "-f", "3"}), (Sizes{10, 30, 90}));
  EXPECT_EQ(sizes({"-b", "5M", "-e", "5M"}), (Sizes{5U << 20}));
  EXPECT_EQ(sizes({"-b", "0", "-e", "1M"}), (Sizes{0}));
  // A limit that is not given follows the one that is.
  EXPECT_EQ(sizes({"-b", "128M"}), (Sizes{128U << 20}));
  EXPECT_EQ(sizes({"-e", "4K"}), (Sizes{4096}));
  EXPECT_EQ(sizes({"-b", "4M"}), (Sizes{4U << 20, 16U << 20}));
  // The last step must not overflow.
  EXPECT_EQ(sizes({"-b", "4194304T", "-e", "4194304T", "-f", "1000000000"}),
            (Sizes{std::uint64_t{1} << 62}));
  EXPECT_THROW(static_cast<void>(sizes({"-b", "2M", "-e", "1M"})), UsageError);
}

TEST(Datatype, HasASizeForEachName) {
  EXPECT_EQ(elementBytes(zipcclBfloat16), 2U);
  EXPECT_EQ(elementBytes(zipcclFloat32), 4U);
  EXPECT_EQ(elementBytes(zipcclFloat8e5m2), 1U);
  EXPECT_EQ(elementBytes(zipcclUint64), 8U);
  EXPECT_EQ(datatypeOfSafetensors("BF16"), zipcclBfloat16);
  EXPECT_EQ(datatypeOfSafetensors("I32"), zipcclInt32);
  EXPECT_FALSE(datatypeOfSafetensors("BOOL"));
  for (const zipcclDataType_t coded : {zipcclBfloat16, zipcclFloat16, zipcclFloat32}) {
    EXPECT_TRUE(isCoded(coded)) << coded;
  }
  for (const zipcclDataType_t other : {zipcclFloat64, zipcclFloat8e4m3, zipcclInt8, zipcclUint64}) {
    EXPECT_FALSE(isCoded(other)) << other;
  }
}

TEST(Flags, ReadTheSpeedOfALink) {
  EXPECT_EQ(parse({}).linkBytesPerSecond, 0U);
  EXPECT_EQ(parse({"--link", "10Gbit"}).linkBytesPerSecond, 1'250'000'000U);
  EXPECT_EQ(parse({"--link", "2.5Gbit"}).linkBytesPerSecond, 312'500'000U);
  EXPECT_EQ(parse({"--link", "100Mbit"}).linkBytesPerSecond, 12'500'000U);
  for (const char* text :
       {"10", "Gbit", "-1Gbit", "0Gbit", "1GB", "nanGbit", "infGbit", "1e9Gbit"}) {
    EXPECT_THROW(parse({"--link", text}), CLI::ParseError) << text;
  }
}

TEST(Flags, OfSomeCollectives) {
  const auto parseFor = [](CollectiveName name, std::vector<std::string> words) {
    CLI::App app("test", "test");
    Options options;
    addCollectiveFlags(app, name, options);
    std::vector<std::string> reversed(words.rbegin(), words.rend());
    app.parse(reversed);
    return options.collective;
  };
  EXPECT_EQ(parseFor(CollectiveName::kAllReduce, {"-o", "avg"}).operation,
            ReduceOperation::kAverage);
  EXPECT_EQ(parseFor(CollectiveName::kReduceScatter, {"--op", "mulsum"}).operation,
            ReduceOperation::kScaledSum);
  EXPECT_EQ(parseFor(CollectiveName::kScatter, {"-r", "3"}).root, 3);
  EXPECT_EQ(parseFor(CollectiveName::kAllToAll, {"--splits", "zipf:1.25"}).splits, "zipf:1.25");
  EXPECT_EQ(parseFor(CollectiveName::kAllToAll, {}).splits, "");
  EXPECT_THROW(parseFor(CollectiveName::kAllReduce, {"-o", "max"}), CLI::ParseError);
  EXPECT_THROW(parseFor(CollectiveName::kAllGather, {"-o", "sum"}), CLI::ParseError);
  EXPECT_THROW(parseFor(CollectiveName::kAllGather, {"--root", "1"}), CLI::ParseError);
  EXPECT_THROW(parseFor(CollectiveName::kSendRecv, {"--splits", "zipf:1"}), CLI::ParseError);
}

}  // namespace
}  // namespace zipccl::tools::perf
