// SPDX-License-Identifier: Apache-2.0
//
// What every rank sends, kept apart from the buffers that the library gets, so that what arrives
// can be held against it. Each rank has a pool of elements; each call sends another slice of it, so
// that neither caches nor the call before answer for the call.

#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "perf/data_source.hpp"
#include "support/host_buffer.hpp"

namespace zipccl::tools::perf {

/// How large the pools are, and which slice a call sends.
class PoolGeometry {
 public:
  /// For messages of up to `mostElements` elements a rank.
  PoolGeometry(std::uint64_t mostElements, std::size_t elementBytes, int ranks) noexcept;

  [[nodiscard]] std::uint64_t elements() const noexcept { return elements_; }
  [[nodiscard]] std::size_t bytes() const noexcept { return elements_ * elementBytes_; }
  [[nodiscard]] std::size_t elementBytes() const noexcept { return elementBytes_; }

  /// The slice of `count` elements that call number `call` sends. Begins at a multiple of 64 bytes.
  [[nodiscard]] std::span<const std::byte> slice(std::span<const std::byte> pool,
                                                 std::uint64_t call,
                                                 std::uint64_t count) const noexcept;

 private:
  std::uint64_t elements_;
  std::size_t elementBytes_;
};

/// The pools of all ranks. Ranks in one process share them; each process has its own.
class DataPools {
 public:
  /// Fills them in up to `threads` threads. Throws Failure when the source cannot be read.
  DataPools(const DataSource& source, std::uint64_t seed, int ranks, const PoolGeometry& geometry,
            int threads);

  [[nodiscard]] const PoolGeometry& geometry() const noexcept { return geometry_; }
  [[nodiscard]] int ranks() const noexcept { return ranks_; }
  [[nodiscard]] std::span<const std::byte> pool(int rank) const noexcept;
  [[nodiscard]] std::span<const std::byte> slice(int rank, std::uint64_t call,
                                                 std::uint64_t count) const noexcept {
    return geometry_.slice(pool(rank), call, count);
  }

 private:
  PoolGeometry geometry_;
  int ranks_;
  HostBuffer memory_;
};

/// A number that differs, nearly always, for different bytes: not for secrets.
[[nodiscard]] std::uint64_t fingerprint(std::span<const std::byte> bytes) noexcept;

}  // namespace zipccl::tools::perf
