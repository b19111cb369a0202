// SPDX-License-Identifier: Apache-2.0
//
// Random bytes, and the one part of the random numbers that asks the system: a fresh seed.

#include "base/random.hpp"

#include <algorithm>
#include <cstring>
#include <random>

namespace zipccl {

void Random::fill(std::span<std::byte> bytes) noexcept {
  for (std::size_t at = 0; at < bytes.size(); at += sizeof(std::uint64_t)) {
    const std::uint64_t bits = (*this)();
    std::memcpy(bytes.data() + at, &bits, std::min(sizeof(bits), bytes.size() - at));
  }
}

std::uint64_t freshSeed() {
  std::random_device entropy;
  const std::uint64_t high = entropy();
  return (high << 32) ^ entropy();
}

}  // namespace zipccl
