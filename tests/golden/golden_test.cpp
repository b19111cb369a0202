// SPDX-License-Identifier: Apache-2.0
//
// The golden files: what the scalar encoder writes today is what it wrote when they were committed,
// and the decoder reads them as their manifest says.

#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>
#include <string>

#include "golden/golden_files.hpp"
#include "support/seeded_test.hpp"

namespace zipccl::golden {
namespace {

namespace fs = std::filesystem;
using codec::DecodeStatus;

const fs::path kFolder = ZIPCCL_GOLDEN_FOLDER;

std::string textOf(const Bytes& bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

nlohmann::json manifest() {
  return nlohmann::json::parse(textOf(readFile(kFolder / "manifest.json")));
}

void expectDecodes(const Bytes& frame, const Bytes& expected) {
  Bytes elements;
  EXPECT_EQ(nameOf(decodeWhole(frame, elements)), "kOk");
  EXPECT_TRUE(elements == expected) << "other elements";
}

TEST(Golden, FilesAreWhatTheEncoderWrites) {
  for (const std::string& difference : differences(kFolder, goldenFiles())) {
    ADD_FAILURE() << difference << "; golden_tool --write writes them anew";
  }
}

TEST(Golden, FilesAreSmall) {
  std::uintmax_t bytes = 0;
  for (const auto& [path, content] : goldenFiles()) bytes += content.size();
  EXPECT_LT(bytes, 400'000U);
}

TEST(Golden, FramesDecodeToTheirElements) {
  const nlohmann::json frames = manifest().at("frames");
  EXPECT_GE(frames.size(), 15U);
  for (const nlohmann::json& entry : frames) {
    SCOPED_TRACE(entry.dump());
    expectDecodes(readFile(kFolder / entry.at("frame").get<std::string>()),
                  readFile(kFolder / entry.at("elements").get<std::string>()));
  }
}

TEST(Golden, FaultsAreRejectedWithTheirStatus) {
  const nlohmann::json faults = manifest().at("faults");
  EXPECT_GE(faults.size(), 60U);
  for (const nlohmann::json& entry : faults) {
    SCOPED_TRACE(entry.dump());
    Bytes elements;
    const Bytes frame = readFile(kFolder / entry.at("frame").get<std::string>());
    EXPECT_EQ(nameOf(decodeWhole(frame, elements)), entry.at("status").get<std::string>());
  }
}

TEST(Golden, FaultsCoverEveryStatusThatAFrameCanHave) {
  std::set<std::string> reached;
  const nlohmann::json faults = manifest().at("faults");
  for (const nlohmann::json& entry : faults) {
    const auto name = entry.at("status").get<std::string>();
    EXPECT_TRUE(statusOf(name).has_value()) << name;
    reached.insert(name);
  }
  for (int i = 0; i <= static_cast<int>(DecodeStatus::kChecksumMismatch); ++i) {
    const auto status = static_cast<DecodeStatus>(i);
    const bool byItself = status != DecodeStatus::kOk && status != DecodeStatus::kSpecMismatch &&
                          status != DecodeStatus::kOutputTooSmall;
    EXPECT_EQ(reached.contains(std::string(nameOf(status))), byItself) << nameOf(status);
  }
}

TEST(Golden, NamesOfStatusesComeBack) {
  for (int i = 0; i <= static_cast<int>(DecodeStatus::kChecksumMismatch); ++i) {
    const auto status = static_cast<DecodeStatus>(i);
    EXPECT_EQ(statusOf(nameOf(status)), status);
  }
  EXPECT_EQ(statusOf("kNothing"), std::nullopt);
}

TEST(Golden, WorkedExampleIsTheOneInTheDocument) {
  const std::string document = textOf(readFile(ZIPCCL_FORMAT_DOCUMENT));
  const std::string text = "\n```\n" + listing(workedExample().frame) + "```\n";
  EXPECT_NE(document.find(text), std::string::npos)
      << "section 11 should hold what golden_tool --example prints:" << text;
}

class GoldenSample : public zipccl::testing::SeededTest {};

TEST_F(GoldenSample, OfFreshBitsDecodesToo) {
  for (const Frame& frame : frames(random_)) {
    SCOPED_TRACE(frame.name);
    expectDecodes(frame.frame, frame.elements);
  }
  for (const Fault& fault : faults(random_)) {
    Bytes elements;
    EXPECT_EQ(nameOf(decodeWhole(fault.frame, elements)), nameOf(fault.status)) << fault.name;
  }
}

}  // namespace
}  // namespace zipccl::golden
