// SPDX-License-Identifier: Apache-2.0
//
// AllGather, native and staged.

#include "collectives/all_gather.hpp"

#include <algorithm>
#include <cstddef>
#include <vector>

#include "base/error.hpp"
#include "collectives/buffers.hpp"
#include "collectives/chunk_frames.hpp"
#include "collectives/frame_gather.hpp"

namespace zipccl::collectives {
namespace {

CallOutcome gatherStaged(Engine& engine, const GatherCall& call, const Engine::Plan& plan) {
  FrameGather gather(engine, call, plan);
  const CallOutcome outcome = gather.run();
  plan.endStaged(gather.extraSeen());
  return outcome;
}

/// Parts of any size: each rank sends its own to all others.
void gatherNative(Engine& engine, const PartsToGather& parts) {
  const std::uint64_t bytesEach = elementBytes(parts.datatype);
  const auto partOf = [&](int rank) {
    const auto at = static_cast<std::size_t>(rank);
    return std::span(bytesAt(parts.buffer, parts.firstElement[at] * bytesEach),
                     (parts.firstElement[at + 1] - parts.firstElement[at]) * bytesEach);
  };
  std::vector<transport::SendMessage> sends;
  std::vector<transport::ReceiveMessage> receives;
  const std::span<std::byte> own = partOf(engine.rank());
  for (int step = 1; step < engine.rankCount(); ++step) {
    const int peer = (engine.rank() + step) % engine.rankCount();
    const std::span<std::byte> theirs = partOf(peer);
    if (!own.empty()) sends.push_back({peer, own.data(), own.size()});
    if (!theirs.empty()) receives.push_back({peer, theirs.data(), theirs.size()});
  }
  engine.transport.exchange(sends, receives, parts.stream);
}

/// Whether in each chunk the largest static part and the largest dynamic part, which may be of
/// different ranks, fit together where one frame does: that they are padded to. The raw tail of a
/// smaller part may be larger than the coded tile that others have in its place. All ranks find the
/// same.
bool paddedFramesFit(const PartsToGather& parts, const Engine::Plan& plan) {
  const policy::FrameGeometry& geometry = plan.facts.geometry;
  const std::uint64_t frameBytes = frameSlotBytes(plan);
  for (std::uint64_t chunk = 0; chunk < plan.decision.chunkCount; ++chunk) {
    std::uint64_t staticBytes = 0;
    std::uint64_t dynamicBytes = 0;
    for (std::size_t part = 0; part + 1 < parts.firstElement.size(); ++part) {
      const ChunkFrame frame =
          chunkFrame(parts.datatype, plan.facts, plan.decision,
                     parts.firstElement[part + 1] - parts.firstElement[part], chunk);
      const std::uint64_t extraBytes =
          frame.tileCount(geometry) * geometry.maxExtraBytes(plan.decision.layout);
      staticBytes = std::max(staticBytes, frame.staticBytes);
      dynamicBytes =
          std::max(dynamicBytes, extraBytes - std::min(extraBytes, frame.spec.poolBytes));
    }
    if (staticBytes + dynamicBytes > frameBytes) return false;
  }
  return true;
}

}  // namespace

void check(const AllGatherArguments& arguments, int rank, int rankCount) {
  if (arguments.elementCount == 0) return;
  checkCount("sendcount", arguments.elementCount, arguments.datatype, rankCount);
  checkBuffer("sendbuff", arguments.send, "sendcount", arguments.elementCount);
  checkBuffer("recvbuff", arguments.receive, "sendcount", arguments.elementCount);

  const std::uint64_t shardBytes = arguments.elementCount * elementBytes(arguments.datatype);
  const auto send = reinterpret_cast<std::uintptr_t>(arguments.send);
  const auto receive = reinterpret_cast<std::uintptr_t>(arguments.receive);
  const std::uint64_t totalBytes = shardBytes * static_cast<std::uint64_t>(rankCount);
  const bool isInPlace = send == receive + static_cast<std::uint64_t>(rank) * shardBytes;
  const bool isApart = !overlap(arguments.send, shardBytes, arguments.receive, totalBytes);
  expects(isInPlace || isApart, "sendbuff begins ", static_cast<std::int64_t>(send - receive),
          " bytes after recvbuff and overlaps it; only ",
          static_cast<std::uint64_t>(rank) * shardBytes,
          ", this rank's place in recvbuff, is allowed");
}

CallOutcome run(Engine& engine, const AllGatherArguments& arguments) {
  const Engine::Plan plan =
      engine.plan(CollectiveKind::kAllGather, arguments.datatype, arguments.elementCount);
  if (plan.decision.strategy == policy::Strategy::kStaged) {
    std::vector<std::uint64_t> firstElement;
    for (std::uint64_t rank = 0; rank <= static_cast<std::uint64_t>(engine.rankCount()); ++rank) {
      firstElement.push_back(rank * arguments.elementCount);
    }
    return gatherStaged(engine,
                        {.source = arguments.send,
                         .target = arguments.receive,
                         .firstElement = firstElement,
                         .datatype = arguments.datatype,
                         .root = std::nullopt,
                         .stream = arguments.stream},
                        plan);
  }
  const std::uint64_t shardBytes = arguments.elementCount * elementBytes(arguments.datatype);
  if (shardBytes != 0) {
    engine.transport.allGather(arguments.send, arguments.receive, shardBytes, arguments.stream);
  }
  plan.endNative();
  CallOutcome outcome;
  outcome.decision = plan.decision;
  outcome.inputBytes = shardBytes;
  return outcome;
}

CallOutcome gatherParts(Engine& engine, const PartsToGather& parts, policy::Strategy strategy) {
  const std::uint64_t partElements = parts.firstElement[1] - parts.firstElement[0];
  if (engine.rankCount() == 1 || partElements == 0) return {};
  if (strategy == policy::Strategy::kStaged) {
    const Engine::Plan plan = engine.planGather(parts.collective, parts.datatype, partElements);
    const auto own = static_cast<std::size_t>(engine.rank());
    if (paddedFramesFit(parts, plan)) {
      return gatherStaged(
          engine,
          {.source = bytesAt(parts.buffer, parts.firstElement[own] * elementBytes(parts.datatype)),
           .target = parts.buffer,
           .firstElement = parts.firstElement,
           .datatype = parts.datatype,
           .root = std::nullopt,
           .stream = parts.stream},
          plan);
    }
  }
  const std::uint64_t partBytes = partElements * elementBytes(parts.datatype);
  const auto ranks = static_cast<std::uint64_t>(engine.rankCount());
  if (parts.firstElement.back() == ranks * partElements) {
    const std::byte* own =
        bytesAt(parts.buffer, static_cast<std::uint64_t>(engine.rank()) * partBytes);
    engine.transport.allGather(own, parts.buffer, partBytes, parts.stream);
  } else {
    gatherNative(engine, parts);
  }
  return {};
}

}  // namespace zipccl::collectives
