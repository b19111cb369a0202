// SPDX-License-Identifier: Apache-2.0
//
// A folder for the files of one test.

#pragma once

#include <filesystem>
#include <string>
#include <string_view>

namespace zipccl::tools::testing {

/// Made under the system's folder for such, and removed with all that is in it.
class TemporaryFolder {
 public:
  TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  ~TemporaryFolder();

  [[nodiscard]] std::string path(const std::string& name) const {
    return (folder_ / name).string();
  }

  /// Writes a file and returns its path.
  std::string write(const std::string& name, std::string_view content) const;

 private:
  std::filesystem::path folder_;
};

[[nodiscard]] std::string readFile(const std::string& path);

/// The bytes of a safetensors file with that header.
[[nodiscard]] std::string safetensorsBytes(std::string_view header, std::string_view data);

}  // namespace zipccl::tools::testing
