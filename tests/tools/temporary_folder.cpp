// SPDX-License-Identifier: Apache-2.0
//
// A folder for the files of one test.

#include "temporary_folder.hpp"

#include <stdlib.h>

#include <cstdint>
#include <fstream>
#include <sstream>
#include <stdexcept>

namespace zipccl::tools::testing {

TemporaryFolder::TemporaryFolder() {
  std::string pattern = (std::filesystem::temp_directory_path() / "zipccl-test-XXXXXX").string();
  if (::mkdtemp(pattern.data()) == nullptr) throw std::runtime_error("no temporary folder");
  folder_ = pattern;
}

TemporaryFolder::~TemporaryFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(folder_, ignored);
}

std::string TemporaryFolder::write(const std::string& name, std::string_view content) const {
  std::ofstream file(path(name), std::ios::binary);
  file << content;
  file.close();
  if (!file) throw std::runtime_error("cannot write " + path(name));
  return path(name);
}

std::string readFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw std::runtime_error("cannot read " + path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

std::string safetensorsBytes(std::string_view header, std::string_view data) {
  std::string bytes;
  const std::uint64_t headerBytes = header.size();
  for (int byte = 0; byte < 8; ++byte) bytes += static_cast<char>(headerBytes >> (8 * byte) & 0xFF);
  bytes += header;
  bytes += data;
  return bytes;
}

}  // namespace zipccl::tools::testing
