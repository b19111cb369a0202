// SPDX-License-Identifier: Apache-2.0
//
// The tune file: what was added is found, by other processes too, and damage is named.

#include "collectives/tune_file.hpp"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "base/error.hpp"
#include "base/text.hpp"

namespace zipccl::collectives {
namespace {

policy::Profile tuneProfile(double encodeGBps) {
  policy::Profile profile{.encodeGBps = encodeGBps, .decodeGBps = 2.5, .frameUs = 0.1};
  profile.allGather.points = {{{4096, 20.0}, {1U << 20, 100.25}}};
  profile.allGather.pointCount = 2;
  profile.allGather.overlap = 0.75F;
  return profile;
}

class TuneFileTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string folder = (std::filesystem::temp_directory_path() / "zipccl-tune-XXXXXX").string();
    ASSERT_NE(::mkdtemp(folder.data()), nullptr);
    folder_ = folder;
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  [[nodiscard]] std::string path() const { return (folder_ / "tune.txt").string(); }
  void write(const std::string& text) const { std::ofstream(path()) << text; }
  [[nodiscard]] std::string read() const {
    std::ifstream file(path());
    return {std::istreambuf_iterator<char>(file), {}};
  }
  [[nodiscard]] std::string complaint(const std::string& of) const {
    try {
      static_cast<void>(TuneFile(of).find("a"));
    } catch (const Error& error) {
      return error.what();
    }
    return {};
  }

  std::filesystem::path folder_;
};

TEST_F(TuneFileTest, KeepsProfilesByTheirKind) {
  const TuneFile file(path());
  EXPECT_FALSE(file.find("nccl/ranks=2/hosts=1"));
  file.add("nccl/ranks=2/hosts=1", tuneProfile(1.0));
  file.add("nccl/ranks=20/hosts=1", tuneProfile(2.0));
  file.add("nccl/ranks=2/hosts=1", tuneProfile(3.0));  // there already
  const TuneFile again(path());
  EXPECT_EQ(again.find("nccl/ranks=2/hosts=1"), tuneProfile(1.0));
  EXPECT_EQ(again.find("nccl/ranks=20/hosts=1"), tuneProfile(2.0));
  EXPECT_FALSE(again.find("nccl/ranks=2"));
  EXPECT_EQ(read().find("3 decode"), std::string::npos);
}

TEST_F(TuneFileTest, TakesCommentsAndLeavesOutAnUnfinishedLine) {
  TuneFile(path()).add("a", tuneProfile(1.0));
  const std::string text = read();
  EXPECT_TRUE(text.starts_with("# "));
  write(text + "\n# by hand\n\nb encode=1 deco");
  EXPECT_EQ(TuneFile(path()).find("a"), tuneProfile(1.0));
  EXPECT_FALSE(TuneFile(path()).find("b"));
  TuneFile(path()).add("c", tuneProfile(2.0));
  EXPECT_EQ(TuneFile(path()).find("c"), tuneProfile(2.0));
  EXPECT_EQ(read().find("deco\n"), std::string::npos);
}

TEST_F(TuneFileTest, NamesWhatIsWrong) {
  write("# a heading\na encode=fast\n");
  const std::string words = complaint(path());
  EXPECT_NE(words.find("line 2"), std::string::npos) << words;
  EXPECT_NE(words.find(path()), std::string::npos) << words;
  EXPECT_NE(words.find("encode=fast"), std::string::npos) << words;
  write(std::string((1U << 20) + 1, '#'));
  EXPECT_NE(complaint(path()).find("more than"), std::string::npos);
  EXPECT_NE(complaint(folder_.string()).find("cannot be read"), std::string::npos);
  EXPECT_THROW(TuneFile((folder_ / "none" / "tune.txt").string()).add("a", tuneProfile(1.0)),
               Error);
}

TEST_F(TuneFileTest, MayBeWrittenBySeveralAtOnce) {
  constexpr int kWriters = 8;
  constexpr int kKinds = 20;
  std::vector<std::thread> writers;
  for (int writer = 0; writer < kWriters; ++writer) {
    writers.emplace_back([this, writer] {
      for (int kind = 0; kind < kKinds; ++kind) {
        // Half of them are the same for all.
        const int owner = kind % 2 == 0 ? 0 : writer;
        TuneFile(path()).add(concat("kind-", owner, '-', kind), tuneProfile(1.0 + kind));
      }
    });
  }
  for (std::thread& writer : writers) writer.join();
  std::size_t lines = 0;
  std::ifstream file(path());
  for (std::string line; std::getline(file, line);) ++lines;
  EXPECT_EQ(lines, 1U + kKinds / 2 + kWriters * kKinds / 2);
  EXPECT_EQ(TuneFile(path()).find("kind-7-19"), tuneProfile(20.0));
}

}  // namespace
}  // namespace zipccl::collectives
