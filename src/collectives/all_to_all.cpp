// SPDX-License-Identifier: Apache-2.0
//
// AlltoAll and AlltoAllv.

#include "collectives/all_to_all.hpp"

#include <algorithm>
#include <limits>
#include <span>
#include <string_view>
#include <vector>

#include "base/error.hpp"
#include "collectives/buffers.hpp"
#include "collectives/pair_exchange.hpp"

namespace zipccl::collectives {
namespace {

/// A part of a buffer that is read or written.
struct Extent {
  std::uintptr_t start = 0;
  std::uintptr_t end = 0;
  bool isWritten = false;
};

/// Whether bytes that are written by one part belong to another too.
bool collide(std::vector<Extent>& extents) {
  std::sort(extents.begin(), extents.end(),
            [](const Extent& a, const Extent& b) { return a.start < b.start; });
  std::uintptr_t end = 0;
  std::uintptr_t writtenEnd = 0;
  for (const Extent& extent : extents) {
    if (extent.start < (extent.isWritten ? end : writtenEnd)) return true;
    end = std::max(end, extent.end);
    if (extent.isWritten) writtenEnd = std::max(writtenEnd, extent.end);
  }
  return false;
}

void checkParts(std::string_view what, const void* buffer, std::span<const std::size_t> counts,
                std::span<const std::size_t> offsets, Datatype datatype) {
  const std::uint64_t mostElements =
      std::numeric_limits<std::ptrdiff_t>::max() / elementBytes(datatype);
  for (std::size_t rank = 0; rank < counts.size(); ++rank) {
    expects(counts[rank] <= mostElements && offsets[rank] <= mostElements - counts[rank], what,
            "counts[", rank, "] is ", counts[rank], " and ", what, "displs[", rank, "] is ",
            offsets[rank], "; together at most ", mostElements, " elements can be addressed");
    expects(buffer != nullptr || counts[rank] == 0, what, "buff is null, but ", what, "counts[",
            rank, "] is ", counts[rank]);
  }
}

void addExtents(std::vector<Extent>& extents, const void* buffer,
                std::span<const std::size_t> counts, std::span<const std::size_t> offsets,
                Datatype datatype, bool isWritten) {
  const auto base = reinterpret_cast<std::uintptr_t>(buffer);
  for (std::size_t rank = 0; rank < counts.size(); ++rank) {
    if (counts[rank] == 0) continue;
    const std::uintptr_t start = base + offsets[rank] * elementBytes(datatype);
    extents.push_back({start, start + counts[rank] * elementBytes(datatype), isWritten});
  }
}

}  // namespace

void check(const AllToAllArguments& arguments, int /*rank*/, int rankCount) {
  checkCount("count", arguments.elementCount, arguments.datatype, rankCount);
  checkBuffer("sendbuff", arguments.send, "count", arguments.elementCount);
  checkBuffer("recvbuff", arguments.receive, "count", arguments.elementCount);
  const std::uint64_t bytes = arguments.elementCount * elementBytes(arguments.datatype) *
                              static_cast<std::uint64_t>(rankCount);
  expects(!overlap(arguments.send, bytes, arguments.receive, bytes),
          "sendbuff and recvbuff overlap; AlltoAll does not work in place");
}

void check(const AllToAllvArguments& arguments, int /*rank*/, int rankCount) {
  for (const auto* list : {&arguments.sendCounts, &arguments.sendOffsets, &arguments.receiveCounts,
                           &arguments.receiveOffsets}) {
    expects(list->size() == static_cast<std::size_t>(rankCount), "a list of ", list->size(),
            " counts or displacements for ", rankCount, " ranks");
  }
  checkParts("send", arguments.send, arguments.sendCounts, arguments.sendOffsets,
             arguments.datatype);
  checkParts("recv", arguments.receive, arguments.receiveCounts, arguments.receiveOffsets,
             arguments.datatype);
  std::vector<Extent> extents;
  extents.reserve(2 * static_cast<std::size_t>(rankCount));
  addExtents(extents, arguments.send, arguments.sendCounts, arguments.sendOffsets,
             arguments.datatype, false);
  addExtents(extents, arguments.receive, arguments.receiveCounts, arguments.receiveOffsets,
             arguments.datatype, true);
  expects(!collide(extents), "a part of recvbuff overlaps another part of recvbuff or of sendbuff");
}

CallOutcome run(Engine& engine, const AllToAllArguments& arguments) {
  const std::uint64_t partBytes = arguments.elementCount * elementBytes(arguments.datatype);
  std::vector<OutMessage> sends;
  std::vector<InMessage> receives;
  for (int rank = 0; rank < engine.rankCount() && partBytes != 0; ++rank) {
    const std::uint64_t at = static_cast<std::uint64_t>(rank) * partBytes;
    sends.push_back(
        {rank, bytesAt(arguments.send, at), arguments.elementCount, arguments.datatype});
    receives.push_back(
        {rank, bytesAt(arguments.receive, at), arguments.elementCount, arguments.datatype});
  }
  return PairExchange(engine, CollectiveKind::kAlltoAll, sends, receives, arguments.stream).run();
}

CallOutcome run(Engine& engine, const AllToAllvArguments& arguments) {
  const std::uint64_t bytesEach = elementBytes(arguments.datatype);
  std::vector<OutMessage> sends;
  std::vector<InMessage> receives;
  for (int rank = 0; rank < engine.rankCount(); ++rank) {
    const auto at = static_cast<std::size_t>(rank);
    if (arguments.sendCounts[at] != 0) {
      sends.push_back({rank, bytesAt(arguments.send, arguments.sendOffsets[at] * bytesEach),
                       arguments.sendCounts[at], arguments.datatype});
    }
    if (arguments.receiveCounts[at] != 0) {
      receives.push_back({rank,
                          bytesAt(arguments.receive, arguments.receiveOffsets[at] * bytesEach),
                          arguments.receiveCounts[at], arguments.datatype});
    }
  }
  return PairExchange(engine, CollectiveKind::kAlltoAllv, sends, receives, arguments.stream).run();
}

}  // namespace zipccl::collectives
