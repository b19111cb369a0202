// SPDX-License-Identifier: Apache-2.0
//
// AllGather, native and staged.

#include "collectives/all_gather.hpp"

#include <algorithm>
#include <cstddef>
#include <limits>
#include <span>

#include "base/error.hpp"
#include "collectives/frame_check.hpp"
#include "policy/chunks.hpp"

namespace zipccl::collectives {
namespace {

const std::byte* bytesAt(const void* buffer, std::uint64_t offsetBytes) {
  return static_cast<const std::byte*>(buffer) + offsetBytes;
}

std::byte* bytesAt(void* buffer, std::uint64_t offsetBytes) {
  return static_cast<std::byte*>(buffer) + offsetBytes;
}

/// One staged call. The scratch of a chunk:
///
///   | own frame: static | dynamic ... | static parts of ranks 0, 1, ... | dynamic parts, padded
///   ... | 0                   staticBytes   frameBoundBytes                    + ranks *
///   staticBytes
class StagedAllGather {
 public:
  StagedAllGather(Engine& engine, const AllGatherArguments& arguments, const Engine::Plan& plan)
      : engine_(engine),
        arguments_(arguments),
        facts_(plan.facts),
        decision_(plan.decision),
        ranks_(static_cast<std::uint64_t>(engine.rankCount())),
        frameBoundBytes_(policy::frameBoundBytes(facts_.geometry, decision_.chunkElements)),
        scratch_(engine.scratch.reserve((ranks_ + 1) * frameBoundBytes_)),
        observation_(facts_.geometry) {
    outcome_.decision = decision_;
  }

  CallOutcome run() {
    for (chunk_ = 0; chunk_ < decision_.chunkCount; ++chunk_) {
      beginChunk();
      encodeOwn();
      gatherStaticParts();
      readReports();
      gatherDynamicParts();
      decodeOthers();
    }
    outcome_.chunks = decision_.chunkCount;
    return outcome_;
  }

  [[nodiscard]] const policy::ExtraSpace& extraSeen() const { return observation_.extra(); }

 private:
  void beginChunk() {
    firstElement_ = chunk_ * decision_.chunkElements;
    const std::uint64_t count =
        std::min(decision_.chunkElements, arguments_.elementCount - firstElement_);
    spec_.datatype = *codedDatatype(arguments_.datatype);
    spec_.layout = decision_.layout == policy::FrameLayout::kWide ? codec::Layout::kWide
                                                                  : codec::Layout::kNarrow;
    spec_.elementCount = count;
    spec_.poolBytes =
        policy::poolBytes(facts_.geometry, decision_.layout, facts_.statistics, count);
    spec_.checksum = facts_.settings.checksum;
    staticBytes_ = codec::staticBytes(spec_);
    chunkBytes_ = count * facts_.geometry.elementBytes;
  }

  void encodeOwn() {
    const std::uint64_t offsetBytes = firstElement_ * facts_.geometry.elementBytes;
    const std::byte* source = bytesAt(arguments_.send, offsetBytes);
    engine_.codec.encode(spec_, source, scratch_.first(frameBoundBytes_),
                         {.call = engine_.call, .chunk = chunk_}, arguments_.stream);
    std::byte* own = output(static_cast<std::uint64_t>(engine_.rank())).data();
    if (own != source) engine_.codec.copy(own, source, chunkBytes_, arguments_.stream);
  }

  void gatherStaticParts() {
    engine_.transport.allGather(scratch_.data(), staticParts(), staticBytes_, arguments_.stream);
  }

  void readReports() {
    engine_.codec.readReports(staticParts(), staticBytes_, engine_.reports, arguments_.stream);
    paddedDynamicBytes_ = 0;
    for (int rank = 0; rank < engine_.rankCount(); ++rank) {
      const FrameReport& report = engine_.reports[static_cast<std::size_t>(rank)];
      checkReport(report, spec_, {.call = engine_.call, .chunk = chunk_}, engine_.rank(), rank);
      paddedDynamicBytes_ = std::max(paddedDynamicBytes_, report.dynamicBytes);
      observation_.add({.layout = decision_.layout,
                        .tileCount = spec_.elementCount / facts_.geometry.tileElements,
                        .extraBytes = report.extraBytes,
                        .lowTiles = report.note.lowTiles});
    }
    outcome_.inputBytes += chunkBytes_;
    outcome_.encodedBytes += staticBytes_ + ownReport().dynamicBytes;
  }

  void gatherDynamicParts() {
    if (paddedDynamicBytes_ == 0) return;
    outcome_.hadDynamicPart = true;
    std::byte* own = scratch_.data() + staticBytes_;
    const std::uint64_t ownBytes = ownReport().dynamicBytes;
    engine_.codec.clear(own + ownBytes, paddedDynamicBytes_ - ownBytes, arguments_.stream);
    engine_.transport.allGather(own, dynamicParts(), paddedDynamicBytes_, arguments_.stream);
  }

  void decodeOthers() {
    const auto ownRank = static_cast<std::uint64_t>(engine_.rank());
    // Each begins with its right neighbour, so that ranks of one process do not all read one
    // buffer.
    for (std::uint64_t step = 1; step < ranks_; ++step) {
      const std::uint64_t peer = (ownRank + step) % ranks_;
      engine_.codec.decode(spec_, frameOf(peer), output(peer), &engine_.statuses[peer],
                           arguments_.stream);
    }
    engine_.codec.finish(arguments_.stream);
    for (std::uint64_t peer = 0; peer < ranks_; ++peer) {
      if (peer == ownRank) continue;
      checkStatus(engine_.statuses[peer], {.call = engine_.call, .chunk = chunk_},
                  static_cast<int>(peer));
    }
  }

  [[nodiscard]] const FrameReport& ownReport() const {
    return engine_.reports[static_cast<std::size_t>(engine_.rank())];
  }
  [[nodiscard]] std::byte* staticParts() const { return scratch_.data() + frameBoundBytes_; }
  [[nodiscard]] std::byte* dynamicParts() const { return staticParts() + ranks_ * staticBytes_; }
  [[nodiscard]] FrameParts frameOf(std::uint64_t rank) const {
    return {{staticParts() + rank * staticBytes_, staticBytes_},
            {dynamicParts() + rank * paddedDynamicBytes_, engine_.reports[rank].dynamicBytes}};
  }
  [[nodiscard]] std::span<std::byte> output(std::uint64_t rank) const {
    const std::uint64_t element = rank * arguments_.elementCount + firstElement_;
    return {bytesAt(arguments_.receive, element * facts_.geometry.elementBytes), chunkBytes_};
  }

  Engine& engine_;
  const AllGatherArguments& arguments_;
  const policy::CallFacts& facts_;
  const policy::Decision& decision_;
  std::uint64_t ranks_;
  std::uint64_t frameBoundBytes_;
  std::span<std::byte> scratch_;
  policy::CallObservation observation_;
  CallOutcome outcome_;

  // Of the chunk in work.
  std::uint64_t chunk_ = 0;
  std::uint64_t firstElement_ = 0;
  std::uint64_t chunkBytes_ = 0;
  codec::FrameSpec spec_;
  std::uint64_t staticBytes_ = 0;
  std::uint64_t paddedDynamicBytes_ = 0;
};

}  // namespace

void check(const AllGatherArguments& arguments, int rank, int rankCount) {
  if (arguments.elementCount == 0) return;
  const std::uint64_t mostBytes = std::numeric_limits<std::ptrdiff_t>::max();
  const std::uint64_t mostElements =
      mostBytes / elementBytes(arguments.datatype) / static_cast<std::uint64_t>(rankCount);
  expects(arguments.elementCount <= mostElements, "sendcount is ", arguments.elementCount,
          "; at most ", mostElements, " elements of ", datatypeName(arguments.datatype), " on ",
          rankCount, " ranks can be addressed");
  expects(arguments.send != nullptr, "sendbuff is null, but sendcount is ", arguments.elementCount);
  expects(arguments.receive != nullptr, "recvbuff is null, but sendcount is ",
          arguments.elementCount);

  const std::uint64_t shardBytes = arguments.elementCount * elementBytes(arguments.datatype);
  const auto send = reinterpret_cast<std::uintptr_t>(arguments.send);
  const auto receive = reinterpret_cast<std::uintptr_t>(arguments.receive);
  const std::uint64_t totalBytes = shardBytes * static_cast<std::uint64_t>(rankCount);
  const bool isInPlace = send == receive + static_cast<std::uint64_t>(rank) * shardBytes;
  const bool isApart = send + shardBytes <= receive || receive + totalBytes <= send;
  expects(isInPlace || isApart, "sendbuff begins ", static_cast<std::int64_t>(send - receive),
          " bytes after recvbuff and overlaps it; only ",
          static_cast<std::uint64_t>(rank) * shardBytes,
          ", this rank's place in recvbuff, is allowed");
}

CallOutcome allGather(Engine& engine, const AllGatherArguments& arguments) {
  const Engine::Plan plan =
      engine.plan(CollectiveKind::kAllGather, arguments.datatype, arguments.elementCount);
  if (plan.decision.strategy == policy::Strategy::kStaged) {
    StagedAllGather staged(engine, arguments, plan);
    CallOutcome outcome = staged.run();
    plan.classEntry->statistics =
        policy::afterStaged(plan.classEntry->statistics, staged.extraSeen());
    return outcome;
  }
  const std::uint64_t shardBytes = arguments.elementCount * elementBytes(arguments.datatype);
  if (shardBytes != 0) {
    engine.transport.allGather(arguments.send, arguments.receive, shardBytes, arguments.stream);
  }
  if (plan.classEntry != nullptr) {
    plan.classEntry->statistics = policy::afterNative(plan.classEntry->statistics);
  }
  return {.decision = plan.decision, .inputBytes = shardBytes};
}

}  // namespace zipccl::collectives
