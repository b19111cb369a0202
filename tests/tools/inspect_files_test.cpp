// SPDX-License-Identifier: Apache-2.0
//
// Files that are inspected: indexes of sharded models, dumps, and files in memory.

#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <string>
#include <vector>

#include "inspect/inputs.hpp"
#include "support/failure.hpp"
#include "support/mapped_file.hpp"
#include "temporary_folder.hpp"
#include "tensors/safetensors_index.hpp"

namespace zipccl::tools::inspect {
namespace {

using testing::safetensorsBytes;
using testing::TemporaryFolder;

/// What the parser says against `text`; empty when it takes it.
std::string complaint(const std::string& text) {
  try {
    static_cast<void>(parseSafetensorsIndex(text));
    return "";
  } catch (const Failure& failure) {
    return failure.what();
  }
}

void expectComplaint(const std::string& text, const std::string& part) {
  const std::string said = complaint(text);
  EXPECT_NE(said.find(part), std::string::npos) << text << "\nsaid: " << said;
}

TEST(SafetensorsIndex, ListsTensorsInTheirOrder) {
  const std::vector<IndexedTensor> tensors = parseSafetensorsIndex(
      R"( {"metadata":{"total_size":1e9,"deep":[[{"weight_map":[null,true]}]]},
         "weight_map":{"b":"2.safetensors","a":"1.safetensors"},"more":[-1,"x"]} )");
  ASSERT_EQ(tensors.size(), 2U);
  EXPECT_EQ(tensors[0].name, "b");
  EXPECT_EQ(tensors[0].file, "2.safetensors");
  EXPECT_EQ(tensors[1].name, "a");
  EXPECT_EQ(tensors[1].file, "1.safetensors");
  EXPECT_TRUE(parseSafetensorsIndex(R"({"weight_map":{}})").empty());
}

TEST(SafetensorsIndex, RejectsEverythingElse) {
  expectComplaint("", "no valid JSON");
  expectComplaint("{", "no valid JSON");
  expectComplaint("{}}", "no valid JSON");
  expectComplaint(std::string("{\"weight_map\":{}}\0", 18), "no valid JSON");
  expectComplaint("[]", "no JSON object");
  expectComplaint("7", "no JSON object");
  expectComplaint("\"weight_map\"", "no JSON object");
  expectComplaint("{}", "has no weight_map");
  expectComplaint(R"({"a":{"weight_map":{"x":"f"}}})", "has no weight_map");
  for (const char* value : {"[]", "1", "-1", "0.5", "null", "true", R"("x")"}) {
    expectComplaint(std::string(R"({"weight_map":)") + value + "}", "weight_map is no object");
  }
  for (const char* value : {"[]", "1", "-1", "0.5", "null", "true", "{}"}) {
    expectComplaint(std::string(R"({"weight_map":{"a":)") + value + "}}",
                    "the file of 'a' is not a string");
  }
  expectComplaint(R"({"weight_map":{},"weight_map":{}})", "weight_map twice");
  expectComplaint(R"({"weight_map":{"a":"f","a":"f"}})", "'a' appears twice");
  for (const char* name : {"", ".", "..", "/etc/passwd", "../f", "x/f", "f\\u0000"}) {
    expectComplaint(std::string(R"({"weight_map":{"a":")") + name + "\"}}", "is no name of a file");
  }
  // A reader that built a tree of this, or descended into it, would not survive.
  expectComplaint(R"({"a":)" + std::string(5'000'000, '['), "no valid JSON");
  EXPECT_EQ(complaint(R"({"a":)" + std::string(1'000'000, '[') + std::string(1'000'000, ']') +
                      R"(,"weight_map":{}})"),
            "");
}

class InspectFiles : public ::testing::Test {
 protected:
  static std::string tensorFile(const std::string& name, const std::string& content) {
    return safetensorsBytes("{\"" + name + R"(":{"dtype":"BF16","shape":[)" +
                                std::to_string(content.size() / 2) + R"(],"data_offsets":[0,)" +
                                std::to_string(content.size()) + "]}}",
                            content);
  }

  static std::string textOf(std::span<const std::byte> bytes) {
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
  }

  static std::string complaintOf(const Options& options) {
    try {
      static_cast<void>(openInputs(options));
      return "";
    } catch (const std::exception& failure) {
      return failure.what();
    }
  }

  TemporaryFolder folder_;
};

TEST_F(InspectFiles, OpensTheShardsOfAnIndex) {
  folder_.write("2.safetensors", tensorFile("b", "BBbb"));
  folder_.write("1.safetensors", tensorFile("a", "AA"));
  Options options;
  options.files = {
      folder_.write("m.index.json", R"({"weight_map":{"b":"2.safetensors","a":"1.safetensors"}})")};
  const Inputs inputs = openInputs(options);
  ASSERT_EQ(inputs.tensors.size(), 2U);
  EXPECT_EQ(inputs.paths, (std::vector<std::string>{folder_.path("1.safetensors"),
                                                    folder_.path("2.safetensors")}));
  EXPECT_EQ(inputs.tensors[0].name, "a");
  EXPECT_EQ(textOf(inputs.tensors[0].bytes), "AA");
  EXPECT_EQ(textOf(inputs.tensors[1].bytes), "BBbb");
  EXPECT_EQ(inputs.tensors[1].file, 1U);
  EXPECT_EQ(inputs.bytes(), 6U);

  folder_.write("m.index.json", R"({"weight_map":{"c":"2.safetensors"}})");
  EXPECT_NE(complaintOf(options).find("places 'c' in "), std::string::npos);
  folder_.write("m.index.json", R"({"weight_map":{"c":"3.safetensors"}})");
  EXPECT_NE(complaintOf(options).find("No such file"), std::string::npos);
}

TEST_F(InspectFiles, LeavesOutWhatIsNotAskedFor) {
  Options options;
  options.files = {folder_.write("x.safetensors", tensorFile("layer.mlp", "AABB"))};
  options.patterns = {"attn"};
  EXPECT_THROW(static_cast<void>(openInputs(options)), UsageError);
  options.patterns = {"mlp"};
  EXPECT_EQ(openInputs(options).tensors.size(), 1U);
  // A file without tensors is no fault.
  options.files = {folder_.write("none.safetensors", safetensorsBytes("{}", ""))};
  EXPECT_EQ(openInputs(options).tensors.size(), 0U);
}

TEST_F(InspectFiles, TakesADumpAsOneTensor) {
  Options options;
  options.files = {folder_.write("grads.bin", "12345678")};
  options.dumpDatatype = zipcclFloat32;
  const Inputs inputs = openInputs(options);
  ASSERT_EQ(inputs.tensors.size(), 1U);
  EXPECT_EQ(inputs.tensors[0].name, "grads.bin");
  EXPECT_EQ(inputs.tensors[0].dtype, "F32");
  EXPECT_EQ(inputs.tensors[0].elementCount, 2U);
  EXPECT_EQ(textOf(inputs.tensors[0].bytes), "12345678");
  folder_.write("grads.bin", "1234567");
  EXPECT_NE(complaintOf(options).find("7 bytes, no multiple of the 4 bytes"), std::string::npos);
}

TEST_F(InspectFiles, RefusesMoreThanAFrameHolds) {
  const std::string path = folder_.write("huge", "");
  std::error_code error;
  std::filesystem::resize_file(path, (std::uint64_t{1} << 41) + 2, error);
  if (error) GTEST_SKIP() << "the file system takes no file of 2 TiB";
  Options options;
  options.files = {path};
  options.dumpDatatype = zipcclBfloat16;
  const std::string said = complaintOf(options);
  if (said.find("allocate") != std::string::npos) GTEST_SKIP() << "no room in the address space";
  EXPECT_NE(said.find("2^40"), std::string::npos) << said;
  // What is not encoded may be as large as it likes.
  options.dumpDatatype = zipcclInt8;
  EXPECT_EQ(complaintOf(options), "");
}

TEST_F(InspectFiles, MapsWhatWasThere) {
  const MappedFile empty(File(folder_.write("empty", "")));
  EXPECT_TRUE(empty.bytes().empty());
  giveBack(empty.bytes());
  const std::string content(100'000, 'x');
  MappedFile first(File(folder_.write("some", content)));
  giveBack(first.bytes().subspan(5, 70'000));
  const MappedFile second(std::move(first));
  EXPECT_EQ(textOf(second.bytes()), content);
}

using InspectFilesDeathTest = InspectFiles;

TEST_F(InspectFilesDeathTest, AFileThatBecomesShorterEndsTheProgramWithWords) {
  ::testing::FLAGS_gtest_death_test_style = "threadsafe";
  const auto touchTheEnd = [] {
    const TemporaryFolder folder;
    const std::string path = folder.write("shrinks", std::string(1 << 20, 'x'));
    const MappedFile file{File(path)};
    std::filesystem::resize_file(path, 10);
    const BusErrorGuard guard;
    volatile std::byte last = file.bytes().back();
    static_cast<void>(last);
  };
  EXPECT_EXIT(touchTheEnd(), ::testing::ExitedWithCode(3), "zipccl: a file became shorter");
}

}  // namespace
}  // namespace zipccl::tools::inspect
