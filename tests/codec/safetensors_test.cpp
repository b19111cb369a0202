// SPDX-License-Identifier: Apache-2.0
//
// The reader of safetensors files that tests use: bad files give an error with a reason.

#include "support/safetensors.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <stdexcept>
#include <string>
#include <vector>

#include "support/guarded_buffer.hpp"

namespace zipccl::testing {
namespace {

std::vector<std::byte> fileOf(const std::string& header, std::size_t dataBytes) {
  const std::uint64_t headerBytes = header.size();
  std::vector<std::byte> file(8 + header.size() + dataBytes, std::byte{7});
  std::memcpy(file.data(), &headerBytes, 8);
  std::memcpy(file.data() + 8, header.data(), header.size());
  return file;
}

std::string errorOf(const std::vector<std::byte>& file) {
  const ExactBuffer exact(file);
  try {
    (void)parseSafetensors(exact.bytes());
  } catch (const std::runtime_error& error) {
    return error.what();
  }
  return "none";
}

TEST(Safetensors, ReadsTensorsInTheOrderOfTheirBytes) {
  const std::vector<std::byte> file =
      fileOf(R"({"__metadata__":{"a":"b"},"z":{"dtype":"F32","shape":[2,1],"data_offsets":[0,8]},)"
             R"("a":{"dtype":"BF16","shape":[3],"data_offsets":[8,14]}})",
             14);
  const std::vector<Tensor> tensors = parseSafetensors(file);
  ASSERT_EQ(tensors.size(), 2U);
  EXPECT_EQ(tensors[0].name, "z");
  EXPECT_EQ(tensors[0].elementCount, 2U);
  EXPECT_EQ(tensors[1].name, "a");
  EXPECT_EQ(tensors[1].dtype, "BF16");
  EXPECT_EQ(tensors[1].bytes.size(), 6U);
  EXPECT_EQ(tensors[1].bytes.data(), file.data() + file.size() - 6);
}

TEST(Safetensors, RejectsBadFiles) {
  const auto tensor = [](const std::string& fields) {
    return fileOf("{\"t\":{" + fields + "}}", 8);
  };
  EXPECT_NE(errorOf({}).find("shorter"), std::string::npos);
  EXPECT_NE(errorOf(std::vector<std::byte>(9, std::byte{0xFF})).find("longer"), std::string::npos);
  EXPECT_NE(errorOf(fileOf("[]", 0)).find("JSON object"), std::string::npos);
  EXPECT_NE(errorOf(fileOf("{\"t\":", 0)).find("JSON object"), std::string::npos);
  EXPECT_NE(errorOf(tensor(R"("dtype":"F32","shape":[2])")).find("lacks"), std::string::npos);
  EXPECT_NE(errorOf(tensor(R"("dtype":"F33","shape":[2],"data_offsets":[0,8])")).find("F33"),
            std::string::npos);
  EXPECT_NE(errorOf(tensor(R"("dtype":"F32","shape":[2],"data_offsets":[0,9])")).find("outside"),
            std::string::npos);
  EXPECT_NE(errorOf(tensor(R"("dtype":"F32","shape":[2],"data_offsets":[8,0])")).find("outside"),
            std::string::npos);
  EXPECT_NE(errorOf(tensor(R"("dtype":"F32","shape":[1],"data_offsets":[0,8])")).find("fit"),
            std::string::npos);
  EXPECT_NE(errorOf(tensor(R"("dtype":"F32","shape":[-1],"data_offsets":[0,8])")).find("unsigned"),
            std::string::npos);
  EXPECT_NE(errorOf(tensor(R"("dtype":"U8","shape":[4294967296,4294967296,4294967296],)"
                           R"("data_offsets":[0,8])"))
                .find("larger"),
            std::string::npos);
}

}  // namespace
}  // namespace zipccl::testing
