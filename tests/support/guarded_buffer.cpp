// SPDX-License-Identifier: Apache-2.0
//
// Buffers for tests of code that must stay inside its buffers.

#include "support/guarded_buffer.hpp"

#include <algorithm>
#include <bit>

namespace zipccl::testing {
namespace {

constexpr std::size_t kAlignment = 64;
constexpr std::size_t kGuardBytes = 2 * kAlignment;

/// Differs from byte to byte, so that a guard copied over another place shows too.
std::byte guardByte(std::size_t i) { return static_cast<std::byte>((0x5B + 37 * i) & 0xFF); }

}  // namespace

GuardedBuffer::GuardedBuffer(std::size_t bytes, std::size_t misalignment, std::uint8_t poison) {
  const std::size_t allBytes = bytes + misalignment + kAlignment + 2 * kGuardBytes;
  memory_ = std::make_unique_for_overwrite<std::byte[]>(allBytes);
  all_ = std::span(memory_.get(), allBytes);
  const auto address = reinterpret_cast<std::uintptr_t>(memory_.get() + kGuardBytes);
  const std::size_t toAligned = (kAlignment - address % kAlignment) % kAlignment;
  const std::size_t begin = kGuardBytes + toAligned + misalignment;
  bytes_ = all_.subspan(begin, bytes);
  for (std::size_t i = 0; i < begin; ++i) all_[i] = guardByte(i);
  for (std::size_t i = begin + bytes; i < allBytes; ++i) all_[i] = guardByte(i);
  std::fill(bytes_.begin(), bytes_.end(), static_cast<std::byte>(poison));
}

bool GuardedBuffer::isIntact() const noexcept {
  const auto begin = static_cast<std::size_t>(bytes_.data() - all_.data());
  const auto isGuard = [this](std::size_t i) { return all_[i] == guardByte(i); };
  for (std::size_t i = 0; i < begin; ++i) {
    if (!isGuard(i)) return false;
  }
  for (std::size_t i = begin + bytes_.size(); i < all_.size(); ++i) {
    if (!isGuard(i)) return false;
  }
  return true;
}

ExactBuffer::ExactBuffer(std::span<const std::byte> content, std::size_t misalignment)
    : memory_(std::make_unique_for_overwrite<std::byte[]>(misalignment + content.size())),
      bytes_(memory_.get() + misalignment, content.size()) {
  std::copy(content.begin(), content.end(), bytes_.begin());
}

}  // namespace zipccl::testing
