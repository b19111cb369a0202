// SPDX-License-Identifier: Apache-2.0
//
// What every transport must do, as checks that all ranks run together: the tests of each transport
// run all of them, with ranks as threads or as processes.

#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/random.hpp"
#include "transport/transport.hpp"

namespace zipccl::transport {

/// A check that every rank runs with the same seed.
struct ContractCheck {
  const char* name;
  void (*run)(Transport& transport, std::uint64_t seed);
};

[[nodiscard]] std::span<const ContractCheck> contractChecks();

/// Heap memory of exactly the wanted size between guard zones, filled with poison, so that a byte
/// written too far is seen and a byte not written is too.
class Guarded {
 public:
  explicit Guarded(std::size_t bytes, std::size_t misalignment = 0);

  [[nodiscard]] std::byte* data() { return storage_.data() + startBytes_; }
  [[nodiscard]] std::size_t bytes() const { return bytes_; }
  [[nodiscard]] std::span<std::byte> span() { return {data(), bytes_}; }
  [[nodiscard]] bool isGuardIntact() const;

 private:
  std::size_t bytes_;
  std::size_t startBytes_;
  std::vector<std::byte> storage_;
};

/// The bytes that `rank` sends under a key: any rank can compute what it must get.
[[nodiscard]] std::vector<std::byte> patternOf(std::uint64_t seed, int rank, std::uint64_t key,
                                               std::size_t bytes);

/// Tells the first difference, for messages.
[[nodiscard]] ::testing::AssertionResult sameBytes(std::span<const std::byte> got,
                                                   std::span<const std::byte> expected);

}  // namespace zipccl::transport
