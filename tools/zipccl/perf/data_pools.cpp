// SPDX-License-Identifier: Apache-2.0
//
// What every rank sends.

#include "perf/data_pools.hpp"

#include <algorithm>
#include <cstring>

namespace zipccl::tools::perf {
namespace {

constexpr std::uint64_t kSliceAlignment = 64;

/// All pools together are to exceed what caches hold, unless messages are small: then 32 messages.
constexpr std::uint64_t kWantedBytes = std::uint64_t{64} << 20;
constexpr std::uint64_t kMostSlices = 32;

std::uint64_t poolBytes(std::uint64_t mostBytes, int ranks) {
  const std::uint64_t shareBytes = kWantedBytes / static_cast<std::uint64_t>(ranks);
  const std::uint64_t least = mostBytes + mostBytes / 4;
  const std::uint64_t wanted = std::max(least, std::min(mostBytes * kMostSlices, shareBytes));
  return wanted / kSliceAlignment * kSliceAlignment + 4 * kSliceAlignment;
}

}  // namespace

PoolGeometry::PoolGeometry(std::uint64_t mostElements, std::size_t elementBytes, int ranks) noexcept
    : elements_(poolBytes(mostElements * elementBytes, ranks) / elementBytes),
      elementBytes_(elementBytes) {}

std::span<const std::byte> PoolGeometry::slice(std::span<const std::byte> pool, std::uint64_t call,
                                               std::uint64_t count) const noexcept {
  const std::uint64_t messageBytes = count * elementBytes_;
  const std::uint64_t places = (bytes() - messageBytes) / kSliceAlignment + 1;
  // One message further where there is room, else a third of the room.
  const std::uint64_t step =
      std::min(messageBytes / kSliceAlignment + 1, std::max<std::uint64_t>(places / 3, 1));
  return pool.subspan(call * step % places * kSliceAlignment, messageBytes);
}

DataPools::DataPools(const DataSource& source, std::uint64_t seed, int ranks,
                     const PoolGeometry& geometry, int threads)
    : geometry_(geometry),
      ranks_(ranks),
      memory_(geometry.bytes() * static_cast<std::size_t>(ranks)) {
  for (int rank = 0; rank < ranks; ++rank) {
    const std::size_t begin = static_cast<std::size_t>(rank) * geometry_.bytes();
    source.fill(seed, rank, ranks, threads, memory_.bytes().subspan(begin, geometry_.bytes()));
  }
}

std::span<const std::byte> DataPools::pool(int rank) const noexcept {
  return memory_.bytes().subspan(static_cast<std::size_t>(rank) * geometry_.bytes(),
                                 geometry_.bytes());
}

std::uint64_t fingerprint(std::span<const std::byte> bytes) noexcept {
  std::uint64_t hash = 0x9E3779B97F4A7C15U ^ bytes.size();
  while (!bytes.empty()) {
    std::uint64_t word = 0;
    const std::size_t wordBytes = std::min(bytes.size(), sizeof(word));
    std::memcpy(&word, bytes.data(), wordBytes);
    hash = (hash ^ word) * 0xBF58476D1CE4E5B9U;
    hash ^= hash >> 32;
    bytes = bytes.subspan(wordBytes);
  }
  return hash;
}

}  // namespace zipccl::tools::perf
