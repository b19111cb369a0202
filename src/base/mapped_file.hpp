// SPDX-License-Identifier: Apache-2.0
//
// MappedFile: the owner of a file mapped into memory for reading.

#pragma once

#include <cstddef>
#include <span>
#include <string>

namespace zipccl {

/// Owns a read-only private mapping of a whole regular file. Move-only; empty when
/// default-constructed. A file that another process shortens meanwhile makes later reads fail with
/// SIGBUS, as every mapping does.
class MappedFile {
 public:
  MappedFile() noexcept = default;

  /// Maps `path`. An empty file gives an empty span. Throws Error(kSystemError) that names the path
  /// and the system's reason; anything but a regular file is refused.
  explicit MappedFile(const std::string& path);

  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  ~MappedFile();

  /// The file's bytes, page-aligned, valid as long as this owner.
  [[nodiscard]] std::span<const std::byte> bytes() const noexcept {
    return {static_cast<const std::byte*>(data_), sizeBytes_};
  }
  [[nodiscard]] std::size_t sizeBytes() const noexcept { return sizeBytes_; }

 private:
  void reset() noexcept;

  void* data_ = nullptr;
  std::size_t sizeBytes_ = 0;
};

}  // namespace zipccl
