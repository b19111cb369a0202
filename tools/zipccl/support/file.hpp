// SPDX-License-Identifier: Apache-2.0
//
// A regular file that is read by position. Not mapped: a file that shrinks while it is in use gives
// an error instead of a signal. What is read as a whole is mapped, by support/mapped_file.hpp.

#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace zipccl::tools {

class File {
 public:
  /// Opens `path` for reading. Throws Failure with the path and the reason when it cannot be opened
  /// or is not a regular file.
  explicit File(std::string path);
  File(File&& other) noexcept;
  File& operator=(File&&) = delete;
  File(const File&) = delete;
  ~File();

  [[nodiscard]] const std::string& path() const noexcept { return path_; }
  /// As it was when the file was opened.
  [[nodiscard]] std::uint64_t sizeBytes() const noexcept { return sizeBytes_; }

  /// Open as long as this object lives.
  [[nodiscard]] int descriptor() const noexcept { return descriptor_; }

  /// Fills `into` from `offset` on. Throws Failure when the file ends before.
  void read(std::uint64_t offset, std::span<std::byte> into) const;

 private:
  std::string path_;
  int descriptor_ = -1;
  std::uint64_t sizeBytes_ = 0;
};

/// Whether `path` names a regular file.
[[nodiscard]] bool isRegularFile(const std::string& path);

}  // namespace zipccl::tools
