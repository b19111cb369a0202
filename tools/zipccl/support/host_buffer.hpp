// SPDX-License-Identifier: Apache-2.0
//
// Owned memory for messages: aligned to cache lines, not initialised.

#pragma once

#include <cstddef>
#include <memory>
#include <new>
#include <span>

namespace zipccl::tools {

class HostBuffer {
 public:
  static constexpr std::size_t kAlignment = 64;

  HostBuffer() = default;
  /// Throws std::bad_alloc.
  explicit HostBuffer(std::size_t bytes)
      : memory_(static_cast<std::byte*>(::operator new (bytes, std::align_val_t{kAlignment}))),
        bytes_(bytes) {}

  [[nodiscard]] std::span<std::byte> bytes() noexcept { return {memory_.get(), bytes_}; }
  [[nodiscard]] std::span<const std::byte> bytes() const noexcept {
    return {memory_.get(), bytes_};
  }

 private:
  struct Release {
    void operator()(std::byte* memory) const noexcept {
      ::operator delete (memory, std::align_val_t{kAlignment});
    }
  };

  std::unique_ptr<std::byte, Release> memory_;
  std::size_t bytes_ = 0;
};

}  // namespace zipccl::tools
