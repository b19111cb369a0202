// SPDX-License-Identifier: Apache-2.0
//
// A regular file in memory, for what is read once from end to end: pages come when they are touched
// and can be given back, so that a file may be larger than memory.

#pragma once

#include <csignal>
#include <cstddef>
#include <span>

#include "support/file.hpp"

namespace zipccl::tools {

/// Bytes of a file, read-only. What is touched where the file has meanwhile ended, or cannot be
/// read, raises SIGBUS: see BusErrorGuard.
class MappedFile {
 public:
  /// All of `file`, as long as it was when it was opened; `file` need not outlive this. Throws
  /// Failure.
  explicit MappedFile(const File& file);
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&&) = delete;
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;
  ~MappedFile();

  [[nodiscard]] std::span<const std::byte> bytes() const noexcept { return bytes_; }

 private:
  std::span<const std::byte> bytes_;
};

/// Gives back the memory behind `part` of a MappedFile, and that of other bytes on its first and
/// last page; it comes again when it is touched again.
void giveBack(std::span<const std::byte> part) noexcept;

/// As long as it lives, a SIGBUS ends the program with ExitStatus::kFailure and a sentence on
/// stderr. One at a time.
class BusErrorGuard {
 public:
  BusErrorGuard() noexcept;
  BusErrorGuard(const BusErrorGuard&) = delete;
  BusErrorGuard& operator=(const BusErrorGuard&) = delete;
  ~BusErrorGuard();

 private:
  struct sigaction before_ = {};
};

}  // namespace zipccl::tools
