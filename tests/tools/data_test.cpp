// SPDX-License-Identifier: Apache-2.0
//
// What is sent: the argument of --data, tensors of a file laid end to end, and the pools and
// slices.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <set>
#include <string>
#include <vector>

#include "perf/data_pools.hpp"
#include "perf/data_source.hpp"
#include "perf/data_spec.hpp"
#include "perf/run_parts.hpp"
#include "support/failure.hpp"
#include "support/file.hpp"
#include "support/seeded_test.hpp"
#include "temporary_folder.hpp"

namespace zipccl::tools::perf {
namespace {

using testing::safetensorsBytes;
using testing::TemporaryFolder;

DataSpec parse(const std::string& text, const std::set<std::string>& files = {}) {
  return parseDataSpec(text, [&files](const std::string& path) { return files.count(path) != 0; });
}

std::string messageOf(const std::function<void()>& action) {
  try {
    action();
  } catch (const std::exception& error) {
    return error.what();
  }
  return "no exception";
}

TEST(DataSpec, ReadsSigma) {
  EXPECT_EQ(std::get<GaussianSpec>(parse("normal:0.02")).sigma, 0.02);
  EXPECT_EQ(std::get<GaussianSpec>(parse("normal:1e-5")).sigma, 1e-5);
  for (const char* text : {"normal:", "normal", "normal:0", "normal:-1", "normal:x", "normal:1x",
                           "normal:inf", "normal:nan", "normal:1e999", "normal: 1"}) {
    EXPECT_THROW(static_cast<void>(parse(text)), UsageError) << text;
  }
}

TEST(DataSpec, ReadsOtherGeneratedData) {
  EXPECT_EQ(std::get<WidenedSpec>(parse("widened")).sigma, 0.02);
  EXPECT_EQ(std::get<WidenedSpec>(parse("widened:3")).sigma, 3.0);
  EXPECT_EQ(std::get<ZerosSpec>(parse("zeros:0.25")).share, 0.25);
  EXPECT_EQ(std::get<ZerosSpec>(parse("zeros:1")).share, 1.0);
  EXPECT_TRUE(std::holds_alternative<RandomBitsSpec>(parse("random-bits")));
  EXPECT_EQ(std::get<UniformExponentSpec>(parse("uniform-exponent")).octaves, 16);
  EXPECT_EQ(std::get<UniformExponentSpec>(parse("uniform-exponent:3")).octaves, 3);
  for (const char* text : {"widened:", "widened:0", "zeros", "zeros:", "zeros:-0.1", "zeros:1.1",
                           "zeros:nan", "random-bits:1", "random", "uniform-exponent:",
                           "uniform-exponent:0", "uniform-exponent:101", "uniform-exponent:1.5"}) {
    EXPECT_THROW(static_cast<void>(parse(text)), UsageError) << text;
  }
}

TEST(DataSpec, SplitsPathAndTensor) {
  const auto file = [](const std::string& text, const std::set<std::string>& files) {
    return std::get<FileSpec>(parse(text, files));
  };
  EXPECT_EQ(file("file:a.safetensors", {"a.safetensors"}).path, "a.safetensors");
  EXPECT_FALSE(file("file:a.safetensors", {"a.safetensors"}).tensor);
  EXPECT_EQ(file("file:a.safetensors:x", {"a.safetensors"}).tensor, "x");
  EXPECT_EQ(file("file:a.safetensors:x:y", {"a.safetensors"}).tensor, "x:y");
  EXPECT_EQ(file("file:a.safetensors:", {"a.safetensors"}).tensor, "");
  EXPECT_EQ(file("file:/d:1/a:x", {"/d:1/a"}).path, "/d:1/a");
  EXPECT_EQ(file("file:/d:1/a:x", {"/d:1/a"}).tensor, "x");
  EXPECT_EQ(file("file:a:b", {"a:b"}).path, "a:b");
}

TEST(DataSpec, RejectsWhatIsNeither) {
  for (const char* text : {"", "file", "file:", "file:missing", "uniform:1", "zeros", ":"}) {
    EXPECT_THROW(static_cast<void>(parse(text)), UsageError) << text;
  }
  EXPECT_NE(messageOf([] { static_cast<void>(parse("file:gone:t")); }).find("'gone:t'"),
            std::string::npos);
}

/// A file with two bf16 tensors, an fp32 one between them, an empty one, and integers.
class FileSourceTest : public ::testing::Test {
 protected:
  FileSourceTest() {
    std::string data;
    for (int i = 0; i < 100; ++i) data += static_cast<char>(i);
    path_ = folder_.write("x.safetensors", safetensorsBytes(R"({
      "first":{"dtype":"BF16","shape":[3],"data_offsets":[8,14]},
      "counts":{"dtype":"I32","shape":[2],"data_offsets":[0,8]},
      "single":{"dtype":"F32","shape":[2,2],"data_offsets":[14,30]},
      "second":{"dtype":"BF16","shape":[2,1],"data_offsets":[30,34]},
      "empty":{"dtype":"BF16","shape":[0],"data_offsets":[34,34]},
      "strange":{"dtype":"F4","shape":[132],"data_offsets":[34,100]},
      "__metadata__":{"format":"pt"}})",
                                                            data));
  }

  [[nodiscard]] std::unique_ptr<DataSource> open(
      const std::optional<std::string>& tensor,
      std::optional<zipcclDataType_t> datatype = std::nullopt) const {
    return openFileSource({path_, tensor}, datatype);
  }

  static std::vector<int> fill(const DataSource& source, int rank, int ranks, std::size_t bytes) {
    std::vector<std::byte> elements(bytes, std::byte{0xEE});
    source.fill(0, rank, ranks, 2, elements);
    std::vector<int> values;
    for (const std::byte byte : elements) values.push_back(std::to_integer<int>(byte));
    return values;
  }

  TemporaryFolder folder_;
  std::string path_;
};

TEST_F(FileSourceTest, LaysTensorsOfTheFirstCodedDatatypeEndToEndAndRepeatsThem) {
  const auto source = open(std::nullopt);
  EXPECT_EQ(source->datatype(), zipcclBfloat16);
  EXPECT_EQ(fill(*source, 0, 4, 24),
            (std::vector<int>{8,  9,  10, 11, 12, 13, 30, 31, 32, 33, 8,  9,
                              10, 11, 12, 13, 30, 31, 32, 33, 8,  9,  10, 11}));
}

TEST_F(FileSourceTest, BeginsElsewhereOnEachRank) {
  const auto source = open(std::nullopt);
  // Five elements over four ranks: elements 0, 1, 2, 3.
  EXPECT_EQ(fill(*source, 1, 4, 4), (std::vector<int>{10, 11, 12, 13}));
  EXPECT_EQ(fill(*source, 2, 4, 4), (std::vector<int>{12, 13, 30, 31}));
  EXPECT_EQ(fill(*source, 3, 4, 12),
            (std::vector<int>{30, 31, 32, 33, 8, 9, 10, 11, 12, 13, 30, 31}));
}

TEST_F(FileSourceTest, TakesTheDatatypeThatIsAskedFor) {
  const auto source = open(std::nullopt, zipcclFloat32);
  EXPECT_EQ(source->datatype(), zipcclFloat32);
  EXPECT_EQ(fill(*source, 0, 1, 8), (std::vector<int>{14, 15, 16, 17, 18, 19, 20, 21}));
  EXPECT_NE(messageOf([this] {
              static_cast<void>(open(std::nullopt, zipcclFloat16));
            }).find("has no tensor of half. It holds: counts (I32), first (BF16)"),
            std::string::npos);
}

TEST_F(FileSourceTest, TakesTheTensorThatIsNamed) {
  EXPECT_EQ(fill(*open("second"), 0, 1, 6), (std::vector<int>{30, 31, 32, 33, 30, 31}));
  EXPECT_EQ(open("counts")->datatype(), zipcclInt32);
  EXPECT_EQ(open("second", zipcclBfloat16)->datatype(), zipcclBfloat16);
}

TEST_F(FileSourceTest, NamesTheTensorsThatThereAre) {
  EXPECT_EQ(messageOf([this] { static_cast<void>(open("thrid")); }),
            path_ +
                " has no tensor 'thrid'. It holds: counts (I32), first (BF16), single (F32), "
                "second (BF16), empty (BF16), strange (F4).");
  EXPECT_THROW(static_cast<void>(open("thrid")), UsageError);
  EXPECT_THROW(static_cast<void>(open("empty")), UsageError);
  EXPECT_THROW(static_cast<void>(open("strange")), UsageError);
  EXPECT_THROW(static_cast<void>(open("single", zipcclBfloat16)), UsageError);
}

TEST_F(FileSourceTest, NamesAFewOfManyTensors) {
  std::string header = "{";
  for (int i = 0; i < 1000; ++i) {
    header += (i == 0 ? "" : ",") + std::string("\"t") + std::to_string(i) +
              R"(":{"dtype":"U8","shape":[0],"data_offsets":[0,0]})";
  }
  const std::string path = folder_.write("many", safetensorsBytes(header + "}", ""));
  const std::string message = messageOf([&path] {
    static_cast<void>(openFileSource({path, "x"}, std::nullopt));
  });
  EXPECT_NE(message.find(" and 980 more."), std::string::npos) << message;
  EXPECT_LT(message.size(), 1000U);
}

TEST_F(FileSourceTest, SaysWhenAFileHasNothingToCompress) {
  const std::string path = folder_.write(
      "ints",
      safetensorsBytes(R"({"n":{"dtype":"I32","shape":[1],"data_offsets":[0,4]}})", "1234"));
  EXPECT_NE(messageOf([&path] {
              static_cast<void>(openFileSource({path, std::nullopt}, std::nullopt));
            }).find("has no tensor of a datatype that can be compressed. It holds: n (I32)."),
            std::string::npos);
}

TEST_F(FileSourceTest, FailsWhenTheFileShrinksMeanwhile) {
  const auto source = open(std::nullopt);
  std::filesystem::resize_file(path_, std::filesystem::file_size(path_) - 80);
  std::vector<std::byte> elements(24);
  EXPECT_THROW(source->fill(0, 0, 1, 1, elements), Failure);
}

class GaussianSourceTest : public zipccl::testing::SeededTest {
 protected:
  static std::vector<std::byte> fill(const DataSource& source, std::uint64_t seed, int rank,
                                     int threads, std::size_t bytes) {
    std::vector<std::byte> elements(bytes, std::byte{0xEE});
    source.fill(seed, rank, 4, threads, elements);
    return elements;
  }
};

TEST_F(GaussianSourceTest, IsTheSameWhateverTheThreads) {
  const auto source = makeGeneratedSource(GaussianSpec{0.02}, zipcclBfloat16);
  const std::size_t bytes = 700'002;
  const std::vector<std::byte> data = fill(*source, seed_, 1, 1, bytes);
  EXPECT_EQ(data, fill(*source, seed_, 1, 3, bytes));
  EXPECT_EQ(data, fill(*source, seed_, 1, 64, bytes));
  EXPECT_NE(data, fill(*source, seed_, 2, 1, bytes));
  EXPECT_NE(data, fill(*source, seed_ + 1, 1, 1, bytes));
}

TEST_F(GaussianSourceTest, HasItsSigmaInEveryFloatingPointDatatype) {
  constexpr std::size_t kCount = 200'000;
  std::vector<std::byte> data =
      fill(*makeGeneratedSource(GaussianSpec{0.02}, zipcclBfloat16), seed_, 0, 1, kCount * 2);
  double squares = 0.0;
  for (std::size_t i = 0; i < kCount; ++i) {
    std::uint32_t bits = 0;
    std::memcpy(reinterpret_cast<std::byte*>(&bits) + 2, data.data() + 2 * i, 2);
    const double value = std::bit_cast<float>(bits);
    squares += value * value;
  }
  EXPECT_NEAR(std::sqrt(squares / kCount), 0.02, 0.0003);

  data = fill(*makeGeneratedSource(GaussianSpec{3.0}, zipcclFloat32), seed_, 0, 1, kCount * 4);
  squares = 0.0;
  for (std::size_t i = 0; i < kCount; ++i) {
    float value = 0.0F;
    std::memcpy(&value, data.data() + 4 * i, 4);
    squares += double{value} * value;
  }
  EXPECT_NEAR(std::sqrt(squares / kCount), 3.0, 0.045);
}

TEST_F(GaussianSourceTest, GivesIntegersRandomBits) {
  const std::vector<std::byte> data =
      fill(*makeGeneratedSource(GaussianSpec{0.02}, zipcclInt32), seed_, 0, 1, 400'000);
  std::vector<int> seen(256, 0);
  for (const std::byte byte : data) ++seen[std::to_integer<std::size_t>(byte)];
  for (const int count : seen) EXPECT_NEAR(count, 1562, 250);
}

std::vector<std::uint16_t> halvesOf(const std::vector<std::byte>& bytes) {
  std::vector<std::uint16_t> halves(bytes.size() / 2);
  std::memcpy(halves.data(), bytes.data(), bytes.size());
  return halves;
}

TEST_F(GaussianSourceTest, OtherDataIsWhatItsNameSays) {
  constexpr std::size_t kCount = 200'000;
  const auto make = [this](const DataSpec& spec, std::optional<zipcclDataType_t> datatype,
                           std::size_t bytes) {
    return halvesOf(fill(*makeGeneratedSource(spec, datatype), seed_, 0, 1, bytes));
  };
  // fp32 whose upper halves are the bf16 of the same seed.
  const auto widened = make(WidenedSpec{3.0}, std::nullopt, kCount * 4);
  const auto normal = make(GaussianSpec{3.0}, zipcclBfloat16, kCount * 2);
  for (std::size_t i = 0; i < kCount; ++i) {
    ASSERT_EQ(widened[2 * i], 0);
    ASSERT_EQ(widened[2 * i + 1], normal[i]);
  }
  const auto zeros = make(ZerosSpec{.share = 0.4}, std::nullopt, kCount * 2);
  EXPECT_NEAR(static_cast<double>(std::count(zeros.begin(), zeros.end(), 0)), 0.4 * kCount,
              0.01 * kCount);
  // Octaves 2^-1 to 2^-5: exponent fields 126 down to 122, and both signs.
  std::vector<std::size_t> fields(512, 0);
  for (const std::uint16_t half : make(UniformExponentSpec{5}, std::nullopt, kCount * 2)) {
    ++fields[half >> 7];
  }
  for (std::size_t field = 0; field < fields.size(); ++field) {
    const bool isWanted = field % 256 >= 122 && field % 256 <= 126;
    EXPECT_NEAR(static_cast<double>(fields[field]), isWanted ? kCount / 10.0 : 0.0,
                isWanted ? 0.01 * kCount : 0.0)
        << field;
  }
  const auto bits = make(RandomBitsSpec{}, zipcclUint8, kCount * 2);
  double sum = 0.0;
  for (const std::uint16_t half : bits) sum += half;
  EXPECT_NEAR(sum / kCount, 32767.5, 400.0);
}

TEST_F(GaussianSourceTest, RefusesDatatypesThatDoNotFit) {
  EXPECT_THROW(static_cast<void>(makeGeneratedSource(WidenedSpec{}, zipcclBfloat16)), UsageError);
  EXPECT_THROW(static_cast<void>(makeGeneratedSource(ZerosSpec{}, zipcclInt32)), UsageError);
  EXPECT_THROW(static_cast<void>(makeGeneratedSource(UniformExponentSpec{}, zipcclFloat16)),
               UsageError);
}

TEST(PoolGeometryTest, HasRoomForTheLargestMessageAndMore) {
  for (const std::uint64_t most : {0U, 1U, 63U, 1000U, 4U << 20, 100U << 20}) {
    for (const std::size_t step : {1U, 2U, 4U, 8U}) {
      for (const int ranks : {1, 3, 4, 1024}) {
        const PoolGeometry geometry(most, step, ranks);
        EXPECT_GT(geometry.elements(), most);
        EXPECT_EQ(geometry.bytes(), geometry.elements() * step);
        EXPECT_LE(geometry.bytes(), std::max<std::uint64_t>(most * step * 5 / 4, 64U << 20) + 256);
      }
    }
  }
}

TEST(PoolGeometryTest, GivesEachCallAnotherSliceInsideThePool) {
  for (const std::uint64_t most : {1000U, 65536U}) {
    const PoolGeometry geometry(most, 2, 4);
    const std::vector<std::byte> pool(geometry.bytes());
    for (const std::uint64_t count : {std::uint64_t{0}, std::uint64_t{1}, most / 3, most}) {
      std::set<const std::byte*> begins;
      for (std::uint64_t call = 0; call < 100; ++call) {
        const std::span<const std::byte> slice = geometry.slice(pool, call, count);
        ASSERT_EQ(slice.size(), count * 2);
        ASSERT_GE(slice.data(), pool.data());
        ASSERT_LE(slice.data() + slice.size(), pool.data() + pool.size());
        ASSERT_EQ((slice.data() - pool.data()) % 64, 0);
        ASSERT_NE(slice.data(), geometry.slice(pool, call + 1, count).data());
        begins.insert(slice.data());
      }
      EXPECT_GE(begins.size(), 16U) << most << ' ' << count;
    }
  }
}

TEST(PoolGeometryTest, MovesALargeMessageToo) {
  const PoolGeometry geometry(16U << 20, 2, 4);
  const std::vector<std::byte> pool(geometry.bytes());
  std::set<const std::byte*> begins;
  for (std::uint64_t call = 0; call < 12; ++call) {
    begins.insert(geometry.slice(pool, call, 16U << 20).data());
  }
  EXPECT_GE(begins.size(), 3U);
}

TEST(ExpectMemory, CountsAllProcessesOfTheMachine) {
  constexpr int kRanks = 4;
  const auto allGather =
      makeCollective({.name = CollectiveName::kAllGather}, zipcclBfloat16, kRanks);
  const auto fits = [&](std::uint64_t count, int processes) {
    try {
      expectMemory(count, PoolGeometry(count, 2, kRanks), *allGather, {.processes = processes});
      return true;
    } catch (const Failure&) {
      return false;
    }
  };
  std::uint64_t count = 1 << 10;
  ASSERT_TRUE(fits(count, kRanks));
  while (fits(2 * count, 1)) count *= 2;
  EXPECT_TRUE(fits(count, 1)) << "takes more than half of the memory";
  EXPECT_FALSE(fits(count, 2));
  EXPECT_FALSE(fits(count, kRanks));
}

TEST(DataPoolsTest, HoldsWhatTheSourceGivesEachRank) {
  const auto source = makeGeneratedSource(GaussianSpec{1.0}, zipcclBfloat16);
  const PoolGeometry geometry(5000, 2, 3);
  const DataPools pools(*source, 7, 3, geometry, 2);
  for (int rank = 0; rank < 3; ++rank) {
    std::vector<std::byte> expected(geometry.bytes());
    source->fill(7, rank, 3, 1, expected);
    EXPECT_TRUE(std::equal(expected.begin(), expected.end(), pools.pool(rank).begin()));
  }
}

TEST(Fingerprint, SeesEveryBitAndTheLength) {
  std::vector<std::byte> bytes(27, std::byte{0x5A});
  std::set<std::uint64_t> seen = {fingerprint(bytes)};
  for (std::size_t bit = 0; bit < bytes.size() * 8; ++bit) {
    bytes[bit / 8] ^= std::byte{1} << (bit % 8);
    EXPECT_TRUE(seen.insert(fingerprint(bytes)).second) << bit;
    bytes[bit / 8] ^= std::byte{1} << (bit % 8);
  }
  bytes.assign(26, std::byte{0});
  seen.insert(fingerprint(bytes));
  bytes.push_back(std::byte{0});
  EXPECT_TRUE(seen.insert(fingerprint(bytes)).second);
}

}  // namespace
}  // namespace zipccl::tools::perf
