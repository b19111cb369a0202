// SPDX-License-Identifier: Apache-2.0
//
// What zstd at level 1 makes of bytes, in builds that found it.

#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

namespace zipccl::tools::inspect {

/// Compresses and keeps nothing but the size. For one thread.
class Zstd {
 public:
  /// Of the zstd that this build has; empty where it has none, and no object can be made.
  [[nodiscard]] static std::string version();

  /// Throws Failure where there is none, std::bad_alloc.
  Zstd();
  Zstd(const Zstd&) = delete;
  Zstd& operator=(const Zstd&) = delete;
  ~Zstd();

  /// The size of `bytes` as a frame of its own, at level 1. Throws Failure.
  [[nodiscard]] std::uint64_t compressedBytes(std::span<const std::byte> bytes);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace zipccl::tools::inspect
