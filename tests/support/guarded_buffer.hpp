// SPDX-License-Identifier: Apache-2.0
//
// Buffers for tests of code that must stay inside its buffers.

#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

namespace zipccl::testing {

/// Poisoned bytes at a chosen alignment, between guards that show a write outside them.
class GuardedBuffer {
 public:
  /// The first byte stands at an address that is `misalignment` above a multiple of 64.
  explicit GuardedBuffer(std::size_t bytes, std::size_t misalignment = 0,
                         std::uint8_t poison = 0xA5);

  [[nodiscard]] std::span<std::byte> bytes() noexcept { return bytes_; }
  [[nodiscard]] std::span<const std::byte> bytes() const noexcept { return bytes_; }

  /// Whether nothing was written outside bytes().
  [[nodiscard]] bool isIntact() const noexcept;

 private:
  std::unique_ptr<std::byte[]> memory_;
  std::span<std::byte> all_;
  std::span<std::byte> bytes_;
};

/// A copy of `content` that ends where its allocation ends, so that the address sanitizer sees
/// every read behind it. The first byte stands `misalignment` bytes behind the start of the
/// allocation.
class ExactBuffer {
 public:
  explicit ExactBuffer(std::span<const std::byte> content, std::size_t misalignment = 0);

  [[nodiscard]] std::span<std::byte> bytes() noexcept { return bytes_; }
  [[nodiscard]] std::span<const std::byte> bytes() const noexcept { return bytes_; }

 private:
  std::unique_ptr<std::byte[]> memory_;
  std::span<std::byte> bytes_;
};

}  // namespace zipccl::testing
