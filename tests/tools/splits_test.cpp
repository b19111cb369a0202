// SPDX-License-Identifier: Apache-2.0
//
// How an uneven all-to-all is cut.

#include "perf/splits.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <numeric>
#include <string>
#include <vector>

#include "perf/random_bits.hpp"
#include "support/failure.hpp"
#include "support/file.hpp"
#include "temporary_folder.hpp"

namespace zipccl::tools::perf {
namespace {

using testing::TemporaryFolder;

bool isAFile(const std::string& path) { return path == "x" || path == "a:b"; }

TEST(Splits, ReadWhatTheFlagTakes) {
  EXPECT_EQ(std::get<ZipfSplits>(parseSplits("zipf:1.25", isAFile)).exponent, 1.25);
  EXPECT_EQ(std::get<ZipfSplits>(parseSplits("zipf:0", isAFile)).exponent, 0.0);
  const auto file = std::get<FileSpec>(parseSplits("file:a:b:t:u", isAFile));
  EXPECT_EQ(file.path, "a:b");
  EXPECT_EQ(file.tensor, "t:u");
  for (const char* text : {"", "zipf", "zipf:", "zipf:-1", "zipf:11", "zipf:x", "zipf:nan", "1.0",
                           "even", "file:", "file:x", "file:y:t"}) {
    EXPECT_THROW(static_cast<void>(parseSplits(text, isAFile)), UsageError) << text;
  }
}

TEST(Splits, OfZipfFallByRank) {
  EXPECT_EQ(shares(ZipfSplits{0.0}, 4), (std::vector<double>{0.25, 0.25, 0.25, 0.25}));
  const std::vector<double> harmonic = shares(ZipfSplits{1.0}, 3);
  EXPECT_DOUBLE_EQ(harmonic[0], 6.0 / 11.0);
  EXPECT_DOUBLE_EQ(harmonic[1], 3.0 / 11.0);
  EXPECT_DOUBLE_EQ(harmonic[2], 2.0 / 11.0);
}

TEST(Splits, PutExpertsOnRanksInBlocks) {
  EXPECT_EQ(sharesOfExperts({1, 2, 3, 10}, 2), (std::vector<double>{3.0 / 16.0, 13.0 / 16.0}));
  EXPECT_EQ(sharesOfExperts({1, 1, 2}, 2), (std::vector<double>{0.5, 0.5}));
  EXPECT_EQ(sharesOfExperts({3, 1}, 4), (std::vector<double>{0.75, 0.0, 0.25, 0.0}));
  EXPECT_THROW(static_cast<void>(sharesOfExperts({0, 0}, 2)), UsageError);
  EXPECT_THROW(static_cast<void>(sharesOfExperts({}, 2)), UsageError);
}

TEST(Splits, CutEverythingAndNothingTwice) {
  const std::uint64_t seed = freshSeed();
  SCOPED_TRACE(::testing::Message() << "seed " << seed);
  RandomBits random(seed, 0, 0);
  for (int round = 0; round < 2000; ++round) {
    std::vector<std::uint64_t> tokens(1 + random() % 40);
    for (std::uint64_t& count : tokens) count = random() % 3 == 0 ? 0 : random() % 10'000;
    tokens[random() % tokens.size()] += 1;
    const int ranks = static_cast<int>(1 + random() % 20);
    const std::uint64_t elements = random() >> (24 + random() % 40);
    const std::vector<double> ofRank = sharesOfExperts(tokens, ranks);
    const std::vector<std::uint64_t> parts = cut(ofRank, elements);
    ASSERT_EQ(std::accumulate(parts.begin(), parts.end(), std::uint64_t{0}), elements);
    for (std::size_t rank = 0; rank < parts.size(); ++rank) {
      if (ofRank[rank] == 0.0) {
        ASSERT_EQ(parts[rank], 0U) << "rank " << rank;
      }
      ASSERT_NEAR(static_cast<double>(parts[rank]), ofRank[rank] * static_cast<double>(elements),
                  1.5);
    }
  }
}

std::string safetensors(const std::string& dtype, std::size_t count, const std::string& data) {
  const std::string header = R"({"t":{"dtype":")" + dtype + R"(","shape":[)" +
                             std::to_string(count) + R"(],"data_offsets":[0,)" +
                             std::to_string(data.size()) + "]}}";
  std::string file(8, '\0');
  const std::uint64_t headerBytes = header.size();
  std::memcpy(file.data(), &headerBytes, sizeof(headerBytes));
  return file + header + data;
}

template <class Integer>
std::string bytesOf(const std::vector<Integer>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(Integer)};
}

TEST(Splits, ReadTokensOfARouter) {
  const TemporaryFolder folder;
  const auto sharesOf = [&](const std::string& content) {
    const std::string path = folder.write("x.safetensors", content);
    return shares(parseSplits("file:" + path + ":t", isRegularFile), 2);
  };
  const std::vector<double> expected = {0.25, 0.75};
  EXPECT_EQ(sharesOf(safetensors("I32", 4, bytesOf<std::int32_t>({1, 0, 2, 1}))), expected);
  EXPECT_EQ(sharesOf(safetensors("I64", 2, bytesOf<std::int64_t>({1LL << 40, 3LL << 40}))),
            expected);
  EXPECT_THROW(sharesOf(safetensors("I32", 2, bytesOf<std::int32_t>({1, -1}))), UsageError);
  EXPECT_THROW(sharesOf(safetensors("F32", 2, bytesOf<float>({1, 1}))), UsageError);
  EXPECT_THROW(sharesOf(safetensors("I32", 2, bytesOf<std::int32_t>({0, 0}))), UsageError);
  const std::string path = folder.write("y.safetensors", safetensors("I32", 0, ""));
  EXPECT_THROW(static_cast<void>(shares(FileSpec{path, "other"}, 2)), UsageError);
}

}  // namespace
}  // namespace zipccl::tools::perf
