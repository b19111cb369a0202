// SPDX-License-Identifier: Apache-2.0
//
// Frames that all ranks get.

#include "collectives/frame_gather.hpp"

#include <algorithm>

#include "base/error.hpp"
#include "collectives/buffers.hpp"
#include "collectives/frame_check.hpp"
#include "collectives/frame_geometry.hpp"
#include "policy/chunks.hpp"

namespace zipccl::collectives {

std::uint64_t frameSlotBytes(const Engine::Plan& plan) {
  // The bound leaves room for this: it holds a frame rounded up.
  return policy::frameBoundBytes(plan.facts.geometry, plan.decision.chunkElements) /
         kSlotAlignment * kSlotAlignment;
}

FrameGather::FrameGather(Engine& engine, const GatherCall& call, const Engine::Plan& plan)
    : engine_(engine),
      call_(call),
      facts_(plan.facts),
      decision_(plan.decision),
      frameBytes_(frameSlotBytes(plan)),
      slots_(decision_.chunksInFlight),
      observation_(facts_.geometry) {
  outcome_.decision = decision_;
  const std::uint64_t ownFrames = call_.root ? 0 : 1;
  const std::uint64_t slotBytes = (partCount() + ownFrames) * frameBytes_;
  const std::span<std::byte> scratch = engine_.scratch.reserve(slots_.size() * slotBytes);
  for (std::size_t i = 0; i < slots_.size(); ++i) {
    slots_[i].scratch = scratch.subspan(i * slotBytes, slotBytes);
    slots_[i].frames.resize(partCount());
  }
  engine_.requests.clear();
  engine_.requests.resize(slots_.size());
}

CallOutcome FrameGather::run() {
  const std::uint64_t chunks = decision_.chunkCount;
  const std::uint64_t inFlight = slots_.size();
  for (std::uint64_t chunk = 0, started = 0; chunk < chunks; ++chunk) {
    for (; started < std::min(chunks, chunk + inFlight); ++started) start(started);
    finish(chunk);
  }
  outcome_.chunks = chunks;
  outcome_.stagedInputBytes = outcome_.inputBytes;
  return outcome_;
}

void FrameGather::start(std::uint64_t chunk) {
  Slot& slot = slotOf(chunk);
  slot.chunk = chunk;
  slot.staticBytes = 0;
  slot.dynamicBytes = 0;
  for (std::size_t part = 0; part < partCount(); ++part) {
    slot.frames[part] = chunkFrame(call_.datatype, facts_, decision_, elementsOf(part), chunk);
    slot.staticBytes = std::max(slot.staticBytes, slot.frames[part].staticBytes);
  }
  encodeOwn(slot);
  transport::Request& request = engine_.requests[chunk % slots_.size()];
  if (call_.root) {
    request = engine_.transport.startBroadcast(staticParts(slot), slot.staticBytes, *call_.root,
                                               call_.stream);
  } else if (slots_.size() > 1) {
    request = engine_.transport.startAllGather(ownFrame(slot), staticParts(slot), slot.staticBytes,
                                               call_.stream);
  } else {
    // The library's best all-gather may be one that blocks.
    engine_.transport.allGather(ownFrame(slot), staticParts(slot), slot.staticBytes, call_.stream);
  }
}

void FrameGather::encodeOwn(Slot& slot) {
  const std::optional<std::size_t> part = ownPart();
  if (!part) return;
  const ChunkFrame& frame = slot.frames[*part];
  const std::byte* source =
      bytesAt(call_.source, frame.firstElement * facts_.geometry.elementBytes);
  engine_.codec.encode(frame.spec, source, {ownFrame(slot), frameBytes_},
                       {.call = engine_.call, .chunk = slot.chunk}, call_.stream);
  poll();
  if (frame.staticBytes < slot.staticBytes) {
    // A smaller part than others: its dynamic bytes, where there are any, go along twice.
    engine_.codec.readReports(ownFrame(slot), 0, {&engine_.reports.front(), 1}, call_.stream);
    const std::uint64_t frameBytes = frame.staticBytes + engine_.reports.front().dynamicBytes;
    if (frameBytes < slot.staticBytes) {
      engine_.codec.clear(ownFrame(slot) + frameBytes, slot.staticBytes - frameBytes, call_.stream);
    }
  }
  std::byte* own = output(slot, *part).data();
  if (own != source) engine_.codec.copy(own, source, frame.sourceBytes, call_.stream);
}

void FrameGather::finish(std::uint64_t chunk) {
  Slot& slot = slotOf(chunk);
  engine_.transport.wait(engine_.requests[chunk % slots_.size()]);
  readReports(slot);
  moveDynamicParts(slot);
  decodeOthers(slot);
}

void FrameGather::readReports(Slot& slot) {
  const std::span<FrameReport> reports = std::span(engine_.reports).first(partCount());
  engine_.codec.readReports(staticParts(slot), slot.staticBytes, reports, call_.stream);
  for (std::size_t part = 0; part < partCount(); ++part) {
    const FrameReport& report = reports[part];
    const ChunkFrame& frame = slot.frames[part];
    checkReport(report, frame.spec, {.call = engine_.call, .chunk = slot.chunk}, engine_.rank(),
                rankOf(part));
    slot.dynamicBytes = std::max(slot.dynamicBytes, report.dynamicBytes);
    observation_.add({.layout = decision_.layout,
                      .tileCount = frame.tileCount(facts_.geometry),
                      .extraBytes = report.extraBytes,
                      .lowTiles = report.note.lowTiles});
  }
  if (const std::optional<std::size_t> part = ownPart()) {
    outcome_.inputBytes += slot.frames[*part].sourceBytes;
    outcome_.encodedBytes += slot.frames[*part].staticBytes + reports[*part].dynamicBytes;
    outcome_.plainBytes += slot.frames[*part].sourceBytes;
  }
}

void FrameGather::moveDynamicParts(Slot& slot) {
  if (slot.dynamicBytes == 0) return;
  outcome_.hadDynamicPart = true;
  if (call_.root) {
    engine_.transport.broadcast(dynamicParts(slot), slot.dynamicBytes, *call_.root, call_.stream);
    return;
  }
  const std::size_t part = *ownPart();
  std::byte* own = ownFrame(slot) + slot.frames[part].staticBytes;
  const std::uint64_t ownBytes = engine_.reports[part].dynamicBytes;
  engine_.codec.clear(own + ownBytes, slot.dynamicBytes - ownBytes, call_.stream);
  engine_.transport.allGather(own, dynamicParts(slot), slot.dynamicBytes, call_.stream);
}

void FrameGather::decodeOthers(const Slot& slot) {
  const std::optional<std::size_t> own = ownPart();
  const std::size_t first = own.value_or(0);
  // Each begins with its right neighbour, so that ranks of one process do not all read one buffer.
  for (std::size_t step = 0; step < partCount(); ++step) {
    const std::size_t part = (first + step) % partCount();
    if (part == own) continue;
    engine_.codec.decode(slot.frames[part].spec, frameOf(slot, part), output(slot, part),
                         &engine_.statuses[part], call_.stream);
    poll();
  }
  engine_.codec.finish(call_.stream);
  for (std::size_t part = 0; part < partCount(); ++part) {
    if (part == own) continue;
    checkStatus(engine_.statuses[part], {.call = engine_.call, .chunk = slot.chunk}, rankOf(part));
  }
}

void FrameGather::poll() {
  const auto active = std::find_if(engine_.requests.begin(), engine_.requests.end(),
                                   [](const auto& request) { return request.isActive(); });
  // Whatever is asked for, all go on.
  if (active != engine_.requests.end()) static_cast<void>(engine_.transport.test(*active));
}

std::optional<std::size_t> FrameGather::ownPart() const noexcept {
  if (!call_.root) return static_cast<std::size_t>(engine_.rank());
  return *call_.root == engine_.rank() ? std::optional<std::size_t>(0) : std::nullopt;
}

std::byte* FrameGather::ownFrame(const Slot& slot) const noexcept { return slot.scratch.data(); }

std::byte* FrameGather::staticParts(const Slot& slot) const noexcept {
  return slot.scratch.data() + (call_.root ? 0 : frameBytes_);
}

std::byte* FrameGather::dynamicParts(const Slot& slot) const noexcept {
  return staticParts(slot) + partCount() * slot.staticBytes;
}

FrameParts FrameGather::frameOf(const Slot& slot, std::size_t part) const {
  return {{staticParts(slot) + part * slot.staticBytes, slot.frames[part].staticBytes},
          {dynamicParts(slot) + part * slot.dynamicBytes, engine_.reports[part].dynamicBytes}};
}

std::span<std::byte> FrameGather::output(const Slot& slot, std::size_t part) const {
  const ChunkFrame& frame = slot.frames[part];
  const std::uint64_t element = call_.firstElement[part] + frame.firstElement;
  return {bytesAt(call_.target, element * facts_.geometry.elementBytes), frame.sourceBytes};
}

}  // namespace zipccl::collectives
