// SPDX-License-Identifier: Apache-2.0
//
// The host codec as work of streams: each job is copied into the work that is queued.

#include "collectives/host_stream_codec.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <thread>
#include <vector>

#include "base/error.hpp"
#include "base/shared_word.hpp"
#include "codec/bytes.hpp"
#include "codec/layout.hpp"
#include "collectives/datatype.hpp"

namespace zipccl::collectives {
namespace {

void note(std::uint32_t* status, codec::DecodeStatus found) {
  if (found == codec::DecodeStatus::kOk) return;
  std::atomic_ref(*status).fetch_or(1U << static_cast<unsigned>(found));
}

/// What a stream must not throw becomes a damaged frame, which the reader finds.
template <class Work>
bool succeeds(const Work& work) noexcept {
  try {
    work();
    return true;
  } catch (...) {
    return false;
  }
}

void encodeNow(const EncodeJob& job) {
  const bool isDone = succeeds([&] {
    FrameNote sealed = job.note;
    sealed.lowTiles = codec::encode(job.spec, job.source, job.frame).lowTiles;
    sealHeader(job.frame, sealed);
  });
  if (!isDone) std::memset(job.frame.data(), 0, codec::kHeaderBytes);
}

void decodeNow(const DecodeJob& job) {
  const std::uint64_t bytes = job.spec.elementCount * codec::elementBytes(job.spec.datatype);
  note(job.status, codec::decode(job.spec, job.frame.staticPart, job.frame.dynamicPart,
                                 {static_cast<std::byte*>(job.output), bytes}));
}

void reduceNow(const ReduceJob& job, const std::vector<AddendFrame>& frames) {
  std::vector<Addend> addends;
  for (const AddendFrame& each : frames) {
    Addend addend{.frame = each.frame, .spec = job.spec};
    addend.spec.poolBytes = each.poolBytes;
    addends.push_back(addend);
  }
  const std::uint64_t bytes = job.spec.elementCount * codec::elementBytes(job.spec.datatype);
  note(job.status, codec::decodeReduce(job.spec.datatype, job.spec.elementCount, addends,
                                       job.factor, {static_cast<std::byte*>(job.output), bytes})
                       .status);
}

void compareNow(const CompareJob& job) {
  const auto* const expected = static_cast<const std::byte*>(job.expected);
  const auto* const end = expected + job.bytes;
  const auto* const wrong =
      std::mismatch(expected, end, static_cast<const std::byte*>(job.found)).first;
  if (wrong == end) return;
  storeRelease(*job.verdict, verdictOf(static_cast<std::uint64_t>(wrong - expected)));
}

using PartList = std::vector<DynamicPart>;

void showHeaders(const PartList& parts, const Gate& gate) {
  for (std::size_t i = 0; i < parts.size(); ++i) {
    std::memcpy(gate.slot->headers[i], parts[i].header, codec::kHeaderBytes);
  }
  storeRelease(gate.slot->number, gate.number);
}

std::uint64_t movedBytesOf(const DynamicPart& part) {
  if (part.part == nullptr) return 0;
  const auto header = codec::loadWord<codec::HeaderBytes>(part.header);
  return codec::movedBytesOf(header.poolBytes, header.extraBytes, part.capacity);
}

/// Waits until `isHere()`; false if the window is aborted before.
template <class Condition>
bool waitUntil(const codec::DynamicWindow& window, const Condition& isHere) {
  constexpr int kYields = 64;
  for (int look = 0; !isHere(); ++look) {
    if (loadAcquire(window.isAborted) != 0) return false;
    if (look < kYields) {
      std::this_thread::yield();
    } else {
      std::this_thread::sleep_for(std::chrono::microseconds(50));
    }
  }
  return true;
}

void exportNow(const PartList& parts, const Gate& gate) {
  showHeaders(parts, gate);
  codec::DynamicWindow& window = *gate.window;
  std::uint64_t piece = window.exported;
  for (const DynamicPart& part : parts) {
    const std::uint64_t bytes = movedBytesOf(part);
    for (std::uint64_t done = 0; done < bytes; done += codec::kPieceBytes) {
      if (!waitUntil(window, [&] { return codec::hasPlace(piece, loadAcquire(window.taken)); })) {
        return;
      }
      std::memcpy(window.out[piece % codec::kWindowPieces], part.part + done,
                  codec::pieceBytesAt(bytes, done));
      storeRelease(window.exported, ++piece);
    }
  }
}

void importNow(const PartList& parts, const Gate& gate) {
  showHeaders(parts, gate);
  codec::DynamicWindow& window = *gate.window;
  std::uint64_t piece = window.imported;
  for (const DynamicPart& part : parts) {
    const std::uint64_t bytes = movedBytesOf(part);
    for (std::uint64_t done = 0; done < bytes; done += codec::kPieceBytes) {
      if (!waitUntil(window, [&] { return piece < loadAcquire(window.given); })) return;
      std::memcpy(part.part + done, window.in[piece % codec::kWindowPieces],
                  codec::pieceBytesAt(bytes, done));
      storeRelease(window.imported, ++piece);
    }
  }
}

PartList listOf(std::span<const DynamicPart> parts) {
  expects(parts.size() <= codec::kMostGateFrames, "a gate takes no ", parts.size(), " frames");
  return {parts.begin(), parts.end()};
}

class HostStreamCodec final : public StreamCodec {
 public:
  explicit HostStreamCodec(transport::HostStreamDevice& device) : device_(device) {}

  void encode(std::span<const EncodeJob> jobs, transport::StreamHandle stream) override {
    for (const EncodeJob& job : jobs) device_.enqueue(stream, [job] { encodeNow(job); });
  }

  void decode(std::span<const DecodeJob> jobs, transport::StreamHandle stream) override {
    for (const DecodeJob& job : jobs) device_.enqueue(stream, [job] { decodeNow(job); });
  }

  void decodeReduce(const ReduceJob& job, transport::StreamHandle stream) override {
    device_.enqueue(
        stream, [job, addends = std::vector<AddendFrame>(job.addends.begin(), job.addends.end())] {
          reduceNow(job, addends);
        });
  }

  void compare(const CompareJob& job, transport::StreamHandle stream) override {
    device_.enqueue(stream, [job] { compareNow(job); });
  }

  void exportDynamic(std::span<const DynamicPart> parts, const Gate& gate,
                     transport::StreamHandle stream) override {
    device_.enqueue(stream, [list = listOf(parts), gate] { exportNow(list, gate); });
  }

  void importDynamic(std::span<const DynamicPart> parts, const Gate& gate,
                     transport::StreamHandle stream) override {
    device_.enqueue(stream, [list = listOf(parts), gate] { importNow(list, gate); });
  }

 private:
  transport::HostStreamDevice& device_;
};

}  // namespace

std::unique_ptr<StreamCodec> makeHostStreamCodec(transport::HostStreamDevice& device) {
  return std::make_unique<HostStreamCodec>(device);
}

}  // namespace zipccl::collectives
