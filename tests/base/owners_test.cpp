// SPDX-License-Identifier: Apache-2.0
//
// The owners of system resources, the clock and the random numbers.

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/clock.hpp"
#include "base/dl_handle.hpp"
#include "base/error.hpp"
#include "base/mapped_file.hpp"
#include "base/random.hpp"
#include "base/unique_fd.hpp"

namespace zipccl {
namespace {

bool isOpenDescriptor(int fd) { return ::fcntl(fd, F_GETFD) != -1; }

TEST(UniqueFd, ClosesOnceAndMoves) {
  int fd = -1;
  {
    UniqueFd first(::open("/dev/null", O_RDONLY | O_CLOEXEC));
    ASSERT_TRUE(first.isOpen());
    fd = first.get();
    UniqueFd second = std::move(first);
    EXPECT_FALSE(first.isOpen());  // NOLINT(bugprone-use-after-move): moved-from is empty
    EXPECT_EQ(second.get(), fd);
    EXPECT_TRUE(isOpenDescriptor(fd));
    second = UniqueFd(::open("/dev/null", O_RDONLY | O_CLOEXEC));
    EXPECT_NE(second.get(), -1);
    fd = second.get();
  }
  EXPECT_FALSE(isOpenDescriptor(fd));
  UniqueFd given(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  const int released = given.release();
  given.reset();
  EXPECT_TRUE(isOpenDescriptor(released));
  ::close(released);
  EXPECT_EQ(UniqueFd(-5).get(), -1);
  EXPECT_FALSE(UniqueFd().isOpen());
}

TEST(DlHandle, FindsSymbolsAndTellsWhatIsMissing) {
  const DlHandle math = DlHandle::open("libm.so.6");
  EXPECT_TRUE(math.isOpen());
  using Function = double (*)(double);
  EXPECT_EQ(math.symbol<Function>("floor")(2.5), 2.0);
  EXPECT_EQ(math.findSymbol<Function>("noSuchFunctionAtAll"), nullptr);
  try {
    static_cast<void>(math.symbol<Function>("noSuchFunctionAtAll"));
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kSystemError);
    EXPECT_NE(error.message().find("noSuchFunctionAtAll"), std::string::npos);
  }
  try {
    static_cast<void>(DlHandle::open("libzipccl_absent.so.9"));
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kSystemError);
    EXPECT_NE(error.message().find("libzipccl_absent.so.9"), std::string::npos);
  }
  std::string reason;
  EXPECT_FALSE(DlHandle::tryOpen("libzipccl_absent.so.9", RTLD_NOW, &reason).has_value());
  EXPECT_FALSE(reason.empty());
  EXPECT_FALSE(DlHandle::tryOpen("libzipccl_absent.so.9", RTLD_NOW, nullptr).has_value());
}

TEST(DlHandle, MovesAndFindsWhatIsLoaded) {
  DlHandle first = DlHandle::open("libm.so.6");
  void* const raw = first.get();
  DlHandle second = std::move(first);
  EXPECT_FALSE(first.isOpen());  // NOLINT(bugprone-use-after-move): moved-from is empty
  EXPECT_EQ(second.get(), raw);
  EXPECT_TRUE(DlHandle::findLoaded("libm.so.6").has_value());
  EXPECT_FALSE(DlHandle::findLoaded("libzipccl_absent.so.9").has_value());
  EXPECT_EQ(first.findSymbol<void*>("floor"), nullptr);
  EXPECT_THROW(static_cast<void>(first.symbol<void*>("floor")), Error);
}

TEST(DlHandle, KnowsTheFolderOfAnImage) {
  static int here = 0;
  const std::filesystem::path program = std::filesystem::canonical("/proc/self/exe");
  EXPECT_EQ(folderOfImage(&here), program.parent_path().string());
  const std::string ofLibc = folderOfImage(reinterpret_cast<const void*>(&::fcntl));
  EXPECT_TRUE(std::filesystem::exists(ofLibc)) << ofLibc;
  int onStack = 0;
  EXPECT_EQ(folderOfImage(&onStack), "");
}

class MappedFileTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = (std::filesystem::temp_directory_path() / "zipccl_map_XXXXXX").string();
    UniqueFd fd(::mkstemp(pattern.data()));
    ASSERT_TRUE(fd.isOpen());
    path_ = pattern;
  }
  void TearDown() override { ::unlink(path_.c_str()); }

  std::string path_;
};

TEST_F(MappedFileTest, ShowsTheBytes) {
  const std::uint64_t seed = freshSeed();
  SCOPED_TRACE(::testing::Message() << "seed " << seed);
  Random random(seed);
  for (const std::size_t bytes : {1u, 4095u, 4096u, 4097u, 100'000u}) {
    std::vector<std::byte> content(bytes);
    random.fill(content);
    std::ofstream(path_, std::ios::binary)
        .write(reinterpret_cast<const char*>(content.data()),
               static_cast<std::streamsize>(content.size()));
    MappedFile file(path_);
    ASSERT_EQ(file.sizeBytes(), bytes);
    EXPECT_EQ(std::memcmp(file.bytes().data(), content.data(), bytes), 0);
    MappedFile moved = std::move(file);
    EXPECT_EQ(file.sizeBytes(), 0u);  // NOLINT(bugprone-use-after-move): moved-from is empty
    EXPECT_TRUE(file.bytes().empty());
    EXPECT_EQ(std::memcmp(moved.bytes().data(), content.data(), bytes), 0);
    moved = MappedFile();
    EXPECT_TRUE(moved.bytes().empty());
  }
}

TEST_F(MappedFileTest, AnEmptyFileIsAnEmptySpan) {
  const MappedFile file(path_);
  EXPECT_EQ(file.sizeBytes(), 0u);
  EXPECT_TRUE(file.bytes().empty());
}

TEST_F(MappedFileTest, TellsWhyNot) {
  const std::string pipe = path_ + ".pipe";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  for (const std::string& path :
       {path_ + ".absent", std::string("/dev/null"), std::string("/tmp"), pipe}) {
    try {
      const MappedFile file(path);
      ADD_FAILURE() << path << " is mapped";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kSystemError);
      EXPECT_NE(error.message().find(path), std::string::npos) << error.what();
    }
  }
  ::unlink(pipe.c_str());
}

TEST(Clock, GoesForward) {
  const std::int64_t startUs = nowUs();
  std::this_thread::sleep_for(std::chrono::milliseconds(5));
  const std::int64_t elapsedUs = nowUs() - startUs;
  EXPECT_GE(elapsedUs, 5000);
  EXPECT_LT(elapsedUs, 60'000'000);
}

TEST(Clock, DeadlinesPass) {
  EXPECT_TRUE(Deadline().isNever());
  EXPECT_TRUE(Deadline(std::chrono::milliseconds(0)).isNever());
  EXPECT_TRUE(Deadline(std::chrono::milliseconds(-1)).isNever());
  EXPECT_TRUE(Deadline(std::chrono::milliseconds::max()).isNever());
  // As far ahead as the clock's own nanoseconds can tell, and a little farther.
  const std::chrono::milliseconds farthest(9'223'372'036'854);
  EXPECT_TRUE(Deadline(farthest).isNever());
  EXPECT_TRUE(Deadline(farthest + std::chrono::hours(1)).isNever());
  const Deadline far(std::chrono::hours(24 * 365 * 100));
  EXPECT_FALSE(far.isNever());
  EXPECT_GT(far.at(), std::chrono::steady_clock::now());
  EXPECT_FALSE(Deadline().hasPassed());
  EXPECT_TRUE(Deadline::now().hasPassed());
  const Deadline soon(std::chrono::milliseconds(20));
  EXPECT_FALSE(soon.isNever());
  EXPECT_GT(soon.at(), std::chrono::steady_clock::now() - std::chrono::seconds(60));
  while (!soon.hasPassed()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  EXPECT_FALSE(Deadline(std::chrono::hours(24)).hasPassed());
}

TEST(Random, MatchesTheReferenceGenerators) {
  // splitmix64 of state 0: the published sequence.
  std::uint64_t state = 0;
  EXPECT_EQ(splitMix64(state), 0xE220A8397B1DCDAFu);
  EXPECT_EQ(splitMix64(state), 0x6E789E6AA1B965F4u);
  // xoshiro256** after its reference code, seeded likewise.
  std::uint64_t mixed = 9;
  std::uint64_t seeder = 1234 ^ splitMix64(mixed);
  std::array<std::uint64_t, 4> s = {};
  for (std::uint64_t& word : s) word = splitMix64(seeder);
  Random random(1234, 9);
  for (int i = 0; i < 1000; ++i) {
    const auto rotl = [](std::uint64_t x, int k) { return (x << k) | (x >> (64 - k)); };
    const std::uint64_t expected = rotl(s[1] * 5, 7) * 9;
    const std::uint64_t t = s[1] << 17;
    s[2] ^= s[0];
    s[3] ^= s[1];
    s[1] ^= s[2];
    s[0] ^= s[3];
    s[2] ^= t;
    s[3] = rotl(s[3], 45);
    ASSERT_EQ(random(), expected) << "number " << i;
  }
}

TEST(Random, SeedsAndStreamsDiffer) {
  std::set<std::uint64_t> first;
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    for (std::uint64_t stream = 0; stream < 20; ++stream) first.insert(Random(seed, stream)());
  }
  EXPECT_EQ(first.size(), 400u);
  EXPECT_EQ(Random(5, 6)(), Random(5, 6)());
  EXPECT_NE(freshSeed(), freshSeed());
}

TEST(Random, RangesAreKept) {
  const std::uint64_t seed = freshSeed();
  SCOPED_TRACE(::testing::Message() << "seed " << seed);
  Random random(seed);
  std::array<int, 7> counts = {};
  for (int i = 0; i < 70'000; ++i) ++counts[random.below(7)];
  for (const int count : counts) EXPECT_NEAR(count, 10'000, 700);
  EXPECT_EQ(random.below(1), 0u);
  bool hasLow = false;
  bool hasHigh = false;
  for (int i = 0; i < 1000; ++i) {
    const std::uint64_t value = random.between(10, 12);
    ASSERT_GE(value, 10u);
    ASSERT_LE(value, 12u);
    hasLow = hasLow || value == 10;
    hasHigh = hasHigh || value == 12;
    const double fraction = random.uniform();
    ASSERT_GE(fraction, 0.0);
    ASSERT_LT(fraction, 1.0);
  }
  EXPECT_TRUE(hasLow && hasHigh);
  EXPECT_FALSE(random.chance(0.0));
  EXPECT_TRUE(random.chance(1.0));
  std::uniform_int_distribution<int> standard(1, 6);
  EXPECT_GE(standard(random), 1);
}

TEST(Random, NormalHasTheMomentsOfANormal) {
  const std::uint64_t seed = freshSeed();
  SCOPED_TRACE(::testing::Message() << "seed " << seed);
  Random random(seed);
  constexpr int kCount = 200'000;
  double sum = 0.0;
  double squares = 0.0;
  double magnitudes = 0.0;
  for (int i = 0; i < kCount; ++i) {
    const double x = random.normal();
    ASSERT_TRUE(std::isfinite(x));
    sum += x;
    squares += x * x;
    magnitudes += std::fabs(x);
  }
  EXPECT_NEAR(sum / kCount, 0.0, 0.02);
  EXPECT_NEAR(squares / kCount, 1.0, 0.03);
  EXPECT_NEAR(magnitudes / kCount, std::sqrt(2.0 / std::numbers::pi), 0.02);
}

TEST(Random, FillWritesEveryByteAndNoOther) {
  for (const std::size_t bytes : {0u, 1u, 7u, 8u, 9u, 1000u}) {
    std::vector<std::byte> buffer(bytes + 16, std::byte{0xA5});
    std::vector<bool> wasWritten(bytes);
    for (std::uint64_t seed = 0; seed < 20; ++seed) {
      Random(seed).fill(std::span(buffer).subspan(8, bytes));
      for (std::size_t i = 0; i < bytes; ++i) {
        if (buffer[8 + i] != std::byte{0xA5}) wasWritten[i] = true;
      }
    }
    for (std::size_t i = 0; i < bytes; ++i) EXPECT_TRUE(wasWritten[i]) << i << " of " << bytes;
    for (std::size_t i = 0; i < 8; ++i) {
      EXPECT_EQ(buffer[i], std::byte{0xA5});
      EXPECT_EQ(buffer[8 + bytes + i], std::byte{0xA5});
    }
  }
}

}  // namespace
}  // namespace zipccl
