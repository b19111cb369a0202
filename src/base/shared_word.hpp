// SPDX-License-Identifier: Apache-2.0
//
// Words in memory that this side shares with others, such as a device, and that tell what stands in
// it: who sees a word sees all that was written before it.

#pragma once

#include <atomic>
#include <cstdint>

namespace zipccl {

[[nodiscard]] inline std::uint64_t loadAcquire(const std::uint64_t& word) noexcept {
  // An atomic_ref of a constant comes with C++26; a load writes nothing.
  return std::atomic_ref(const_cast<std::uint64_t&>(word)).load(std::memory_order_acquire);
}

inline void storeRelease(std::uint64_t& word, std::uint64_t value) noexcept {
  std::atomic_ref(word).store(value, std::memory_order_release);
}

}  // namespace zipccl
