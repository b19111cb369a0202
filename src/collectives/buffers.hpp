// SPDX-License-Identifier: Apache-2.0
//
// The caller's buffers: places in them, and the checks that all collectives make.

#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <string_view>

#include "base/error.hpp"
#include "collectives/datatype.hpp"

namespace zipccl::collectives {

[[nodiscard]] inline const std::byte* bytesAt(const void* buffer, std::uint64_t offsetBytes) {
  return static_cast<const std::byte*>(buffer) + offsetBytes;
}
[[nodiscard]] inline std::byte* bytesAt(void* buffer, std::uint64_t offsetBytes) {
  return static_cast<std::byte*>(buffer) + offsetBytes;
}

/// Whether two buffers have a byte in common.
[[nodiscard]] inline bool overlap(const void* a, std::uint64_t aBytes, const void* b,
                                  std::uint64_t bBytes) {
  const auto aStart = reinterpret_cast<std::uintptr_t>(a);
  const auto bStart = reinterpret_cast<std::uintptr_t>(b);
  return aBytes != 0 && bBytes != 0 && aStart < bStart + bBytes && bStart < aStart + aBytes;
}

/// Throws Error(kInvalidArgument) for buffers of `bytes` each that overlap and are not the same.
inline void checkSameOrApart(const void* send, const void* receive, std::uint64_t bytes) {
  expects(send == receive || !overlap(send, bytes, receive, bytes),
          "sendbuff and recvbuff overlap, but are not the same");
}

/// Throws Error(kInvalidArgument) unless `own`, a buffer of one part, is apart from `all`, which
/// has a part of every rank, or is the part of `owner`, in words `ownerName`, in it.
inline void checkOwnPart(std::string_view allName, const void* all, std::string_view ownName,
                         const void* own, std::uint64_t partBytes, std::string_view ownerName,
                         int owner, int rankCount) {
  const std::uint64_t ownAt = static_cast<std::uint64_t>(owner) * partBytes;
  if (partBytes == 0 || own == bytesAt(all, ownAt)) return;
  expects(!overlap(all, partBytes * static_cast<std::uint64_t>(rankCount), own, partBytes), ownName,
          " overlaps ", allName, "; only ", ownAt, " bytes behind its start, ", ownerName,
          " place in it, is allowed");
}

/// Throws Error(kInvalidArgument) unless `rankCount` parts of `elementCount` elements, which the
/// caller calls `name`, can be addressed.
inline void checkCount(std::string_view name, std::uint64_t elementCount, Datatype datatype,
                       int rankCount) {
  const std::uint64_t mostBytes = std::numeric_limits<std::ptrdiff_t>::max();
  const std::uint64_t mostElements =
      mostBytes / elementBytes(datatype) / static_cast<std::uint64_t>(rankCount);
  expects(elementCount <= mostElements, name, " is ", elementCount, "; at most ", mostElements,
          " elements of ", datatypeName(datatype), " on ", rankCount, " ranks can be addressed");
}

/// Throws Error(kInvalidArgument) for a null buffer, called `name`, that is to hold elements.
inline void checkBuffer(std::string_view name, const void* buffer, std::string_view countName,
                        std::uint64_t elementCount) {
  expects(buffer != nullptr || elementCount == 0, name, " is null, but ", countName, " is ",
          elementCount);
}

/// Throws Error(kInvalidArgument) unless `rank`, called `name`, is one of the communicator's.
inline void checkRank(std::string_view name, int rank, int rankCount) {
  expects(rank >= 0 && rank < rankCount, name, " is ", rank, " in a communicator of ", rankCount,
          " ranks");
}

}  // namespace zipccl::collectives
