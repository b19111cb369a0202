// SPDX-License-Identifier: Apache-2.0
//
// The reader of safetensors files: good files, every kind of bad one, and random damage.

#include "tensors/safetensors.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <string>
#include <vector>

#include "support/failure.hpp"
#include "support/seeded_test.hpp"
#include "temporary_folder.hpp"

namespace zipccl::tools {
namespace {

using testing::safetensorsBytes;
using testing::TemporaryFolder;

std::string entry(const std::string& name, const std::string& dtype, const std::string& shape,
                  const std::string& offsets) {
  return "\"" + name + R"(":{"dtype":")" + dtype + R"(","shape":)" + shape + R"(,"data_offsets":)" +
         offsets + "}";
}

/// What the parser says against `header`; empty when it takes it.
std::string complaint(const std::string& header, std::uint64_t dataBytes) {
  try {
    static_cast<void>(parseSafetensorsHeader(header, dataBytes));
    return "";
  } catch (const Failure& failure) {
    return failure.what();
  }
}

void expectComplaint(const std::string& header, std::uint64_t dataBytes, const std::string& part) {
  const std::string said = complaint(header, dataBytes);
  EXPECT_NE(said.find(part), std::string::npos) << header << "\nsaid: " << said;
}

TEST(SafetensorsHeader, ListsTensorsInTheOrderOfTheirBytes) {
  const std::vector<Tensor> tensors = parseSafetensorsHeader(
      "{" + entry("b", "F32", "[2,3]", "[6,30]") + "," + entry("a", "BF16", "[3]", "[0,6]") + "," +
          entry("none", "BF16", "[4,0]", "[6,6]") + "," + entry("scalar", "U8", "[]", "[30,31]") +
          R"(,"__metadata__":{"x":"y"}}   )",
      31);
  ASSERT_EQ(tensors.size(), 4U);
  EXPECT_EQ(tensors[0].name, "a");
  EXPECT_EQ(tensors[0].dtype, "BF16");
  EXPECT_EQ(tensors[0].bytes(), 6U);
  EXPECT_EQ(tensors[1].name, "none");
  EXPECT_EQ(tensors[2].name, "b");
  EXPECT_EQ(tensors[2].shape, (std::vector<std::uint64_t>{2, 3}));
  EXPECT_EQ(tensors[2].beginByte, 6U);
  EXPECT_EQ(tensors[3].name, "scalar");
  EXPECT_TRUE(parseSafetensorsHeader("{}", 0).empty());
}

TEST(SafetensorsHeader, RejectsOffsetsOutsideTheData) {
  expectComplaint("{" + entry("a", "U8", "[4]", "[0,4]") + "}", 3, "lie outside");
  expectComplaint("{" + entry("a", "U8", "[0]", "[4,0]") + "}", 4, "lie outside");
  expectComplaint("{" + entry("a", "U8", "[1]", "[18446744073709551615,0]") + "}", 4,
                  "lie outside");
  expectComplaint(
      "{" + entry("a", "U8", "[4]", "[18446744073709551612,18446744073709551615]") + "}", 4,
      "lie outside");
}

TEST(SafetensorsHeader, RejectsTensorsThatShareOrLeaveOutBytes) {
  expectComplaint(
      "{" + entry("a", "U8", "[4]", "[0,4]") + "," + entry("b", "U8", "[4]", "[3,7]") + "}", 7,
      "'b' begins at byte 3 of the data, where the tensor before it has not ended");
  expectComplaint(
      "{" + entry("a", "U8", "[4]", "[0,4]") + "," + entry("b", "U8", "[4]", "[0,4]") + "}", 4,
      "has not ended");
  expectComplaint(
      "{" + entry("a", "U8", "[4]", "[0,4]") + "," + entry("b", "U8", "[2]", "[5,7]") + "}", 7,
      "has long ended");
  expectComplaint("{" + entry("a", "U8", "[4]", "[1,5]") + "}", 5, "has long ended");
  expectComplaint("{" + entry("a", "U8", "[4]", "[0,4]") + "}", 5,
                  "end at byte 4 of 5 bytes of data");
  expectComplaint("{}", 5, "end at byte 0 of 5");
}

TEST(SafetensorsHeader, RejectsShapesThatDoNotFit) {
  expectComplaint("{" + entry("a", "F32", "[2]", "[0,4]") + "}", 4, "hold 4 bytes");
  expectComplaint("{" + entry("a", "BF16", "[1]", "[0,4]") + "}", 4, "hold 4 bytes");
  // 2^62 elements of 4 bytes are 0 bytes in 64 bits.
  expectComplaint("{" + entry("a", "F32", "[4611686018427387904]", "[0,0]") + "}", 0,
                  "more than can be");
  expectComplaint("{" + entry("a", "U8", "[4294967296,4294967296]", "[0,0]") + "}", 0,
                  "more than can be");
  expectComplaint("{" + entry("a", "U8", "[4294967296,4294967296,0]", "[0,4]") + "}", 4,
                  "hold 4 bytes");
  std::string shape = "[1";
  for (int i = 0; i < 100; ++i) shape += ",1";
  expectComplaint("{" + entry("a", "U8", shape + "]", "[0,1]") + "}", 1, "dimensions");
}

TEST(SafetensorsHeader, RejectsWrongTypes) {
  expectComplaint(R"({"a":[]})", 0, "the entry of 'a' is an array");
  expectComplaint(R"({"a":1})", 0, "the entry of 'a' is a number");
  expectComplaint(R"({"a":null})", 0, "the entry of 'a' is null");
  expectComplaint(R"({"a":{"dtype":1,"shape":[],"data_offsets":[0,1]}})", 1, "the dtype of 'a'");
  expectComplaint(R"({"a":{"dtype":["U8"],"shape":[],"data_offsets":[0,1]}})", 1,
                  "the dtype of 'a'");
  expectComplaint("{" + entry("a", "U8", "1", "[0,1]") + "}", 1, "the shape of 'a' has a number");
  expectComplaint("{" + entry("a", "U8", "[-1]", "[0,1]") + "}", 1, "a negative number");
  expectComplaint("{" + entry("a", "U8", "[1.0]", "[0,1]") + "}", 1, "a fraction");
  expectComplaint("{" + entry("a", "U8", "[1e0]", "[0,1]") + "}", 1, "a fraction");
  expectComplaint("{" + entry("a", "U8", "[[1]]", "[0,1]") + "}", 1, "an array");
  expectComplaint("{" + entry("a", "U8", "[true]", "[0,1]") + "}", 1, "true or false");
  expectComplaint("{" + entry("a", "U8", "[99999999999999999999]", "[0,1]") + "}", 1, "a fraction");
  expectComplaint("{" + entry("a", "U8", "[1]", "[0]") + "}", 1, "lacks");
  expectComplaint("{" + entry("a", "U8", "[1]", "[0,1,1]") + "}", 1, "the data_offsets of 'a'");
  expectComplaint("{" + entry("a", "U8", "[1]", R"({"0":1})") + "}", 1, "an object");
  expectComplaint(R"({"a":{"shape":[1],"data_offsets":[0,1]}})", 1, "lacks");
  expectComplaint(R"({"a":{"dtype":"U8","data_offsets":[0,1]}})", 1, "lacks");
  expectComplaint(R"({"a":{"dtype":"U8","shape":[1]}})", 1, "lacks");
  expectComplaint(R"({"__metadata__":{"a":1}})", 0, "where only strings");
  expectComplaint(R"({"__metadata__":{"a":{}}})", 0, "where only strings");
  expectComplaint(R"({"__metadata__":[]})", 0, "__metadata__");
}

TEST(SafetensorsHeader, RejectsNamesAndFieldsThatAppearTwice) {
  const std::string one = entry("a", "U8", "[1]", "[0,1]");
  expectComplaint("{" + one + "," + one + "}", 1, "'a' appears twice");
  expectComplaint(R"({"a":{"dtype":"U8","dtype":"I8","shape":[1],"data_offsets":[0,1]}})", 1,
                  "the dtype of 'a' appears twice");
  expectComplaint(R"({"a":{"dtype":"U8","shape":[1],"shape":[1],"data_offsets":[0,1]}})", 1,
                  "the shape of 'a' appears twice");
  expectComplaint(R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1],"data_offsets":[0,1]}})",
                  1, "the data_offsets of 'a' appears twice");
  expectComplaint(R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1],"extra":"x"}})", 1,
                  "unknown field 'extra'");
}

TEST(SafetensorsHeader, RejectsWhatIsNoJson) {
  expectComplaint("", 0, "does not begin with {");
  expectComplaint(" {}", 0, "does not begin with {");
  expectComplaint("[]", 0, "does not begin with {");
  expectComplaint("{", 0, "no valid JSON");
  expectComplaint("{}}", 0, "no valid JSON");
  expectComplaint("{}{}", 0, "no valid JSON");
  expectComplaint("{'a':1}", 0, "no valid JSON");
  expectComplaint(R"({"a)", 0, "no valid JSON");
  expectComplaint(std::string("{}\0", 3), 0, "no valid JSON");
  expectComplaint("{\"\xff\xfe\":{}}", 0, "no valid JSON");
  expectComplaint(R"({"a":NaN})", 0, "no valid JSON");
}

TEST(SafetensorsHeader, DoesNotDescendIntoDepth) {
  // A reader that built a tree of this would need gigabytes, or overflow its stack.
  expectComplaint(R"({"a":)" + std::string(5'000'000, '['), 0, "the entry of 'a' is an array");
  std::string objects = "{";
  for (int i = 0; i < 100'000; ++i) objects += R"("a":{)";
  expectComplaint(objects, 0, "unknown field 'a'");
}

TEST(SafetensorsHeader, RejectsMoreEntriesThanAnyModelHas) {
  const auto headerOf = [](std::size_t count) {
    std::string header = "{";
    for (std::size_t i = 0; i < count; ++i) {
      header += (i == 0 ? "\"" : ",\"") + std::to_string(i) +
                R"(":{"dtype":"U8","shape":[0],"data_offsets":[0,0]})";
    }
    return header + "}";
  };
  EXPECT_EQ(parseSafetensorsHeader(headerOf(kMaxSafetensorsTensors), 0).size(),
            kMaxSafetensorsTensors);
  EXPECT_THROW(static_cast<void>(parseSafetensorsHeader(headerOf(kMaxSafetensorsTensors + 1), 0)),
               Failure);
}

TEST(SafetensorsHeader, ListsUnknownDatatypesWithoutJudgingTheirShape) {
  const std::vector<Tensor> tensors =
      parseSafetensorsHeader("{" + entry("a", "F4", "[7]", "[0,3]") + "}", 3);
  ASSERT_EQ(tensors.size(), 1U);
  EXPECT_EQ(tensors[0].dtype, "F4");
  EXPECT_EQ(bitsOfDtype("F4"), 0U);
  EXPECT_EQ(bitsOfDtype("BF16"), 16U);
}

TEST(SafetensorsHeader, PrintsNoControlCharactersOfAFile) {
  const std::string said = complaint("{" + entry("\\u001b[2J", "U8", "[2]", "[0,1]") + "}", 1);
  EXPECT_NE(said.find("'\\x1b[2J'"), std::string::npos) << said;
  EXPECT_EQ(said.find('\x1b'), std::string::npos);
}

class SafetensorsFileTest : public zipccl::testing::SeededTest {
 protected:
  std::string complaintOfFile(const std::string& content) {
    const std::string path = folder_.write("x.safetensors", content);
    try {
      const SafetensorsFile file(path);
      return "";
    } catch (const Failure& failure) {
      return failure.what();
    }
  }

  TemporaryFolder folder_;
};

TEST_F(SafetensorsFileTest, ReadsBytesOfTensors) {
  const std::string path =
      folder_.write("x.safetensors", safetensorsBytes("{" + entry("a", "U8", "[3]", "[0,3]") + "," +
                                                          entry("b", "BF16", "[2]", "[3,7]") + "}",
                                                      "abcDEFG"));
  const SafetensorsFile file(path);
  ASSERT_EQ(file.tensors().size(), 2U);
  std::string text(3, '-');
  file.read(file.tensors()[1], 1, std::as_writable_bytes(std::span(text)));
  EXPECT_EQ(text, "EFG");
  EXPECT_THROW(file.read(file.tensors()[1], 2, std::as_writable_bytes(std::span(text))), Failure);
  EXPECT_THROW(file.read(file.tensors()[1], ~std::uint64_t{0}, {}), Failure);
}

TEST_F(SafetensorsFileTest, RejectsWrongLengths) {
  const auto withLength = [](std::uint64_t length, const std::string& rest) {
    std::string bytes(8, '\0');
    std::memcpy(bytes.data(), &length, 8);
    return bytes + rest;
  };
  EXPECT_NE(complaintOfFile("").find("shorter than 8 bytes"), std::string::npos);
  EXPECT_NE(complaintOfFile("1234567").find("shorter than 8 bytes"), std::string::npos);
  EXPECT_NE(complaintOfFile(withLength(3, "{}")).find("longer than the file"), std::string::npos);
  EXPECT_NE(complaintOfFile(withLength(~std::uint64_t{0}, "{}")).find("longer than the file"),
            std::string::npos);
  EXPECT_NE(complaintOfFile(withLength(~std::uint64_t{0} - 7, "{}")).find("longer than the file"),
            std::string::npos);
  EXPECT_NE(complaintOfFile(withLength(0, "{}")).find("does not begin with {"), std::string::npos);
  EXPECT_EQ(complaintOfFile(withLength(2, "{}")), "");
}

TEST_F(SafetensorsFileTest, RejectsAHeaderBeyondTheLimitWithoutReadingIt) {
  // Sparse: the file has the length that its header claims.
  const std::string path = folder_.write("huge", safetensorsBytes("", ""));
  std::string length(8, '\0');
  const std::uint64_t headerBytes = kMaxSafetensorsHeaderBytes + 1;
  std::memcpy(length.data(), &headerBytes, 8);
  folder_.write("huge", length);
  std::filesystem::resize_file(path, 8 + headerBytes);
  try {
    const SafetensorsFile file(path);
    FAIL() << "a header of " << headerBytes << " bytes was taken";
  } catch (const Failure& failure) {
    EXPECT_NE(std::string(failure.what()).find("longer than 100000000 bytes"), std::string::npos);
  }
}

TEST_F(SafetensorsFileTest, RejectsWhatIsNoRegularFile) {
  EXPECT_THROW(SafetensorsFile("/dev/null"), Failure);
  EXPECT_THROW(SafetensorsFile{folder_.path(".")}, Failure);
  EXPECT_THROW(SafetensorsFile{folder_.path("missing")}, Failure);
}

/// The system's files tell a size that they do not have: reading them fails as a disk may.
TEST_F(SafetensorsFileTest, DoesNotBlameTheFormatForAFailingRead) {
  const std::string path = "/sys/devices/system/cpu/online";
  if (!std::filesystem::exists(path) || std::filesystem::file_size(path) < 8) {
    GTEST_SKIP() << "no " << path;
  }
  try {
    const SafetensorsFile file(path);
    ADD_FAILURE() << path << " is read";
  } catch (const Failure& failure) {
    EXPECT_EQ(std::string(failure.what()).find(path + ": the file ends at byte "), 0U)
        << failure.what();
  }
}

TEST_F(SafetensorsFileTest, SurvivesEveryTruncation) {
  const std::string whole = safetensorsBytes("{" + entry("a", "U8", "[3]", "[0,3]") + "}", "abc");
  ASSERT_EQ(complaintOfFile(whole), "");
  for (std::size_t bytes = 0; bytes < whole.size(); ++bytes) {
    EXPECT_NE(complaintOfFile(whole.substr(0, bytes)), "") << bytes;
  }
}

TEST_F(SafetensorsFileTest, SurvivesRandomDamageOfTheHeader) {
  const std::string whole = "{" + entry("a", "BF16", "[5,3]", "[0,30]") + "," +
                            entry("b", "F32", "[2]", "[30,38]") +
                            R"(,"__metadata__":{"format":"pt"}})";
  int taken = 0;
  for (int round = 0; round < 20'000; ++round) {
    std::string damaged = whole;
    for (std::uint64_t faults = random_.between(1, 4); faults > 0; --faults) {
      const std::size_t place = random_.below(damaged.size());
      switch (random_.below(4)) {
        case 0:
          damaged[place] = static_cast<char>(random_.below(256));
          break;
        case 1:
          damaged[place] = "0123456789[]{},:\"-.e"[random_.below(20)];
          break;
        case 2:
          damaged.erase(place, random_.between(1, 8));
          break;
        default:
          damaged.insert(place, damaged.substr(random_.below(damaged.size()), 12));
          break;
      }
      if (damaged.empty()) damaged = "{";
    }
    try {
      for (const Tensor& tensor : parseSafetensorsHeader(damaged, 38)) {
        ASSERT_LE(tensor.beginByte, tensor.endByte) << damaged;
        ASSERT_LE(tensor.endByte, 38U) << damaged;
      }
      ++taken;
    } catch (const Failure& failure) {
      ASSERT_STRNE(failure.what(), "");
    }
  }
  // Damage to a name or to the metadata is no fault of the file's structure.
  EXPECT_GT(taken, 0);
  EXPECT_LT(taken, 10'000);
}

}  // namespace
}  // namespace zipccl::tools
