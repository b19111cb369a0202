// SPDX-License-Identifier: Apache-2.0
//
// The one part of the random numbers that asks the system: a fresh seed.

#include "base/random.hpp"

#include <random>

namespace zipccl {

std::uint64_t freshSeed() {
  std::random_device entropy;
  const std::uint64_t high = entropy();
  return (high << 32) ^ entropy();
}

}  // namespace zipccl
